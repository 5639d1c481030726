"""A pool of this process: for threads and tasks alike, over the rules of `domain.shares`.

Whoever ends gives its slot to exactly one who waits, and wakes nobody else. Whoever gives up (a timeout, a
cancellation, an exception at any point) loses no slot: what it was granted in that moment goes on to the next.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tenantlimits.domain.errors import QueueFull, QueueTimeout, SlotRefused
from tenantlimits.domain.shares import Entry, Grant, Pool, PoolRules, Share, Standing
from tenantlimits.domain.snapshots import Snapshot
from tenantlimits.pools.waiters import TaskWaiter, ThreadWaiter, Waiter


@dataclass(slots=True, eq=False)
class Slot:
    """The right to run one operation now, of a tenant in a pool. `since` is when it began, by the pool's clock."""

    pool: ProcessPool
    tenant: str
    since: float
    charged: float
    is_released: bool = field(default=False)

    def release(self) -> bool:
        """Give it back. False where it was given back before: that frees nothing twice."""
        return self.pool.release(self)

    def __del__(self) -> None:
        if not self.is_released:
            self.pool.drop(self)


class ProcessPool:
    """Slots for threads and tasks of this process. `clock` is seconds that never go back."""

    def __init__(self, name: str, rules: PoolRules, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._clock = name, clock
        self._lock = threading.Lock()
        self._pool: Pool[Waiter] = Pool(rules)
        self._dropped: deque[tuple[str, float, float]] = deque()

    def acquire(self, tenant: str, share: Share, *, wait: float = 0.0) -> Slot:
        """A slot, at once or within `wait` seconds. Errors: SlotRefused, QueueFull, QueueTimeout."""
        slot = self._at_once(tenant, share)
        if slot is not None:
            return slot
        waiter = ThreadWaiter()
        if not self._enters(tenant, share, waiter, wait):
            try:
                waiter.wait(wait)
            except BaseException:
                self._give_up(tenant, waiter)
                raise
        return self._granted(tenant, share, waiter, wait)

    async def aacquire(self, tenant: str, share: Share, *, wait: float = 0.0) -> Slot:
        """`acquire` from an event loop."""
        slot = self._at_once(tenant, share)
        if slot is not None:
            return slot
        waiter = TaskWaiter()
        if not self._enters(tenant, share, waiter, wait):
            try:
                await waiter.wait(wait)
            except BaseException:
                self._give_up(tenant, waiter)
                raise
        return self._granted(tenant, share, waiter, wait)

    def release(self, slot: Slot) -> bool:
        """Give a slot back, to the next in turn. False where that was done before, or it is another pool's."""
        with self._lock:
            if slot.is_released or slot.pool is not self:
                return False
            slot.is_released = True
            self._wake(self._pool.leave(slot.tenant, slot.charged, self._clock() - slot.since))
        if self._dropped:
            self._free_dropped()
        return True

    def drop(self, slot: Slot) -> None:
        """Nobody has the slot any more. Called when it is collected, which may be in the middle of any call here."""
        self._dropped.append((slot.tenant, slot.charged, slot.since))
        self._free_dropped()

    def _free_dropped(self) -> None:
        # Who has the lock frees what was dropped meanwhile when it gives it back; waiting for it could be for ever.
        while self._dropped and self._lock.acquire(blocking=False):
            try:
                tenant, charged, since = self._dropped.popleft()
                self._wake(self._pool.leave(tenant, charged, self._clock() - since))
            except IndexError:
                return
            finally:
                self._lock.release()

    def change_share(self, tenant: str, share: Share) -> None:
        """The tenant has another share from now on. What runs, runs on."""
        with self._lock:
            self._wake(self._pool.change_share(tenant, share))

    def change_rules(self, rules: PoolRules) -> None:
        """The pool has other rules from now on. What runs, runs on."""
        with self._lock:
            if rules != self._pool.rules:
                self._wake(self._pool.change_rules(rules))

    def standings(self) -> dict[str, Standing]:
        """Every tenant that runs or waits now."""
        with self._lock:
            return self._pool.standings()

    def snapshot(self, most: int) -> Snapshot:
        """What is held now; of very many tenants the so many that have the most."""
        with self._lock:
            pool, now = self._pool, self._clock()
            standings, running, waiting = pool.standings(most), pool.running, pool.waiting
        ages = {
            tenant: one if one.since is None else replace(one, since=one.since - now)
            for tenant, one in standings.items()
        }
        return Snapshot(rules=pool.rules, running=running, waiting=waiting, standings=ages)

    def _at_once(self, tenant: str, share: Share) -> Slot | None:
        """The slot of one that need not wait: the most common case, for which nothing is made but the slot."""
        with self._lock:
            if self._pool.waiting:
                # Where it comes with a larger share than those who wait came with, they are before it.
                self._wake(self._pool.change_share(tenant, share))
            charged = self._pool.take(tenant, share)
        if self._dropped:
            self._free_dropped()
        return None if charged is None else Slot(self, tenant, self._clock(), charged)

    def _enters(self, tenant: str, share: Share, waiter: Waiter, wait: float) -> bool:
        """Whether it has its slot at once; where not, it waits. SlotRefused, QueueFull."""
        with self._lock:
            entered = self._pool.enter(tenant, share, waiter, self._clock(), may_wait=wait > 0)
            if isinstance(entered, Grant):
                waiter.grant, waiter.since = entered, self._clock()
            standing = None if waiter.grant or entered is Entry.WAITS else self._pool.standing(tenant, share)
        self._free_dropped()
        if standing is None:
            return isinstance(entered, Grant)
        if entered is Entry.QUEUE_FULL:
            raise QueueFull(self.name, tenant, standing)
        raise SlotRefused(self.name, tenant, standing)

    def _granted(self, tenant: str, share: Share, waiter: Waiter, wait: float) -> Slot:
        """The slot of one that has waited; QueueTimeout where it has none."""
        with self._lock:
            grant = waiter.grant
            if grant is not None:
                return Slot(self, tenant, waiter.since, grant.charged)
            self._pool.withdraw(tenant, waiter)
            standing = self._pool.standing(tenant, share)
        raise QueueTimeout(self.name, tenant, standing, wait)

    def _give_up(self, tenant: str, waiter: Waiter) -> None:
        """Wait no more, and give on what was granted in the meantime."""
        with self._lock:
            if waiter.grant is None:
                self._pool.withdraw(tenant, waiter)
            else:
                self._wake(self._pool.leave(tenant, waiter.grant.charged, 0.0))
        self._free_dropped()

    def _wake(self, grants: Sequence[Grant[Waiter]]) -> None:
        """Tell those who have slots now. A slot for somebody who is gone goes on to the next."""
        if not grants:
            return
        left = list(grants)
        while left:
            grant = left.pop(0)
            grant.waiter.grant, grant.waiter.since = grant, self._clock()
            if not grant.waiter.wake():
                grant.waiter.grant = None
                left += self._pool.leave(grant.tenant, grant.charged, 0.0)
