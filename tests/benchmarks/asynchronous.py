"""A decision from an event loop, beside one from a thread. P8."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

import redis.asyncio

from tenantlimits.gate import aadmit, admit
from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import AsyncCase, Case, Measured, compare
from tests.benchmarks.rows import Row

ABOUT = "event loops and threads"


def rows(bench: Bench) -> Iterator[Row]:
    """P8: the engine alone, all of the gate, and redis-py for comparison."""
    with closing(asyncio.new_event_loop()) as loop:
        yield from _measured(bench, loop)
        loop.run_until_complete(loop.shutdown_asyncgens())


def _measured(bench: Bench, loop: asyncio.AbstractEventLoop) -> Iterator[Row]:
    client = redis.asyncio.Redis(host="127.0.0.1", port=bench.server.port)
    ask = bench.asking("bolt")
    cases: dict[str, Measured] = {
        "noop": Case(bench.noop),
        "anoop": AsyncCase(lambda: client.evalsha(bench.noop_sha, 0), loop),
        "run": Case(ask),
        "arun": AsyncCase(ask.awaited, loop),
        "admit": Case(lambda: admit(lane="rates", tenant="acme")),
        "aadmit": AsyncCase(lambda: aadmit(lane="rates", tenant="acme"), loop),
    }
    found = compare(cases, server=bench.server, rounds=50)
    loop.run_until_complete(client.aclose())
    yield Row("P8", "a decision from asyncio over one from a thread", 1.5, 1.1, found["arun"].over(found["run"]))
    yield Row("P8", "the same for all of `aadmit` over `admit`", 1.5, 1.1, found["aadmit"].over(found["admit"]))
    yield Row("P8", "redis.asyncio's no-op over redis-py's", measured=found["anoop"].over(found["noop"]))
