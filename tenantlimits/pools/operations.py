"""What of a fleet's pool is this process's: operations that wait or have a slot, and what the store is owed of them.

Whoever asks, hears or gives up does so under one lock and never waits for the store with it; the store is told by
`beat`. What a message says may be told again by a beat, and what is given up may be granted in that moment: an id that
is not among the operations any more is nobody's.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto

from tenantlimits.domain.shares import Share, Standing
from tenantlimits.engine.breaker import StoreAway, is_away
from tenantlimits.engine.pools import Member, PoolBeat, PoolLeave, PoolStore, Sign, State, StoreError
from tenantlimits.pools.waiters import TaskWaiter, ThreadWaiter

logger = logging.getLogger(__name__)


class Stage(Enum):
    """How far an operation is."""

    ASKS = auto()
    WAITS = auto()
    RUNS = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Operation:
    """One that waits since or runs `since` (seconds, monotonic). `max_hold` is the longest that it may run.

    The store keeps it until `expires_at`, as far as is known. `standing` is its tenant's when it began to wait, and
    `trouble` what kept it from going on with the store.
    """

    id: bytes
    tenant: str
    waiter: ThreadWaiter | TaskWaiter
    since: float
    max_hold: float | None = None
    expires_at: float = math.inf
    stage: Stage = Stage.ASKS
    standing: Standing | None = None
    lost: bool = False
    trouble: StoreError | None = None

    def is_overdue(self, now: float) -> bool:
        """Whether it has had its slot for longer than it may."""
        return self.stage is Stage.RUNS and self.max_hold is not None and now - self.since > self.max_hold


@dataclass(frozen=True, slots=True)
class _Debt:
    """How often the store has to hear still that an operation is over, and until when it does not know by itself."""

    times: int
    until: float


_Told = tuple[Operation, Sign]
"""An operation, and what the store was told of it."""


class Operations:
    """Those of one pool. `member` answers what the store knows this process by."""

    def __init__(self, store: PoolStore, member: Callable[[], Member]) -> None:
        self.store, self._member = store, member
        self.forget()

    def forget(self) -> None:
        """This is a forked child, which has none of it."""
        self._lock = threading.Lock()
        self._all: dict[bytes, Operation] = {}
        self._shares: dict[str, Share] = {}
        self._owed: dict[bytes, _Debt] = {}
        self._dropped: deque[Operation] = deque()
        self._waiting = 0
        self.due_at = math.inf
        """When the store has to hear of us next."""

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits."""
        return self._waiting > 0

    # What an operation does

    def begin(self, one: Operation, share: Share) -> None:
        """It asks for a slot."""
        with self._lock:
            self._all[one.id] = one
            self._shares[one.tenant] = share

    def takes(self, one: Operation) -> None:
        """It has its slot at once."""
        self._settle(one, Stage.RUNS, self._member().lease_seconds)

    def waits(self, one: Operation) -> None:
        """It waits, unless somebody has given it a slot meanwhile."""
        self._settle(one, Stage.WAITS, self._member().patience_seconds)

    def stops_waiting(self, one: Operation) -> bool:
        """Its time is over. False where it has no need to wait any more."""
        with self._lock:
            if one.stage is not Stage.WAITS:
                return False
            self._end(one)
            self._owe(one.id)
        return True

    def end(self, one: Operation) -> bool:
        """It has ended, and its slot is being given back. False where it had ended before."""
        with self._lock:
            if self._all.get(one.id) is not one:
                return False
            self._end(one)
        return True

    def give_up(self, one: Operation) -> None:
        """It wants nothing any more, and what it was given in the meantime goes on to the next."""
        was = one.stage
        if self.end(one) and not isinstance(one.trouble, StoreAway):
            # What it asked may arrive after we have said that it is over: so that is said twice.
            self.owe(one.id, times=2 if was is Stage.ASKS else 1)

    def owe(self, id: bytes, *, times: int = 1) -> None:
        """The store has to hear that an operation is over."""
        with self._lock:
            self._owe(id, times)

    def drop(self, one: Operation) -> None:
        """Nobody has its slot any more. Called at any moment, also under our lock: so the next beat sees to it."""
        if one.stage is Stage.RUNS:
            self._dropped.append(one)

    def change_share(self, tenant: str, share: Share) -> bool:
        """A tenant has another share from now on. False where it has nothing here."""
        with self._lock:
            if self._shares.get(tenant, share) == share:
                return False
            self._shares[tenant] = share
            self.due_at = time.monotonic()
        return True

    # What the store says

    def hear(self, id: bytes) -> bool:
        """An operation has a slot. False where it is none of these."""
        with self._lock:
            one = self._all.get(id)
            if one is None:
                return False
            if one.stage is Stage.RUNS:
                return True
            self._waiting -= one.stage is Stage.WAITS
            one.stage, one.since = Stage.RUNS, time.monotonic()
        if not one.waiter.wake():
            self.give_up(one)
        return True

    def hear_all(self, ids: Iterable[bytes]) -> None:
        """Several of them have."""
        for id in ids:
            self.hear(id)

    # What the store is told

    def hurry(self) -> None:
        """Tell it at once."""
        with self._lock:
            if self._all:
                self.due_at = time.monotonic()

    def beat(self) -> None:
        """Say that all of them are alive, and which are over."""
        now = time.monotonic()
        owed, told = self._news(now)
        trouble = None
        try:
            if owed:
                self.hear_all(self.store.run(PoolLeave(self._member(), owed)).granted)
                self._pay(owed)
            if told:
                beaten = self.store.run(PoolBeat(self._member(), tuple(sign for _, sign in told)))
                self._renew(told, beaten.states, now)
                self.hear_all(beaten.granted)
        except StoreError as error:
            trouble = error
        for one, _ in told:
            # What was said of it before its end, and arrived after that, may have restored it.
            if one.stage is Stage.ENDED and not one.lost:
                self.owe(one.id)
        if trouble is not None:
            self._fail(trouble)
        else:
            self._plan()

    def give_all_back(self) -> None:
        """The process ends."""
        with self._lock:
            ids = (*self._all, *self._owed)
            for one in list(self._all.values()):
                self._end(one)
            self._owed.clear()
            self.due_at = math.inf
        if ids:
            try:
                self.store.run(PoolLeave(self._member(), ids))
            except StoreError as error:
                logger.debug("%d slots come back when their leases end (%s).", len(ids), error)

    def _news(self, now: float) -> tuple[tuple[bytes, ...], list[_Told]]:
        """What is over, and what goes on."""
        with self._lock:
            while self._dropped:
                dropped = self._dropped.popleft()
                if self._all.get(dropped.id) is dropped:
                    self._end(dropped)
                    self._owe(dropped.id)
            for one in [one for one in self._all.values() if one.is_overdue(now)]:
                self._lose(one, "has held it for longer than it may")
                self._owe(one.id)
            # An answer under way says more of those that ask than could be said here.
            told = [(one, self._sign(one, now)) for one in self._all.values() if one.stage is not Stage.ASKS]
            self._shares = {one.tenant: self._shares[one.tenant] for one in self._all.values()}
            self.due_at = math.inf  # what comes up from here on is for the next beat
            return tuple(self._owed), told

    def _sign(self, one: Operation, now: float) -> Sign:
        # A holder that was silent for a whole lease may have a successor: it takes nothing back.
        return Sign(
            id=one.id, tenant=one.tenant, share=self._shares[one.tenant], runs=one.stage is Stage.RUNS,
            again=now < one.expires_at, age=now - one.since,
        )  # fmt: skip

    def _renew(self, told: Iterable[_Told], states: Iterable[State], now: float) -> None:
        member = self._member()
        for (one, sign), state in zip(told, states, strict=True):
            if state is State.RUNS:
                one.expires_at = now + member.lease_seconds
                self.hear(one.id)
            elif state is State.WAITS:
                one.expires_at = now + member.patience_seconds
            elif sign.runs:
                with self._lock:
                    self._lose(one, "lost it to the others")

    def _fail(self, error: StoreError) -> None:
        """What the store has not heard of for a lease, it has given to others; and nobody waits for a store away."""
        now, alone = time.monotonic(), []
        with self._lock:
            for one in list(self._all.values()):
                if one.stage is Stage.RUNS and one.expires_at <= now:
                    self._lose(one, f"could not be renewed ({error})")
                elif one.stage is Stage.WAITS and is_away(error):
                    self._end(one)
                    self._owe(one.id)
                    one.trouble = error
                    alone.append(one)
            self._owed = {id: debt for id, debt in self._owed.items() if debt.until > now}
            self.due_at = now + self._member().patience_seconds / 3
        for one in alone:
            one.waiter.wake()

    def _pay(self, owed: Iterable[bytes]) -> None:
        """What the store has heard often enough is owed no more."""
        with self._lock:
            for id in owed:
                debt = self._owed.pop(id, None)
                if debt is not None and debt.times > 1:
                    self._owed[id] = replace(debt, times=debt.times - 1)

    def _plan(self) -> None:
        """When to beat next: soon while somebody waits, or has a slot that the store has not heard of as taken."""
        member, now = self._member(), time.monotonic()
        with self._lock:
            soonest = min((one.expires_at for one in self._all.values()), default=math.inf)
            if self._owed or self._waiting or soonest <= now + member.patience_seconds:
                planned_at = now + member.patience_seconds / 3
            else:
                planned_at = now + member.lease_seconds / 3 if self._all else math.inf
            self.due_at = min(self.due_at, planned_at)

    # Under the lock

    def _settle(self, one: Operation, stage: Stage, seconds: float) -> None:
        now = time.monotonic()
        with self._lock:
            if one.stage is Stage.ASKS:
                one.stage = stage
                self._waiting += stage is Stage.WAITS
            # By when it was asked: the store's answer may have been long on its way.
            one.expires_at = one.since + seconds
            if stage is Stage.RUNS:
                one.since = now
            self.due_at = min(self.due_at, now + seconds / 3)

    def _end(self, one: Operation) -> None:
        del self._all[one.id]
        self._waiting -= one.stage is Stage.WAITS
        one.stage = Stage.ENDED

    def _owe(self, id: bytes, times: int = 1) -> None:
        now = time.monotonic()
        self._owed[id] = _Debt(times, now + self._member().lease_seconds)
        self.due_at = min(self.due_at, now)

    def _lose(self, one: Operation, why: str) -> None:
        if self._all.get(one.id) is one:
            self._end(one)
            one.lost = True
            logger.warning("An operation in pool %s %s: it runs on without its slot.", self._member().pool, why)
