"""The published floods: one tenant fills a pool, another one comes (C1, C2, C3)."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from tenantlimits.domain.errors import SlotRefused
from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.pools.process import ProcessPool

Enter = Callable[[str], AbstractAsyncContextManager[object]]
"""How a tenant takes a slot."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tenant's operation: when it comes and how long it runs, in seconds."""

    tenant: str
    at: float
    lasts: float


@dataclass(frozen=True, slots=True)
class Span:
    """When an operation came, began and ended: seconds from the beginning."""

    came: float
    began: float
    ended: float


@dataclass(slots=True)
class Outcome:
    """What happened: seconds from arrival to end by tenant, refusals by tenant, the end of the last operation."""

    times: dict[str, list[float]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    ended_at: dict[str, float] = field(default_factory=dict)
    spans: dict[str, list[Span]] = field(default_factory=dict)

    def median_ms(self, tenant: str) -> float:
        """Median time from arrival to end."""
        return 1000 * statistics.median(self.times[tenant])

    def worst_ms(self, tenant: str) -> float:
        """The longest of them."""
        return 1000 * max(self.times[tenant])

    def running(self, tenant: str, at: float) -> int:
        """How many of its operations ran then."""
        return sum(one.began <= at < one.ended for one in self.spans[tenant])

    def most_running(self, tenant: str, before: float) -> int:
        """How many of its operations ran at once at most, until then."""
        return max(self.running(tenant, one.began) for one in self.spans[tenant] if one.began < before)

    def back_ms(self, tenant: str, slots: int, since: float) -> float:
        """How long after that it runs in no more than so many slots."""
        ends = [one.ended for one in self.spans[tenant] if one.ended > since]
        return 1000 * (min(at for at in (since, *ends) if self.running(tenant, at) <= slots) - since)


def flood() -> list[Arrival]:
    """C1, C2: 500 operations of 20 ms of a noisy tenant at once; 50 ms later 10 of a quiet one."""
    noisy = [Arrival("noisy", 0.0, 0.020)] * 500
    return noisy + [Arrival("quiet", 0.050, 0.020)] * 10


def second_comer() -> list[Arrival]:
    """C2: 100 operations of a tenant at once; while they run 40 of another one."""
    return [Arrival("noisy", 0.0, 0.020)] * 100 + [Arrival("quiet", 0.105, 0.020)] * 40


def bulkhead() -> list[Arrival]:
    """C3: 200 operations of a second at once, and 50 of 20 ms, one each 20 ms."""
    noisy = [Arrival("noisy", 0.0, 1.0)] * 200
    return noisy + [Arrival("quiet", 0.020 * n, 0.020) for n in range(50)]


async def run(arrivals: Iterable[Arrival], enter: Enter) -> Outcome:
    """Let them all come."""
    loop, outcome = asyncio.get_running_loop(), Outcome()
    began = loop.time()

    async def one(arrival: Arrival) -> None:
        await asyncio.sleep(arrival.at)
        came = loop.time()
        try:
            async with enter(arrival.tenant):
                entered = loop.time()
                await asyncio.sleep(arrival.lasts)
                ended = loop.time()
        except SlotRefused:
            outcome.refused[arrival.tenant] += 1
            return
        span = Span(came - began, entered - began, ended - began)
        outcome.spans.setdefault(arrival.tenant, []).append(span)
        outcome.times.setdefault(arrival.tenant, []).append(ended - came)
        outcome.ended_at[arrival.tenant] = ended - began

    await asyncio.gather(*(one(arrival) for arrival in arrivals))
    return outcome


def pool_of(rules: PoolRules, shares: Mapping[str, Share], *, wait: float = 60.0) -> Enter:
    """How tenants enter a pool of this product."""
    pool = ProcessPool("workers", rules, clock=lambda: asyncio.get_running_loop().time())

    @asynccontextmanager
    async def enter(tenant: str) -> AsyncIterator[None]:
        slot = await pool.aacquire(tenant, shares[tenant], wait=wait)
        try:
            yield
        finally:
            slot.release()

    return enter
