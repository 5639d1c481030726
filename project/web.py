"""Gunicorn with several processes, as a site would run it."""

from __future__ import annotations

import gc
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.urls import get_resolver

if TYPE_CHECKING:
    from django.contrib.staticfiles.handlers import StaticFilesHandler

PROCESSES, THREADS = 3, 2
"""Six slots: views that wait 30 ms are at most 200 requests/s on whatever machine, so that a flood is more than that.
More processes of fewer threads, since threads of one process wait for each other to compute."""
PORT = 8000
"""Tried first; any free one where somebody has it."""
START_SECONDS = 60
SWITCH_SECONDS = 0.0005

REPOSITORY = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Web:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def serving() -> Iterator[Web]:
    """The portal under gunicorn, in this process's environment, until the block ends or this process does."""
    # We listen before gunicorn starts and hand the socket over: so nobody can take the port in between.
    with _listening() as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
            [sys.executable, "-m", "project.watched", *_command(listener.fileno())],
            cwd=REPOSITORY,
            env=os.environ | {"CONN_MAX_AGE": "60"},
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # else a Ctrl-C ends it before those who still ask it
        )
    try:
        _wait_until_it_answers(process, port)
        yield Web(f"http://{HOST}:{port}", process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _command(listener: int) -> list[str]:
    options = {
        "bind": f"fd://{listener}",
        "workers": PROCESSES,
        "threads": THREADS,
        "worker-class": "gthread",
        # Longer than any pause between two requests of a flood, so that no connection closes under one.
        "keep-alive": 30,
        "graceful-timeout": 5,
        "log-level": "warning",
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "gunicorn", "project.web:warm()", "--preload", *arguments]


def warm() -> StaticFilesHandler:
    """The application for gunicorn, which forks its processes from one that has imported everything."""
    from project.wsgi import application  # noqa: PLC0415 - it sets Django up, which the demo does in its own time

    get_resolver().url_patterns  # noqa: B018 - else the first request of each process imports all views
    # What all processes share is never garbage: without this every full collection would look through it, and copy it.
    gc.freeze()
    # A thread that wakes up waits so long for one that computes. By default it is 5 ms, several times in a request.
    sys.setswitchinterval(SWITCH_SECONDS)
    return application


def _listening() -> socket.socket:
    try:
        return socket.create_server((HOST, PORT))
    except OSError:
        return socket.create_server((HOST, 0))


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError("Gunicorn did not start; its error stands above.")
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(HOST, port, timeout=5)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"Gunicorn did not answer /healthz within {START_SECONDS} s.")
