"""Servers of Redis and Valkey on free ports of this machine. Each ends with its block, or with this process."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.ports import HOST

REPOSITORY = Path(__file__).resolve().parents[1]
START_SECONDS = 20


@contextmanager
def running(command: Sequence[str], port: int, log: Path) -> Iterator[None]:
    """A server that listens on the port. What it has said is printed at the end: pytest shows it after a failure."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "project.watched", *command],
            cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        _wait_until_it_listens(process, port)
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)
        print(log.read_text())  # noqa: T201 - pytest keeps it for the report


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "The server did not start; its log stands below."
        with closing(socket.socket()) as one:
            if one.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"Nobody listens on port {port} after {START_SECONDS} s; the log stands below.")
