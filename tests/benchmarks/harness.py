"""Measures ratios on a machine that other work disturbs: a server of its own, interleaved rounds, medians.

Client and server share one CPU, since waking an idle virtual CPU costs more than most of what is measured here, and
swings with the neighbours. Rounds go A B B A, and a ratio is the median of the ratios within the rounds, so a slow
second hits both sides of it. Absolute times are for the reader's orientation only: never publish them.
"""

from __future__ import annotations

import gc
import os
import socket
import statistics
import subprocess
import tempfile
import time
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import redis

from tests.ports import free_port

Call = Callable[[], object]


class Measured(Protocol):
    """Something that can be called many times."""

    def run(self, calls: int) -> int:
        """The nanoseconds that so many calls took."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured: one call, and what has to be done before each one, untimed."""

    call: Call
    prepare: Call | None = None

    def run(self, calls: int) -> int:
        """The nanoseconds that so many calls took."""
        call, prepare, taken = self.call, self.prepare or _nothing, 0
        for _ in range(calls):
            prepare()
            begun = time.perf_counter_ns()
            call()
            taken += time.perf_counter_ns() - begun
        return taken


@dataclass(frozen=True, slots=True)
class AsyncCase:
    """The same from an event loop, one call after another."""

    call: Callable[[], Awaitable[object]]
    loop: AbstractEventLoop

    def run(self, calls: int) -> int:
        """The nanoseconds that so many calls took."""
        return self.loop.run_until_complete(self._awaited(calls))

    async def _awaited(self, calls: int) -> int:
        call, taken = self.call, 0
        for _ in range(calls):
            begun = time.perf_counter_ns()
            await call()
            taken += time.perf_counter_ns() - begun
        return taken


@dataclass(frozen=True, slots=True)
class Timing:
    """What the calls of a case took in every round, in microseconds per call: wall, our CPU, the server's CPU."""

    rounds: Sequence[tuple[float, float, float]]

    @property
    def medians(self) -> tuple[float, ...]:
        """Wall, our CPU, the server's CPU."""
        return tuple(statistics.median(each) for each in zip(*self.rounds, strict=True))

    @property
    def wall(self) -> list[float]:
        """Wall time in every round."""
        return [one[0] for one in self.rounds]

    @property
    def client(self) -> list[float]:
        """Our own CPU time in every round, what a case prepares included."""
        return [one[1] for one in self.rounds]

    def over(self, base: Timing) -> float:
        """How many times the wall time of another case, measured in the same rounds."""
        return median_ratio(self.wall, base.wall)

    def beyond(self, base: Timing) -> list[float]:
        """How much more wall time than another case, in every round."""
        return [one - other for one, other in zip(self.wall, base.wall, strict=True)]


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    name: str
    binary: str
    port: int
    path: Path
    pid: int

    def tcp(self) -> redis.Redis:
        """A client as redis-py makes it, over loopback."""
        return redis.Redis(host="127.0.0.1", port=self.port)

    def unix(self) -> redis.Redis:
        """The same over a Unix socket."""
        return redis.Redis(unix_socket_path=str(self.path))

    def cpu_us(self) -> float:
        """Time that its main thread has been on a CPU."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) / 1000

    def pin(self, client: int, server: int) -> None:
        """Put ourselves and the server each on one CPU."""
        self._put({client}, {server})

    def unpin(self) -> None:
        """Let ourselves and the server run wherever there is room."""
        self._put(cpus(), cpus())

    def _put(self, client: set[int], server: set[int]) -> None:
        os.sched_setaffinity(0, client)
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), server)


def cpus() -> set[int]:
    """The CPUs of this machine that we may use, wherever we are pinned now."""
    return _CPUS


_CPUS = os.sched_getaffinity(0)


@contextmanager
def running(binary: str) -> Iterator[Server]:
    """A new, empty server of that binary, pinned to a CPU together with us."""
    before = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path, port = Path(folder) / "socket", free_port()
        options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", folder]
        command = [binary, "--port", str(port), "--unixsocket", str(path), *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            name = _name_when_up(port)
            server = Server(name, binary, port, path, process.pid)
            server.pin(max(cpus()), max(cpus()))
            yield server
        finally:
            os.sched_setaffinity(0, before)
            process.terminate()
            process.wait(10)


def compare(cases: Mapping[str, Measured], *, server: Server, rounds: int = 40, calls: int = 100) -> dict[str, Timing]:
    """Every case once in each round, in turns."""
    names = list(cases)
    samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    for name in names:
        cases[name].run(2 * calls)
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            for name in names if number % 2 == 0 else reversed(names):
                samples[name].append(_sample(cases[name], server, calls))
    finally:
        gc.enable()
    return {name: Timing(samples[name]) for name in names}


def median_ratio(these: Sequence[float], base: Sequence[float]) -> float:
    """The median of the ratios of what was measured in the same rounds."""
    return statistics.median(one / other for one, other in zip(these, base, strict=True))


def _sample(case: Measured, server: Server, calls: int) -> tuple[float, float, float]:
    """Microseconds per call: wall, our CPU, the server's CPU. Only wall excludes what `prepare` takes."""
    client, on_server = time.thread_time_ns(), server.cpu_us()
    wall = case.run(calls)
    return wall / calls / 1000, (time.thread_time_ns() - client) / calls / 1000, (server.cpu_us() - on_server) / calls


def _nothing() -> None:
    pass


def script_us(
    cases: Mapping[str, Call], client: redis.Redis, *, rounds: int = 20, calls: int = 200
) -> dict[str, list[float]]:
    """Microseconds of server time per EVALSHA of each case, by the server's own count, in each round."""
    names = list(cases)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            client.config_resetstat()
            for _ in range(calls):
                cases[name]()
            found[name].append(client.info("commandstats")["cmdstat_evalsha"]["usec_per_call"])
    return found


def crowd_us(
    cases: Mapping[str, Sequence[bytes]], server: Server, *, rounds: int = 20, calls: int = 40
) -> dict[str, list[float]]:
    """The server's CPU per call, in microseconds, while every command of a case waits on a connection of its own.

    What one core serves in a second is the inverse of this, however slow the client.
    """
    names = list(cases)
    found: dict[str, list[float]] = {name: [] for name in names}
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in cases[names[0]]]
        for number in range(rounds):
            for name in names if number % 2 == 0 else reversed(names):
                begun = server.cpu_us()
                for _ in range(calls):
                    for one, command in zip(crowd, cases[name], strict=True):
                        one.sendall(command)
                    for one in crowd:
                        assert not one.recv(65536).startswith(b"-"), f"{name} answers an error"
                found[name].append((server.cpu_us() - begun) / calls / len(crowd))
    return found


def _name_when_up(port: int) -> str:
    for _ in range(500):
        try:
            with redis.Redis(host="127.0.0.1", port=port) as client:
                info = client.info("server")
            return f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"
        except redis.ConnectionError:
            time.sleep(0.02)
    raise RuntimeError(f"No server answers at port {port}.")
