"""What is asked of the gate, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.lanes import Lane
from tenantlimits.domain.plans import Plan, Subject
from tenantlimits.engine.base import Admit, Answer, Engine, Peek, Status
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.leases import hold_times
from tenantlimits.gate.refusals import Question, question
from tenantlimits.gate.store import now_us
from tenantlimits.policy.loading import Policy, asked_lanes
from tenantlimits.pools.registry import AnySlot


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is asked of the gate: who, in which lane, for how many milli-units.

    With a `lease` an admitted operation takes its slots. `inside` an admitted operation, lane `all` is not asked again;
    `pools` are those in which what is under way has a slot. `wait` seconds at most for a slot of the lane's pool; None:
    as the lane says. `plan` is given where no stored policy stands behind it; else the tenant's policy makes one.
    """

    identity: Identity
    lane: Lane
    cost: int
    lease: bytes | None = None
    inside: bool = False
    pools: frozenset[str] = frozenset()
    wait: float | None = None
    every_lane: bool = False
    plan: Plan | None = None
    first_tier: Callable[[], str | None] = lambda: None

    def planned(self, policy: Policy) -> Plan:
        """The plan of this operation under a policy."""
        lanes = None if self.every_lane else asked_lanes(self.lane, inside=self.inside)
        return policy.plan(self.lane.name, lanes, _subjects(self.identity))

    def command(self, plan: Plan) -> Admit:
        """Ask and record."""
        return Admit(plan=plan, identity=self.identity, cost=self.cost, lease=self.lease if plan.has_cap else None)

    @property
    def question(self) -> Question:
        """What is asked, but for its cost."""
        return question(self.identity, self.lane.name, inside=self.inside)

    def peek(self, plan: Plan) -> Peek:
        """Ask only."""
        return Peek(plan=plan, identity=self.identity, cost=self.cost)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision, and the store's answer that it was made of; `engine` is the store that gave it.

    `slot` is what an allowed operation has of its lane's pool.
    """

    decision: Decision
    answer: Answer | None
    engine: Engine | None
    slot: AnySlot | None = None


def _subjects(identity: Identity) -> frozenset[Subject]:
    """Whose limits can be asked of this caller."""
    return _PRESENT[bool(identity.tenant), identity.user is not None, identity.credential is not None]


_PRESENT = {
    present: frozenset(subject for subject, is_there in zip(Subject, present, strict=True) if is_there)
    for present in product((False, True), repeat=len(Subject))
}


def decision_of(ask: Ask, plan: Plan, answer: Answer, *, degraded: bool = False) -> Decision:
    return Decision(
        plan=plan,
        allowed=answer.status is Status.ALLOWED,
        cost=ask.cost,
        now_us=answer.now_us,
        states=answer.states,
        fits=answer.fits,
        degraded=degraded,
        busy_seconds=1.0 if answer.status is Status.ALLOWED else hold_times.until_free(ask.lane.name, plan),
    )


def blank(ask: Ask, *, allowed: bool, degraded: bool = False) -> Decision:
    """A decision that no limit had a part in."""
    plan = Plan(tenant=ask.identity.tenant, lane=ask.lane.name, tier="", tier_name="", terms=(), lease_us=0)
    return Decision(
        plan=plan, allowed=allowed, cost=ask.cost, now_us=now_us(), states=(), fits=(),
        degraded=degraded, unavailable=degraded and not allowed,
    )  # fmt: skip
