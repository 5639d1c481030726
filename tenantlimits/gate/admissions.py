"""An allowed operation that is under way: it is settled at most once and gives its slots back exactly once."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field

import redis

from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.lanes import milli
from tenantlimits.engine.base import Answer, Engine, Lease, Release, Settle, Status, lease_caps, witnesses
from tenantlimits.gate.asking import Ask, Outcome
from tenantlimits.gate.leases import Held, heartbeat, hold_times
from tenantlimits.gate.lookup import reloaded
from tenantlimits.gate.steps import Steps, adrive, drive
from tenantlimits.pools.fleet import FleetSlot
from tenantlimits.pools.registry import AnySlot

logger = logging.getLogger(__name__)
_background: set[asyncio.Task[None]] = set()


@dataclass(slots=True, eq=False)
class Admission:
    """An operation that was allowed. `decision` says by what; `lost` turns true if its slot lapsed while it ran."""

    decision: Decision
    _ask: Ask
    _engine: Engine | None
    _answer: Answer | None
    _slot: AnySlot | None = None
    _held: Held | None = None
    _settled: bool = field(default=False)
    _released: bool = field(default=False)

    @classmethod
    def of(cls, ask: Ask, outcome: Outcome) -> Admission:
        """The admission that an allowing outcome is."""
        decision = outcome.decision
        admission = cls(decision, ask, outcome.engine, outcome.answer, outcome.slot)
        if ask.lease is not None and decision.plan.has_cap and outcome.engine is not None:
            admission._hold(ask.lease, outcome.engine)
        return admission

    def _hold(self, lease_id: bytes, engine: Engine) -> None:
        plan, now = self.decision.plan, time.monotonic()
        lease = Lease(id=lease_id, identity=self._ask.identity, caps=lease_caps(plan), length_us=plan.lease_us)
        self._held = Held(lease, engine, plan.lane, self._ask.lane.max_hold_seconds, now, now)
        heartbeat.add(self._held)

    @property
    def holds_slot(self) -> bool:
        """Whether there is a slot to give back, of a concurrency limit or of a pool."""
        return (self._held is not None or self._slot is not None) and not self._released

    @property
    def pools(self) -> frozenset[str]:
        """The pools in which it has a slot."""
        return frozenset() if self._slot is None else frozenset({self._slot.pool.name})

    @property
    def lost(self) -> bool:
        """Whether its slot lapsed while it ran, so that another operation may have it."""
        return (self._held is not None and self._held.lost) or (isinstance(self._slot, FleetSlot) and self._slot.lost)

    def settle(self, *, cost: float) -> None:
        """Correct the cost to what the work turned out to cost: the difference is charged or given back, once.

        A second call changes nothing. InvalidCost where the cost is no number of units. More than planned may take a
        limit into debt of at most one burst. Without the store the correction is dropped and logged.
        """
        if steps := self._settling(cost):
            try:
                drive(steps, self._engine_of_admission())
            except redis.RedisError as error:
                _report_unsettled(error)

    async def asettle(self, *, cost: float) -> None:
        """`settle` from an event loop."""
        if steps := self._settling(cost):
            try:
                await adrive(steps, self._engine_of_admission())
            except redis.RedisError as error:
                _report_unsettled(error)

    def _engine_of_admission(self) -> Engine:
        assert self._engine is not None, "nothing is settled where no store was asked"
        return self._engine

    def _settling(self, cost: float) -> Steps[None] | None:
        delta = milli(cost) - self._ask.cost
        if self._settled or self._engine is None or delta == 0:
            self._settled = True
            return None
        self._settled = True
        return self._settle_steps(delta)

    def _settle_steps(self, delta: int) -> Steps[None]:
        plan = self.decision.plan
        charged = witnesses(plan, self._answer) if self._answer and self._ask.cost else {}
        for _ in range(5):
            settle = Settle(plan=plan, identity=self._ask.identity, delta=delta, witnesses=charged)
            status: Status = yield settle
            if status is Status.ALLOWED:
                return
            plan = self._ask.planned((yield from reloaded(self._ask.identity, self._ask.first_tier)))

    def release(self) -> None:
        """Give the slots back. The first call counts; failure is logged, for the lease ends by itself."""
        if not self._ends():
            return
        if self._slot is not None:
            self._slot.release()
        if self._held is not None:
            try:
                self._held.engine.post(Release(self._held.lease))
            except redis.RedisError as error:
                _report_unreleased(error)

    async def arelease(self) -> None:
        """`release` from an event loop. It goes on where the caller is cancelled while it waits."""
        if self._ends() and (self._slot is not None or self._held is not None):
            task = asyncio.ensure_future(_arelease(self._slot, self._held))
            _background.add(task)
            task.add_done_callback(_background.discard)
            await asyncio.shield(task)

    def _ends(self) -> bool:
        """Whether it ends now, and had not before; its lease is renewed no more."""
        if self._released:
            return False
        self._released = True
        if self._held is not None:
            heartbeat.drop(self._held.lease)
            hold_times.note(self._held.lane, time.monotonic() - self._held.since)
        return True


async def _arelease(slot: AnySlot | None, held: Held | None) -> None:
    if isinstance(slot, FleetSlot):
        await slot.arelease()
    elif slot is not None:
        slot.release()
    if held is None:
        return
    try:
        await held.engine.arun(Release(held.lease))
    except redis.RedisError as error:
        _report_unreleased(error)


def _report_unreleased(error: redis.RedisError) -> None:
    logger.warning("A slot could not be given back (%s): it comes back when its lease ends.", error)


def _report_unsettled(error: redis.RedisError) -> None:
    logger.warning("A cost could not be settled (%s): what was charged at first stays charged.", error)
