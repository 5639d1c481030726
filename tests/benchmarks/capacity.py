"""How many decisions a second, and how many more processes and servers would give: a model, and how well it holds.

Three numbers are measured: `round_trip_us` of one process that asks one idle server on another processor, which has to
be woken each time; `computed_us`, what both compute for it; and `server_us`, what a busy server computes. Then N
processes and M servers on C processors decide so often in a second:

    at least min(N / round_trip, M / server, C / computed)
    at most  min(N / computed,   M / server, C / computed)

The first bound is that a process asks one thing after another, and how much of its waiting is waking depends on how
idle the processors are: hence a range, which closes as processes are added. The second is a server's one thread; the
third is the machine that all share. Where clients and servers have machines of their own, leave out the third.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median

from tests.benchmarks.bench import Bench
from tests.benchmarks.engine import CROWD
from tests.benchmarks.harness import Server, cpus, crowd_us, running
from tests.benchmarks.report import number
from tests.benchmarks.rows import Row

ABOUT = "processes and servers: measured and predicted"
SECONDS = 1.0
ROUNDS = 3
POINTS = ((2, 1), (3, 1), (4, 1), (2, 2), (4, 2))
"""Processes and servers; none of them is what the model's numbers come from."""
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Model:
    """What one decision takes, in microseconds, on a machine with so many processors."""

    round_trip_us: float
    computed_us: float
    server_us: float
    processors: int

    def at_least(self, processes: int, servers: int) -> float:
        """Decisions in a second where every call finds its server idle."""
        return min(MILLION * processes / self.round_trip_us, self._whatever_processes(servers))

    def at_most(self, processes: int, servers: int) -> float:
        """Decisions in a second where nobody has to be woken."""
        return min(MILLION * processes / self.computed_us, self._whatever_processes(servers))

    def _whatever_processes(self, servers: int) -> float:
        return MILLION * min(servers / self.server_us, self.processors / self.computed_us)


@dataclass(frozen=True, slots=True)
class Run:
    """What some processes decided together in a second, and what each decision took them and the servers to compute."""

    per_second: float
    computed_us: float

    @property
    def processors(self) -> float:
        """How many processors were at work for them."""
        return self.per_second * self.computed_us / MILLION


@dataclass(frozen=True, slots=True)
class Point:
    """One way to spread the work: what was measured, on how many processors at work, and the range of the model."""

    processes: int
    servers: int
    measured: float
    processors: float
    at_least: float
    at_most: float

    @property
    def off(self) -> float:
        """How far outside of the range it is, in parts of the nearer end; 0 inside."""
        return max(0.0, 1 - self.measured / self.at_least, self.measured / self.at_most - 1)


def rows(bench: Bench) -> Iterator[Row]:
    """What one processor serves, and how far the model is off for more processes and servers."""
    model, points = fitted(bench.server.binary, busy_server_us(bench))
    yield _per_second("one core of a server serves", MILLION / model.server_us)
    yield _per_second("one core serves that asks, too", MILLION / model.computed_us)
    for point in points:
        model_says = f"model {number(point.at_least, '/s')} to {number(point.at_most, '/s')}"
        note = f"{model_says}, {point.processors:.1f} CPUs at work"
        name = f"{_counted(point.processes, 'process', 'es')}, {_counted(point.servers, 'server')}"
        yield _per_second(name, point.measured, note)
    yield Row("plan", "outside of the model's range by at most", measured=max(point.off for point in points))


def _per_second(what: str, measured: float, note: str = "") -> Row:
    return Row("plan", f"decisions a second: {what}", measured=measured, unit="/s", note=note)


def busy_server_us(bench: Bench) -> float:
    """What a server computes for a decision while the next ones are waiting already."""
    waiting = [bench.asking(f"crowd-{number}").packed() for number in range(CROWD)]
    return median(crowd_us({"decision": waiting}, bench.server)["decision"])


def fitted(binary: str, server_us: float) -> tuple[Model, list[Point]]:
    """The model, and all points."""
    alone, apart, runs = [], [], {point: list[Run]() for point in POINTS}
    with ExitStack() as stack:
        servers = [stack.enter_context(running(binary)) for _ in range(max(servers for _, servers in POINTS))]
        for round_number in range(ROUNDS):
            servers[0].pin(max(cpus()), max(cpus()))
            alone.append(crowd(servers[:1], 1))
            servers[0].pin(min(cpus()), max(cpus()))
            apart.append(crowd(servers[:1], 1))
            for server in servers:
                server.unpin()
            for processes, shards in POINTS if round_number % 2 == 0 else reversed(POINTS):
                runs[processes, shards].append(crowd(servers[:shards], processes))
    round_trip_us = MILLION / median(run.per_second for run in apart)
    model = Model(round_trip_us, median(run.computed_us for run in alone), server_us, len(cpus()))
    return model, [_point(point, runs[point], model) for point in POINTS]


def _point(point: tuple[int, int], runs: list[Run], model: Model) -> Point:
    middle = sorted(runs, key=lambda run: run.per_second)[len(runs) // 2]
    return Point(*point, middle.per_second, middle.processors, model.at_least(*point), model.at_most(*point))


def crowd(servers: list[Server], processes: int) -> Run:
    """Ask with so many processes at once, each its own tenants of all servers in turn."""
    context = get_context("spawn")  # nothing of ours must be in them that a site's process would not have
    with ExitStack() as stack:
        pipes = []
        for number in range(processes):
            here, there = context.Pipe()
            child = context.Process(target=_ask, args=(servers, f"crowd-{number}", there), daemon=True)
            child.start()
            there.close()  # else its end would not be seen
            stack.callback(child.join, 10)
            pipes.append(here)
        for pipe in pipes:
            assert pipe.recv() == "ready"
        begun = sum(server.cpu_us() for server in servers)
        for pipe in pipes:
            pipe.send("go")
        told = [pipe.recv() for pipe in pipes]
        computed_us = sum(server.cpu_us() for server in servers) - begun + sum(client_us for *_, client_us in told)
    decisions = sum(count for count, _, _ in told)
    return Run(decisions / max(seconds for _, seconds, _ in told), computed_us / decisions)


def _ask(servers: list[Server], tenant: str, pipe: Connection) -> None:
    """A process: ask for so many seconds; tells how often, in what time, and what it computed for it."""
    asks = [Bench(server, server.tcp()).asking(tenant) for server in servers]
    pipe.send("ready")
    pipe.recv()
    count, begun, computed = 0, time.perf_counter(), time.process_time_ns()
    while time.perf_counter() < begun + SECONDS:
        for ask in asks:
            ask()
        count += len(asks)
    pipe.send((count, time.perf_counter() - begun, (time.process_time_ns() - computed) / 1000))


def _counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"
