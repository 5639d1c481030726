"""A pool: who may run now, who waits, and who is next when a slot comes free. Pure rules; callers bring the time.

A tenant within its share runs whenever there is a slot. Above its share it borrows: only while nobody waits within
theirs, and only so many slots as the pool lends. Within a tenant the first to come is the first to run; between tenants
turns decide (see `turns`). What runs is never stopped: a lowered share or capacity is reached as operations end.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

from tenantlimits.domain.turns import Account, Turns

W = TypeVar("W")
"""Whatever stands for an operation that waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRules:
    """What a pool has: slots, the part of them that may be borrowed (0 to 1), and room for how many to wait."""

    capacity: int
    lendable: float = 1.0
    queue: int = 1000

    @property
    def lent_at_most(self) -> int:
        """So many slots in all may be used above shares."""
        return int(self.lendable * self.capacity + 1e-9)


@dataclass(frozen=True, slots=True)
class Share:
    """What a tenant has of a pool: slots that are its own, and room for how many of its operations to wait."""

    slots: int
    queue: int | None = None


@dataclass(frozen=True, slots=True)
class Grant(Generic[W]):
    """A slot for whom it was given to; `waiter` may run now. It is given back by `Pool.leave`."""

    tenant: str
    waiter: W
    charged: float


class Entry(IntEnum):
    """What became of an operation that did not get a slot at once."""

    WAITS = 0
    QUEUE_FULL = 1
    SHARE_FULL = 2
    CAPACITY_FULL = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """A tenant in a pool now. `since` is when the first of those who wait came, by the caller's clock.

    `estimate` is the seconds until one that comes now may run, judged by how long operations took of late.
    """

    share: int
    running: int
    waiting: int
    since: float | None
    estimate: float = 0.0

    @property
    def borrowed(self) -> int:
        """Slots above its share."""
        return max(0, self.running - self.share)


_Place = tuple[bool, float, int, str]
"""Where a tenant stands in line: those without any share last, then by start tag, then by who came first."""


@dataclass(slots=True, eq=False)
class _Tenant(Account, Generic[W]):
    """`place` is where it stands in one of the two lines; None where nobody of it waits.

    `arrived` is the virtual time at which it began to wait, and a number for order. `rests` is the virtual time until
    which it is remembered though it neither runs nor waits.
    """

    name: str
    share: Share
    running: int = 0
    waiting: dict[W, float] = field(default_factory=dict)
    arrived: tuple[float, int] = (0.0, 0)
    place: _Place | None = None
    rests: float | None = None

    @property
    def weight(self) -> float:
        return self.share.slots or 1

    @property
    def borrowed(self) -> int:
        return max(0, self.running - self.share.slots)


class Pool(Generic[W]):
    """The state of one pool. Each verb answers who may run from now on; nobody else has to be woken."""

    def __init__(self, rules: PoolRules) -> None:
        self.rules = rules
        self.running = 0
        self.waiting = 0
        self._borrowed = 0
        self._turns = Turns()
        self._tenants: dict[str, _Tenant[W]] = {}
        self._within: list[_Place] = []
        self._above: list[_Place] = []
        self._resting: list[tuple[float, str]] = []
        self._order = itertools.count()

    def take(self, tenant: str, share: Share) -> float | None:
        """A slot at once: what it is charged. None where there is none for it now; then nothing is kept of it."""
        one = self._known(tenant, share)
        if self._may_begin(one):
            return self._begin(one, self._virtual() if self.waiting else self._turns.now)
        self._rest(one)
        return None

    def enter(self, tenant: str, share: Share, waiter: W, now: float, *, may_wait: bool = True) -> Grant[W] | Entry:
        """Want a slot: a grant where it runs at once, else whether it waits, or why it may not even wait."""
        one = self._known(tenant, share)
        if self._may_begin(one):
            return Grant(tenant, waiter, self._begin(one, self._virtual()))
        refused = self._refused(one, may_wait)
        if refused is not None:
            self._rest(one)
            return refused
        one.waiting[waiter] = now
        self.waiting += 1
        if len(one.waiting) == 1:
            one.arrived = (self._virtual(), next(self._order))
            self._line_up(one)
        return Entry.WAITS

    def leave(self, tenant: str, charged: float, seconds: float) -> list[Grant[W]]:
        """An operation has ended after so long: its slot is for the next one."""
        one = self._tenants[tenant]
        one.running -= 1
        self.running -= 1
        if one.running >= one.share.slots:
            self._borrowed -= 1
        self._turns.end(one, one.weight, charged=charged, seconds=seconds)
        if one.waiting:
            self._line_up(one)
        self._rest(one)
        return self._next() if self.waiting else []

    def withdraw(self, tenant: str, waiter: W) -> bool:
        """Wait no more. False where it does not wait: it was granted a slot, which it has to give back."""
        one = self._tenants.get(tenant)
        if one is None or waiter not in one.waiting:
            return False
        self._go(one, waiter)
        self._rest(one)
        return True

    def change_share(self, tenant: str, share: Share) -> list[Grant[W]]:
        """The tenant has another share from now on."""
        one = self._tenants.get(tenant)
        if one is None or one.share == share:
            return []
        self._share(one, share)
        return self._next()

    def change_rules(self, rules: PoolRules) -> list[Grant[W]]:
        """The pool has other rules from now on."""
        self.rules = rules
        return self._next()

    def standings(self, most: int | None = None) -> dict[str, Standing]:
        """Every tenant that runs or waits; at `most` so many, those that have the most."""
        found = [one for one in self._tenants.values() if one.running or one.waiting]
        if most is not None and len(found) > most:
            found = heapq.nlargest(most, found, key=lambda one: one.running + len(one.waiting))
        return {one.name: self.standing(one.name, one.share) for one in found}

    def standing(self, tenant: str, share: Share) -> Standing:
        """Where one tenant stands."""
        one = self._tenants.get(tenant)
        waiting = one.waiting if one else {}
        return Standing(
            share=share.slots,
            running=one.running if one else 0,
            waiting=len(waiting),
            since=next(iter(waiting.values()), None),
            estimate=self._turns.mean * (len(waiting) + 1) / max(1, share.slots),
        )

    # Rules

    def _may_begin(self, one: _Tenant[W]) -> bool:
        """Whether an operation that comes now has a slot at once; whoever waits goes first."""
        if one.waiting or self.running >= self.rules.capacity:
            return False
        if one.running < one.share.slots:
            return True
        return not self.waiting and self._borrowed < self.rules.lent_at_most

    def _refused(self, one: _Tenant[W], may_wait: bool) -> Entry | None:
        if not may_wait:
            return Entry.CAPACITY_FULL if one.running < one.share.slots else Entry.SHARE_FULL
        own_queue = self.rules.queue if one.share.queue is None else one.share.queue
        return Entry.QUEUE_FULL if self.waiting >= self.rules.queue or len(one.waiting) >= own_queue else None

    def _next(self) -> list[Grant[W]]:
        """Give free slots to those who wait: within their shares first."""
        grants: list[Grant[W]] = []
        while self.waiting and self.running < self.rules.capacity:
            one = self._first(self._within)
            if one is None and self._borrowed < self.rules.lent_at_most:
                one = self._first(self._above)
            if one is None:
                break
            waiter = next(iter(one.waiting))
            grants.append(Grant(one.name, waiter, self._begin(one, one.arrived[0])))
            self._go(one, waiter)
        return grants

    def _begin(self, one: _Tenant[W], arrived: float) -> float:
        if one.running >= one.share.slots:
            self._borrowed += 1
        one.running += 1
        self.running += 1
        return self._turns.begin(one, one.weight, arrived=arrived)

    # Lines

    def _known(self, tenant: str, share: Share) -> _Tenant[W]:
        one = self._tenants.get(tenant)
        if one is None:
            one = self._tenants[tenant] = _Tenant(tenant, share)
        elif one.share is not share and one.share != share:
            self._share(one, share)
        return one

    def _share(self, one: _Tenant[W], share: Share) -> None:
        self._borrowed -= one.borrowed
        one.share = share
        self._borrowed += one.borrowed
        self._line_up(one)

    def _go(self, one: _Tenant[W], waiter: W) -> None:
        """One of the tenant's operations waits no more."""
        del one.waiting[waiter]
        self.waiting -= 1
        one.arrived = (one.arrived[0], next(self._order))
        self._line_up(one)

    def _virtual(self) -> float:
        """Where a tenant that begins to wait stands: beside the one that has had the least, with nothing saved up."""
        if not self.waiting:
            return self._turns.now
        waiting = [one.place[1] for line in (self._within, self._above) if (one := self._first(line)) and one.place]
        return min(waiting, default=self._turns.now)

    def _line_up(self, one: _Tenant[W]) -> None:
        """Put the tenant where it belongs now; where it stood before, it is passed over."""
        if not one.waiting:
            one.place = None
            return
        at, order = one.arrived
        one.place = (one.share.slots == 0, max(at, one.ends_at), order, one.name)
        heapq.heappush(self._within if one.running < one.share.slots else self._above, one.place)

    def _first(self, line: list[_Place]) -> _Tenant[W] | None:
        while line:
            one = self._tenants.get(line[0][-1])
            if one is not None and one.place is line[0]:
                return one
            heapq.heappop(line)
        return None

    def _rest(self, one: _Tenant[W]) -> None:
        """Forget a tenant that neither runs nor waits. While others wait, only when it has no more than its turn."""
        if not one.running and not one.waiting:
            if not self.waiting:
                del self._tenants[one.name]
            elif one.rests != one.ends_at:
                one.rests = one.ends_at
                heapq.heappush(self._resting, (one.ends_at, one.name))
        while self._resting and (not self.waiting or self._resting[0][0] <= self._turns.now):
            until, name = heapq.heappop(self._resting)
            rested = self._tenants.get(name)
            if rested is None or rested.rests != until:
                continue
            rested.rests = None
            if not rested.running and not rested.waiting:
                del self._tenants[name]
