"""Pools: what a slot costs, what a hand-over costs with thousands waiting, and the published flood. P11, P12."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import closing

from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.pools.process import ProcessPool
from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import compare, cpus
from tests.benchmarks.rows import Row
from tests.pools import floods
from tests.pools.floods import Enter, Outcome

ABOUT = "pools: slots, hand-overs and the flood"
FEW, MANY = 1_000, 10_000
TENANTS = 100
"""Those who wait are theirs, so that a hand-over has to find whose turn it is."""
HOUR = 3600.0
ROUNDS = 3


def rows(bench: Bench) -> Iterator[Row]:
    """P11 and P12."""
    yield from _handed_over(bench)
    found = compare({"slot": Bookkeeping()}, server=bench.server, calls=2000)
    # Our own processor time in the quickest round: it is no ratio, so whatever is above that is the neighbours'.
    taken_us = min(found["slot"].client)
    yield Row("P11", "a slot taken and given back, while nobody waits", 3.0, 1.0, taken_us, unit="us")
    # Nobody is asked in a flood, so it may run wherever there is room.
    bench.server.unpin()
    yield from _flooded()
    bench.server.pin(max(cpus()), max(cpus()))


class Bookkeeping:
    """A slot that is taken and given back at once."""

    def __init__(self) -> None:
        self.pool = ProcessPool("bench", PoolRules(capacity=10))

    def run(self, calls: int) -> int:
        """The nanoseconds that so many slots took."""
        share, begun = Share(4), time.perf_counter_ns()
        for _ in range(calls):
            self.pool.acquire("acme", share).release()
        return time.perf_counter_ns() - begun


class Crowd:
    """Tasks that want the one slot there is, again and again; between two runs one of them has it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, waiting: int) -> None:
        self.loop, self.left = loop, 0
        self.begin, self.end = loop.create_future(), loop.create_future()
        self.tasks = [loop.create_task(self.one(f"t{number % TENANTS}")) for number in range(waiting + 1)]
        loop.run_until_complete(self.end)

    async def one(self, tenant: str) -> None:
        """Take the slot, have a turn, give it on; and so on."""
        raise NotImplementedError

    async def turn(self) -> None:
        """Go on at once, or at the end of a run when the next one begins."""
        if not self.left:
            self.end.set_result(None)
            await self.begin
        self.left -= 1

    def run(self, calls: int) -> int:
        """The nanoseconds that so many hand-overs took."""
        begin, self.left = self.begin, calls
        self.begin, self.end = self.loop.create_future(), self.loop.create_future()
        begun = time.perf_counter_ns()
        begin.set_result(None)
        self.loop.run_until_complete(self.end)
        return time.perf_counter_ns() - begun

    def close(self) -> None:
        """Let none of them wait any more."""
        for task in self.tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*self.tasks, return_exceptions=True))


class PoolCrowd(Crowd):
    """They wait for a pool."""

    def __init__(self, loop: asyncio.AbstractEventLoop, waiting: int) -> None:
        self.pool = ProcessPool("bench", PoolRules(capacity=1, queue=waiting))
        super().__init__(loop, waiting)

    async def one(self, tenant: str) -> None:
        """Through a slot."""
        share = Share(1)
        while True:
            slot = await self.pool.aacquire(tenant, share, wait=HOUR)
            try:
                await self.turn()
            finally:
                slot.release()


class ConditionCrowd(Crowd):
    """The plain way: they wait for a condition, and whoever has finished notifies them all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, waiting: int) -> None:
        self.condition, self.is_free = asyncio.Condition(), True
        super().__init__(loop, waiting)

    async def one(self, tenant: str) -> None:
        """Through a flag."""
        while True:
            async with self.condition:
                await self.condition.wait_for(lambda: self.is_free)
                self.is_free = False
            await self.turn()
            async with self.condition:
                self.is_free = True
                self.condition.notify_all()


def _handed_over(bench: Bench) -> Iterator[Row]:
    with closing(asyncio.new_event_loop()) as loop:
        with closing(PoolCrowd(loop, FEW)) as few, closing(PoolCrowd(loop, MANY)) as many:
            found = compare({"few": few, "many": many}, server=bench.server, rounds=30, calls=500)
        with closing(ConditionCrowd(loop, MANY)) as everybody:
            # Two hand-overs wake twenty thousand: enough for a ratio that is in the hundreds.
            plain = compare({"all": everybody}, server=bench.server, rounds=3, calls=2)
    ratio = found["many"].over(found["few"])
    yield Row("P11", f"a hand-over while {MANY:,} wait over one while {FEW:,} do", 1.5, 1.1, ratio)
    cheaper = plain["all"].medians[0] / found["many"].medians[0]
    name = f"a hand-over by notify_all while {MANY:,} wait, in hand-overs"
    yield Row("P11", name, 100.0, 250.0, cheaper, more_is_better=True)


def _flooded() -> Iterator[Row]:
    """In real time, the ways in turns."""
    found: dict[str, list[Outcome]] = {name: [] for name in ("shared", "lent", "capped")}
    for _ in range(ROUNDS):
        for way, outcomes in found.items():
            outcomes.append(asyncio.run(_flood(way)))
    quiet = {name: statistics.median(one.median_ms("quiet") for one in found[name]) for name in found}
    batches = zip(found["lent"], found["shared"], strict=True)
    batch = statistics.median(one.ended_at["noisy"] / plain.ended_at["noisy"] for one, plain in batches)
    yield Row("P12", "flood: the quiet tenant's median, idle shares lent", 60.0, 50.0, quiet["lent"], unit="ms")
    yield Row("P12", "flood: the noisy tenant's batch, idle shares lent, over no limit", 1.06, 1.0, batch)
    yield Row("P12", "flood: the quiet tenant's median, a hard cap of 6", 32.0, 28.0, quiet["capped"], unit="ms")
    yield Row("P12", "flood: the quiet tenant's median, one queue for all", measured=quiet["shared"], unit="ms")


async def _flood(way: str) -> Outcome:
    return await floods.run(floods.flood(), _WAYS[way]())


def _shared() -> Enter:
    semaphore = asyncio.Semaphore(10)
    return lambda _: semaphore


_WAYS = {
    "shared": _shared,
    "lent": lambda: floods.pool_of(PoolRules(capacity=10), {"noisy": Share(6), "quiet": Share(4)}),
    "capped": lambda: floods.pool_of(PoolRules(capacity=10, lendable=0), {"noisy": Share(6), "quiet": Share(6)}),
}
