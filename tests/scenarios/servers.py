"""Gunicorn and uvicorn with the site, on free ports of this machine. Each ends with its block, or with this process."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
WORKERS = 4
START_SECONDS = 60
"""A machine that is busy with something else gets its time."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int
    process: subprocess.Popen[bytes]


def gunicorn(*, workers: int = WORKERS, threads: int = 4) -> Sequence[str]:
    """The arguments for processes, each with threads: gunicorn's sync workers keep no connection alive."""
    options = {
        "workers": workers,
        "threads": threads,
        "worker-class": "gthread",
        "keep-alive": 60,
        "timeout": 0,
        "graceful-timeout": 1,
        "log-level": "warning",
        "config": "python:tests.scenarios.site.gunicorn_hooks",
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return ["-m", "gunicorn", "tests.scenarios.site.wsgi:application", "--preload", *arguments, "--bind=fd://{fd}"]


def uvicorn() -> Sequence[str]:
    """The arguments for one process with an event loop."""
    return ["-m", "tests.scenarios.site.asgi", "{fd}"]


@contextmanager
def serving(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[Server]:
    """A server that answers. What it has logged is printed at the end: pytest shows it where the test has failed."""
    # We listen before the server starts and hand the socket over: so nobody can take the port in between.
    log = Path(environment["SITE_LOG"])
    with socket.create_server((HOST, 0), backlog=1024) as listener, log.open("ab") as output:
        port = listener.getsockname()[1]
        command = [sys.executable, *(one.format(fd=listener.fileno()) for one in arguments)]
        process = subprocess.Popen(
            [sys.executable, "-m", "project.watched", *command],
            cwd=REPOSITORY,
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    try:
        _wait_until_it_answers(process, port)
        yield Server(port, process)
    finally:
        process.terminate()
        process.communicate(timeout=30)
        print(log.read_text())  # noqa: T201 - pytest keeps it for the report


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "The server did not start; its log stands below."
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        with suppress(OSError, http.client.HTTPException), closing(connection):
            connection.request("GET", "/health/")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise AssertionError(f"The server did not answer within {START_SECONDS} s; its log stands below.")
