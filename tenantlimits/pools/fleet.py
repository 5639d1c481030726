"""A pool that all processes share through the store: the verbs of `ProcessPool`, over leases.

Every operation has an id, by which the store knows that it waits or has a slot. One thread says for all of them that
they are alive (see `beats`); what is not heard of any more comes back by itself. Nobody waits for the store longer than
its timeouts: without it, each process has its part of the pool, or does whatever its caller says.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tenantlimits.domain.errors import QueueFull, QueueTimeout, SlotRefused
from tenantlimits.domain.lanes import OnStoreFailure
from tenantlimits.domain.shares import Entry, PoolRules, Share, Standing
from tenantlimits.domain.snapshots import Snapshot
from tenantlimits.engine.pools import (
    OPERATION_BYTES,
    Entered,
    Member,
    PoolEnter,
    PoolFree,
    PoolLeave,
    PoolShow,
    PoolStore,
    Shown,
    StoreError,
)
from tenantlimits.pools.beats import beats
from tenantlimits.pools.operations import Operation, Operations, Stage
from tenantlimits.pools.process import ProcessPool, Slot
from tenantlimits.pools.waiters import TaskWaiter, ThreadWaiter

logger = logging.getLogger(__name__)

MOST_PATIENT_SECONDS = 3.0
"""So long the store keeps the place of a waiter of which it hears nothing, or as long as a lease where that is less."""


@dataclass(slots=True, eq=False)
class FleetSlot:
    """The right to run one operation now. `inner` is its slot of this process's part, where there was no store."""

    pool: FleetPool
    operation: Operation
    inner: Slot | None = field(default=None)

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.operation.tenant

    @property
    def lost(self) -> bool:
        """Whether it was taken away: its operation runs on without."""
        return self.operation.lost

    def release(self) -> bool:
        """Give it back. False where it was given back or lost before: that frees nothing twice."""
        return self.pool.release(self)

    async def arelease(self) -> bool:
        """`release` from an event loop."""
        return await self.pool.arelease(self)

    def __del__(self) -> None:
        self.pool.drop(self)


class FleetPool:
    """Slots for threads and tasks of all processes, of which there are as many as `processes` answers."""

    def __init__(
        self, name: str, rules: PoolRules, *, store: PoolStore, lease_seconds: float = 15.0,
        processes: Callable[[], int] = lambda: 1,
    ) -> None:  # fmt: skip
        self.name, self.rules, self.store = name, rules, store
        self._lease_seconds, self._processes = lease_seconds, processes
        self._learning_until = -math.inf
        self._operations = Operations(store, self._member)
        self._alone = ProcessPool(name, rules)
        beats.join(self)

    # Verbs

    def prepare(self) -> None:
        """Let the store know the pool, so that it has learnt what there is to learn when a slot is wanted."""
        self.store.run(PoolShow(self._member()))

    def acquire(
        self, tenant: str, share: Share, *, wait: float = 0.0,
        on_store_failure: OnStoreFailure = OnStoreFailure.LOCAL, max_hold: float | None = None,
    ) -> FleetSlot:  # fmt: skip
        """A slot, at once or within `wait` seconds. Errors: SlotRefused, QueueFull, QueueTimeout.

        Without the store, this process's part of the pool decides, or what else is said; to refuse is StoreError. A
        slot is lost when it is held for longer than `max_hold` seconds.
        """
        waiter = ThreadWaiter()
        one = self._begin(tenant, share, waiter, max_hold)
        try:
            self._enters(one, self.store.run(self._wish(one, share, wait)))
            if one.stage is Stage.WAITS:
                waiter.wait(wait)
        except StoreError as error:
            self._fails(one, error)
        except BaseException:
            self._operations.give_up(one)
            beats.add(self)
            raise
        if self._has_slot(one, wait):
            return FleetSlot(self, one)
        part, left = self._share_alone(one, share, on_store_failure), self._left(one, wait)
        return FleetSlot(self, one, None if part is None else self._alone.acquire(tenant, part, wait=left))

    async def aacquire(
        self, tenant: str, share: Share, *, wait: float = 0.0,
        on_store_failure: OnStoreFailure = OnStoreFailure.LOCAL, max_hold: float | None = None,
    ) -> FleetSlot:  # fmt: skip
        """`acquire` from an event loop."""
        waiter = TaskWaiter()
        one = self._begin(tenant, share, waiter, max_hold)
        try:
            self._enters(one, await self.store.arun(self._wish(one, share, wait)))
            if one.stage is Stage.WAITS:
                await waiter.wait(wait)
        except StoreError as error:
            self._fails(one, error)
        except BaseException:
            self._operations.give_up(one)
            beats.add(self)
            raise
        if self._has_slot(one, wait):
            return FleetSlot(self, one)
        part, left = self._share_alone(one, share, on_store_failure), self._left(one, wait)
        return FleetSlot(self, one, None if part is None else await self._alone.aacquire(tenant, part, wait=left))

    def release(self, slot: FleetSlot) -> bool:
        """Give a slot back. False where that was done before, it is known to be lost, or it is another pool's."""
        if slot.pool is not self or not self._operations.end(slot.operation):
            return slot.pool is self and slot.inner is not None and slot.inner.release()
        try:
            left = self.store.run(self._end_of(slot))
        except StoreError:
            self._ends_later(slot)
            return True
        except BaseException:
            self._ends_later(slot)
            raise
        self._operations.hear_all(left.granted)
        return True

    async def arelease(self, slot: FleetSlot) -> bool:
        """`release` from an event loop. Where it is cancelled, the slot comes back all the same."""
        if slot.pool is not self or not self._operations.end(slot.operation):
            return slot.pool is self and slot.inner is not None and slot.inner.release()
        try:
            left = await self.store.arun(self._end_of(slot))
        except StoreError:
            self._ends_later(slot)
            return True
        except BaseException:
            self._ends_later(slot)
            raise
        self._operations.hear_all(left.granted)
        return True

    def drop(self, slot: FleetSlot) -> None:
        """Nobody has the slot any more: it is given back with the next beat."""
        self._operations.drop(slot.operation)

    def free(self, tenant: str) -> bool:
        """Take the oldest slot of a tenant from its holder, by hand. False where it has none."""
        freed = self.store.run(PoolFree(self._member(), tenant))
        self._operations.hear_all(freed.granted)
        return freed.was_there[0]

    def change_share(self, tenant: str, share: Share) -> None:
        """The tenant has another share from now on. What runs, runs on."""
        if self._operations.change_share(tenant, share):
            beats.add(self)

    def change_rules(self, rules: PoolRules) -> None:
        """The pool has other rules from now on. What runs, runs on."""
        if rules != self.rules:
            self.rules = rules
            self.hurry()
            beats.add(self)

    def standings(self) -> dict[str, Standing]:
        """Every tenant that runs or waits now, in any process. `since` is on this process's monotonic clock."""
        shown, now = self._shown(), time.monotonic()
        return {
            tenant: one if one.since is None else replace(one, since=now + one.since)
            for tenant, one in shown.standings.items()
        }

    def snapshot(self) -> Snapshot:
        """What is held now, in all processes."""
        shown = self._shown()
        return Snapshot(
            rules=self.rules, standings=shown.standings, opens_in=shown.opens_in,
            running=sum(one.running for one in shown.standings.values()),
            waiting=sum(one.waiting for one in shown.standings.values()),
        )  # fmt: skip

    def _shown(self) -> Shown:
        shown = self.store.run(PoolShow(self._member()))
        self._operations.hear_all(shown.granted)
        return shown

    # Beats

    @property
    def due_at(self) -> float:
        """When the store has to hear of this process next; infinite where it has nothing here."""
        return self._operations.due_at

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits."""
        return self._operations.has_waiters

    def beat(self) -> None:
        """Say that this process is alive with all that it has here."""
        self._operations.beat()

    def hurry(self) -> None:
        """Say it at once."""
        self._operations.hurry()

    def hear(self, id: bytes) -> None:
        """An operation has a slot, if it is one of these."""
        self._operations.hear(id)

    def end(self) -> None:
        """The process ends: give back all."""
        self._operations.give_all_back()

    def forget(self) -> None:
        """Begin with nothing: this is a forked child."""
        self._operations.forget()
        self._alone = ProcessPool(self.name, self.rules)

    # Steps

    def _member(self) -> Member:
        return Member(
            pool=self.name, process=beats.process, rules=self.rules, lease_seconds=self._lease_seconds,
            patience_seconds=min(self._lease_seconds, MOST_PATIENT_SECONDS),
        )  # fmt: skip

    def _begin(self, tenant: str, share: Share, waiter: ThreadWaiter | TaskWaiter, max_hold: float | None) -> Operation:
        one = Operation(os.urandom(OPERATION_BYTES), tenant, waiter, time.monotonic(), max_hold)
        self._operations.begin(one, share)
        return one

    def _wish(self, one: Operation, share: Share, wait: float) -> PoolEnter:
        return PoolEnter(member=self._member(), id=one.id, tenant=one.tenant, share=share, may_wait=wait > 0)

    def _end_of(self, slot: FleetSlot) -> PoolLeave:
        return PoolLeave(self._member(), (slot.operation.id,))

    def _ends_later(self, slot: FleetSlot) -> None:
        """The store was not reached, or nobody waited for its answer: it hears of the end with the next beat."""
        self._operations.owe(slot.operation.id)
        beats.add(self)

    def _enters(self, one: Operation, entered: Entered) -> None:
        """It has its slot, or waits, or SlotRefused, QueueFull."""
        self._operations.hear_all(entered.granted)
        self._note_learning(entered.opens_in)
        one.standing = entered.standing
        if entered.entry is None:
            self._operations.takes(one)
        elif entered.entry is Entry.WAITS:
            self._operations.waits(one)
            beats.listen(self.store)
        else:
            self._operations.end(one)
            refusal = QueueFull if entered.entry is Entry.QUEUE_FULL else SlotRefused
            raise refusal(self.name, one.tenant, entered.standing)
        beats.add(self)

    def _note_learning(self, seconds: float) -> None:
        now = time.monotonic()
        if seconds and now > self._learning_until:
            self._learning_until = now + seconds
            logger.warning("The store knows nothing of pool %s yet: no new slots for %.1f s.", self.name, seconds)

    def _fails(self, one: Operation, error: StoreError) -> None:
        one.trouble = error
        self._operations.give_up(one)
        beats.add(self)

    def _has_slot(self, one: Operation, wait: float) -> bool:
        """Whether it has a slot of the fleet; else it goes alone. QueueTimeout where it has waited in vain."""
        if self._operations.stops_waiting(one):
            beats.add(self)
            assert one.standing is not None, "who waits has been answered"
            raise QueueTimeout(self.name, one.tenant, one.standing, wait)
        return one.trouble is None

    # Without the store

    def _share_alone(self, one: Operation, share: Share, on_store_failure: OnStoreFailure) -> Share | None:
        """The tenant's share of this process's part of the pool; None where it needs none, StoreError to refuse."""
        assert one.trouble is not None, "only who has had trouble goes alone"
        if on_store_failure is OnStoreFailure.REFUSE:
            raise one.trouble
        if on_store_failure is OnStoreFailure.ALLOW:
            return None
        processes = max(1, self._processes())
        self._alone.change_rules(replace(self.rules, capacity=_part(self.rules.capacity, processes)))
        return Share(_part(share.slots, processes), share.queue)

    def _left(self, one: Operation, wait: float) -> float:
        """What is left of its time to wait."""
        return max(0.0, wait - (time.monotonic() - one.since))


def _part(slots: int, processes: int) -> int:
    """One process's part: at least a slot of what has any, or what is small would be nobody's."""
    return max(min(slots, 1), slots // processes)
