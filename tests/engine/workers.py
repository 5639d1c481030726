"""What the processes of the concurrency tests run; light, since each of them imports it."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tenantlimits.domain.limits import Limit
from tenantlimits.domain.periods import US
from tests.engine.builders import Caller, redis_engine

# A clean server that has imported this module forks the processes: new ones at the price of a fork, and no thread of
# the test run is ever copied into them.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def in_processes(count: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The results of `work(start, *arguments)` in so many processes; `start()` returns in all of them at once."""
    barrier, results = _CONTEXT.Barrier(count), _CONTEXT.SimpleQueue()
    processes = [_CONTEXT.Process(target=_report, args=(results, work, barrier, *arguments)) for _ in range(count)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join(timeout=20)
    return found


def _report(results: Any, work: Callable[..., Any], barrier: Any, *arguments: Any) -> None:
    try:
        results.put(work(barrier.wait, *arguments))
    except BaseException as error:
        barrier.abort()
        results.put(repr(error))
        raise


class Place(NamedTuple):
    """Where the state is."""

    url: str
    prefix: str


def admitted(start: Callable[[], Any], place: Place, limits: Sequence[Limit], threads: int, calls: int) -> list[int]:
    """For each limit, alone in its lane, how many of so many calls of each thread are let in."""
    engine = redis_engine(*place)
    acme = Caller(engine, lambda: time.time() * US, limits)
    counts = [0] * len(limits)

    def work() -> None:
        for number, limit in enumerate(limits):
            found = acme.admitted(calls, lane=limit.lane)
            with lock:
                counts[number] += found

    lock = threading.Lock()
    together = [threading.Thread(target=work) for _ in range(threads)]
    start()
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    engine.close()
    return counts


def most_at_once(start: Callable[[], Any], place: Place, limit: Limit, rounds: int) -> tuple[int, list[int]]:
    """Take a slot and give it back, again and again: how often that succeeded, and how many were in flight then."""
    engine = redis_engine(*place)
    acme = Caller(engine, lambda: time.time() * US, [limit])
    taken, seen = 0, []
    start()
    for _ in range(rounds):
        decision, lease = acme.hold()
        if decision.allowed:
            taken += 1
            seen += [decision.states[0], acme.peek(0).states[0]]
            assert acme.release(lease)
            assert not acme.release(lease)
    engine.close()
    return taken, seen
