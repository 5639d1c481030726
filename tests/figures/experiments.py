"""The published experiments, on this product and on the plain ways beside it.

Each is run in virtual time, where waiting takes no time and nothing disturbs, and in real time.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tenantlimits.domain.errors import SlotRefused
from tenantlimits.domain.shares import PoolRules, Share, Standing
from tests.figures.figure import Figure
from tests.pools import floods, virtual
from tests.pools.floods import Arrival, Enter, Outcome
from tests.scenarios import calls

SHORT_SECONDS, REPEATED = 2.0, 3
"""What is over so soon is run more than once, and the median told: a neighbour's moment is a large part of it."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What of an outcome was published."""

    what: str
    unit: str
    published: float
    of: Callable[[Outcome], float]


@dataclass(frozen=True, slots=True)
class Flood:
    """Arrivals, a way to let them in, and what was published of it."""

    id: str
    way: str
    arrivals: Sequence[Arrival]
    enter: Callable[[], Enter]
    measures: Sequence[Measure]
    is_ours: bool = False

    def figures(self) -> Iterator[Figure]:
        """Run it in virtual time and in real time."""
        expected = virtual.run(self.run())
        times = REPEATED if max(expected.ended_at.values()) < SHORT_SECONDS else 1
        found = [asyncio.run(self.run()) for _ in range(times)]
        for one in self.measures:
            yield Figure(
                self.id, self.way, one.what, one.unit, published=one.published, virtual=one.of(expected),
                measured=statistics.median(map(one.of, found)), is_ours=self.is_ours,
            )  # fmt: skip

    async def run(self) -> Outcome:
        """Let them all come, by this way."""
        return await floods.run(self.arrivals, self.enter())


@dataclass(frozen=True, slots=True)
class Calls:
    """Thirty calls that wait for two limits: how many windows hold more than they may."""

    id: str
    way: str
    published: float
    virtual: Callable[[], Sequence[float]]
    measured: Callable[[], int]
    is_ours: bool = False

    def figures(self) -> Iterator[Figure]:
        """On a stepped clock and a store in memory, then on a real one."""
        yield Figure(
            self.id, self.way, "held too many", "windows", published=self.published,
            virtual=calls.violations(self.virtual()), measured=self.measured(), is_ours=self.is_ours,
        )  # fmt: skip


def one_queue(capacity: int) -> Callable[[], Enter]:
    """A plain way: one semaphore, first come, first served."""

    def enter() -> Enter:
        semaphore = asyncio.Semaphore(capacity)
        return lambda _: semaphore

    return enter


def own_semaphores(capacity: int, cap: int) -> Callable[[], Enter]:
    """A plain way: a semaphore for each tenant, and behind them one for all."""

    def enter() -> Enter:
        shared, own = asyncio.Semaphore(capacity), {name: asyncio.Semaphore(cap) for name in ("noisy", "quiet")}

        @asynccontextmanager
        async def entered(tenant: str) -> AsyncIterator[None]:
            async with own[tenant], shared:
                yield

        return entered

    return enter


def rejecting_semaphores(cap: int) -> Callable[[], Enter]:
    """A plain way: a semaphore for each tenant, and whoever does not get it at once is turned away."""

    def enter() -> Enter:
        own = {name: asyncio.Semaphore(cap) for name in ("noisy", "quiet")}

        @asynccontextmanager
        async def entered(tenant: str) -> AsyncIterator[None]:
            if own[tenant].locked():
                raise SlotRefused("plain", tenant, Standing(cap, cap, 0, None))
            async with own[tenant]:
                yield

        return entered

    return enter


def pool(capacity: int, shares: tuple[int, int], *, lendable: float, wait: float = 60.0) -> Callable[[], Enter]:
    """This product: a pool, and the shares of the noisy and of the quiet tenant."""
    noisy, quiet = map(Share, shares)
    rules = PoolRules(capacity=capacity, lendable=lendable)
    return lambda: floods.pool_of(rules, {"noisy": noisy, "quiet": quiet}, wait=wait)


def _median(published: float) -> Measure:
    return Measure("quiet tenant: median", "ms", published, lambda found: found.median_ms("quiet"))


def _worst(published: float) -> Measure:
    return Measure("quiet tenant: worst", "ms", published, lambda found: found.worst_ms("quiet"))


def _batch(published: float) -> Measure:
    return Measure("noisy tenant: all done after", "s", published, lambda found: found.ended_at["noisy"])


def _rejected(served: float, refused: float) -> Sequence[Measure]:
    return (
        Measure("noisy tenant: served", "operations", served, lambda found: len(found.times["noisy"])),
        Measure("noisy tenant: refused", "operations", refused, lambda found: found.refused["noisy"]),
    )


def _second(found: Outcome) -> float:
    return min(one.came for one in found.spans["quiet"])


FLOOD, SECOND, BULKHEAD = floods.flood(), floods.second_comer(), floods.bulkhead()
ALONE = (
    Measure("alone, runs at once", "operations", 10, lambda found: found.most_running("noisy", _second(found))),
    Measure("back at its share of 5 after", "ms at most", 20, lambda found: found.back_ms("noisy", 5, _second(found))),
)
CAPPED, LENT = (_median(30), _worst(51), _batch(1.70)), (_median(57), _worst(79), _batch(1.08))
APART = (_median(20), _worst(21))

FLOODS = (
    Flood("C1", "one queue for all", FLOOD, one_queue(10), (_median(982), _batch(1.03))),
    Flood("C1", "semaphores: 6 each", FLOOD, own_semaphores(10, 6), CAPPED),
    Flood("C1", "tenantlimits: 6 each, none lent", FLOOD, pool(10, (6, 6), lendable=0), CAPPED, is_ours=True),
    Flood("C2", "tenantlimits: 6 and 4, all lent", FLOOD, pool(10, (6, 4), lendable=1), LENT, is_ours=True),
    Flood("C2", "tenantlimits: 5 each, all lent", SECOND, pool(10, (5, 5), lendable=1), ALONE, is_ours=True),
    Flood("C3", "one queue for all", BULKHEAD, one_queue(20), (_median(9558),)),
    Flood("C3", "semaphores: 10 each", BULKHEAD, own_semaphores(20, 10), APART),
    Flood("C3", "tenantlimits: 10 each, none lent", BULKHEAD, pool(20, (10, 10), lendable=0), APART, is_ours=True),
    Flood("C3", "semaphores: 10 each, rejecting", BULKHEAD, rejecting_semaphores(10), _rejected(10, 190)),
    Flood(
        "C3", "tenantlimits: 10 each, rejecting", BULKHEAD, pool(20, (10, 10), lendable=0, wait=0), _rejected(10, 190),
        is_ours=True,
    ),
)  # fmt: skip
