"""The verbs that code calls: admit, hold, peek, settle, and their async twins."""

from __future__ import annotations

import os
from dataclasses import replace
from types import TracebackType

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.errors import LimitExceeded, TenantLimitsError
from tenantlimits.domain.lanes import milli
from tenantlimits.engine.base import LEASE_BYTES
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.admissions import Admission
from tenantlimits.gate.asking import Ask, Outcome
from tenantlimits.gate.deciding import admitting, peeking
from tenantlimits.gate.steps import Steps, adrive, drive
from tenantlimits.gate.store import stores
from tenantlimits.gate.waiting import waiting
from tenantlimits.tenancy import Scope, checked, current_scope, enter, leave


def admit(*, lane: str, cost: float | None = None, tenant: str | None = None) -> Decision:
    """Ask for one operation now, and record it where it is allowed. A refusal is an answer, not an exception.

    A concurrency cap is asked whether a slot is free, but none is taken: use `hold` for that. `cost` is units in
    steps of 0.001, the lane's own where it is None. Errors: UnknownLane, InvalidCost, InvalidTenant.
    """
    ask = _ask(lane, cost, tenant)
    return _noted(ask, drive(admitting(ask), stores.engine)).decision


async def aadmit(*, lane: str, cost: float | None = None, tenant: str | None = None) -> Decision:
    """`admit` from an event loop."""
    ask = _ask(lane, cost, tenant)
    return _noted(ask, await adrive(admitting(ask), stores.engine)).decision


def peek(*, lane: str, cost: float | None = None, tenant: str | None = None) -> Decision:
    """The decision that `admit` would make now. Charges and counts nothing; redis.RedisError without the store."""
    return drive(peeking(_ask(lane, cost, tenant)), stores.engine).decision


async def apeek(*, lane: str, cost: float | None = None, tenant: str | None = None) -> Decision:
    """`peek` from an event loop."""
    return (await adrive(peeking(_ask(lane, cost, tenant)), stores.engine)).decision


def settle(*, cost: float) -> None:
    """Correct the cost of the operation under way, once; see Admission.settle."""
    _under_way().settle(cost=cost)


async def asettle(*, cost: float) -> None:
    """`settle` from an event loop."""
    await _under_way().asettle(cost=cost)


class hold:  # noqa: N801 - reads as the verb that it is: with hold(lane=...) as admission
    """Ask for one operation and keep its slot until the block ends; LimitExceeded where it is refused.

    With `wait` it waits up to so many seconds to be admitted: in line behind the same tenant's operations of that lane
    in this process, of which the first asks for all, and without being charged until it is admitted.
    Inside an admitted request or another `hold` it is an admission of its own, which lane `all` does not count again.
    Errors: LimitExceeded, UnknownLane, InvalidCost, InvalidTenant, ValueError for a negative wait.
    """

    def __init__(
        self, *, lane: str, cost: float | None = None, tenant: str | None = None, wait: float | None = None
    ) -> None:
        if wait is not None and not wait >= 0:
            raise ValueError(f"hold(lane={lane!r}, wait={wait!r}): wait at least 0 seconds; 0 does not wait.")
        self._ask = replace(_ask(lane, cost, tenant, lease=os.urandom(LEASE_BYTES)), wait=wait)
        self._admission: Admission | None = None

    def _steps(self) -> Steps[Outcome]:
        return waiting(self._ask, self._ask.wait) if self._ask.wait else admitting(self._ask)

    def __enter__(self) -> Admission:
        return self._begin(drive(self._steps(), stores.engine))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end().release()

    def _begin(self, outcome: Outcome) -> Admission:
        if outcome.decision.refused:
            raise LimitExceeded(outcome.decision)
        self._admission = Admission.of(self._ask, outcome)
        self._token = enter(Scope(self._ask.identity, self._admission, self._ask.pools | self._admission.pools))
        return self._admission

    def _end(self) -> Admission:
        assert self._admission is not None, "a hold ends after it has begun"
        leave(self._token)
        return self._admission


class ahold(hold):  # noqa: N801 - as hold
    """`hold` from an event loop: async with ahold(lane=...) as admission."""

    async def __aenter__(self) -> Admission:
        return self._begin(await adrive(self._steps(), stores.engine))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end().arelease()


def _ask(lane: str, cost: float | None, tenant: str | None, lease: bytes | None = None) -> Ask:
    known = conf.lane(lane)
    scope = current_scope()
    identity, admission = (scope.identity, scope.admission) if scope else (None, None)
    pools: frozenset[str] = scope.pools if scope else frozenset()
    if tenant is not None and (identity is None or identity.tenant != tenant):
        # Another tenant's operation: nothing of the work under way has counted it.
        identity, admission, pools = Identity(tenant=checked(tenant, "The caller")), None, frozenset()
    if identity is None:
        raise TenantLimitsError(
            f"Nobody asks for lane {lane}: outside a request pass tenant=..., or work inside tenant_context(...)."
        )
    milli_cost = milli(known.cost if cost is None else cost)
    inside = admission is not None
    return Ask(identity=identity, lane=known, cost=milli_cost, lease=lease, inside=inside, pools=pools)


def _noted(ask: Ask, outcome: Outcome) -> Outcome:
    """Where nothing is under way yet, an admitted operation is what `settle` corrects."""
    scope = current_scope()
    if outcome.decision.allowed and scope is not None and scope.admission is None and scope.identity == ask.identity:
        scope.admission = Admission.of(ask, outcome)
    return outcome


def _under_way() -> Admission:
    scope = current_scope()
    if scope is None or not isinstance(scope.admission, Admission):
        raise TenantLimitsError("Nothing is under way here that could be settled: use admission.settle(cost=...).")
    return scope.admission
