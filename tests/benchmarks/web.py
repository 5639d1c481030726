"""Whole requests: a trivial view behind gunicorn and uvicorn, asked by wrk as fast as it answers. P7.

One process serves all cases, which are paths of one application, in turns: so a slow second meets all of them. It has a
processor of its own; wrk and the store share another, as if the store were on another machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import cpus, median_ratio
from tests.benchmarks.rows import Row, missing
from tests.ports import free_port

ABOUT = "whole requests behind gunicorn and uvicorn"
ROUNDS = 6
SECONDS = 2
CONNECTIONS = 8
START_SECONDS = 30
NO_WRK = "wrk is not installed: on Debian, apt-get install wrk"
APPLICATION = "tests.benchmarks.site.application"
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Asked:
    """A row: the throughput of one path as part of another's."""

    what: str
    path: str
    base: str = "bare"
    must: float | None = None
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """A server program and what is asked of it. `command` gets the port on which it listens."""

    name: str
    command: Sequence[str]
    asked: Sequence[Asked]


GUNICORN = Site(
    "gunicorn",
    (
        *("gunicorn", f"{APPLICATION}:wsgi", "--bind=127.0.0.1:{port}", "--workers=1", "--worker-class=gthread"),
        *("--threads=4", "--keep-alive=30", "--log-level=warning"),
    ),
    (
        Asked("a trivial DRF view behind gunicorn keeps of its throughput", "ours", must=0.70, goal=0.80),
        Asked("behind gunicorn with one DRF throttle", "one"),
        Asked("behind gunicorn with four DRF throttles", "four"),
    ),
)
UVICORN = Site(
    "uvicorn",
    ("uvicorn", f"{APPLICATION}:asgi", "--port={port}", "--log-level=warning", "--no-access-log", "--lifespan=off"),
    (
        Asked("the trivial DRF view behind uvicorn keeps", "ours"),
        Asked("behind uvicorn with four DRF throttles", "four"),
        Asked("an async view behind uvicorn keeps", "async-ours", base="async-bare"),
    ),
)


class NoAnswer(RuntimeError):
    """A site did not start, or answered something else."""


def rows(bench: Bench) -> Iterator[Row]:
    """P7 for both servers."""
    for site in (GUNICORN, UVICORN):
        try:
            yield from _measured(bench, site)
        except NoAnswer as error:
            yield from (missing("P7", asked.what, str(error)) for asked in site.asked)


def _measured(bench: Bench, site: Site) -> list[Row]:
    if shutil.which("wrk") is None:
        raise NoAnswer(NO_WRK)
    paths = sorted({path for asked in site.asked for path in (asked.base, asked.path)})
    found: dict[str, list[float]] = {path: [] for path in paths}
    with serving(bench, site) as port:
        for path in paths:
            per_second(port, path, 1)
        for number in range(ROUNDS):
            for path in paths if number % 2 == 0 else reversed(paths):
                found[path].append(per_second(port, path, SECONDS))
    return [
        Row("P7", one.what, one.must, one.goal, median_ratio(found[one.path], found[one.base]), more_is_better=True)
        for one in site.asked
    ]


def per_second(port: int, path: str, seconds: int) -> float:
    """Requests that wrk got through in a second."""
    url = f"http://127.0.0.1:{port}/{path}/"
    asking = ["wrk", "--threads=1", f"--connections={CONNECTIONS}", f"--duration={seconds}s", url]
    said = subprocess.run(asking, capture_output=True, text=True, check=True, timeout=seconds + 30).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise NoAnswer(f"/{path}/ does not always answer 200")
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found, said
    return float(found[1])


@contextmanager
def serving(bench: Bench, site: Site) -> Iterator[int]:
    """Run the site on a processor of its own; the port where it answers. It ends with us, however we end."""
    theirs, ours = min(cpus()), max(cpus())
    port = free_port()
    command = [sys.executable, "-m", "project.watched", sys.executable, "-m"]
    command += [part.format(port=port) for part in site.command]
    bench.server.pin(theirs, ours)  # a child has its parent's processors
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, start_new_session=True)
    bench.server.pin(ours, ours)
    try:
        _wait_until_it_answers(process, port)
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/ours/")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            time.sleep(0.1)
        finally:
            connection.close()
    raise NoAnswer("the site did not start; its error stands above")
