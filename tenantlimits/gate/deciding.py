"""One decision, from who asks for what to the answer: written once, driven from threads and from event loops.

A decision is a generator of steps. A step is a command for the store or a look into the database; `drive` takes the
steps one after another in a thread, `adrive` awaits them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import redis
from asgiref.sync import sync_to_async
from django.db import Error

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.lanes import Lane, OnStoreFailure
from tenantlimits.domain.limits import ALL_LANE, Counts, Guarantee, Kind, Layer, Limit, LimitInForce
from tenantlimits.domain.local import local_plan
from tenantlimits.domain.periods import from_us
from tenantlimits.domain.plans import Plan, Subject, terms
from tenantlimits.engine.base import Admit, Answer, Begin, Begun, Command, Engine, Peek, Status
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.leases import hold_times
from tenantlimits.gate.policies import load_and_keep, policies, sees_uncommitted_changes
from tenantlimits.gate.refusals import Question, question
from tenantlimits.gate.store import now_us, stores
from tenantlimits.policy.flushed import flushed_use
from tenantlimits.policy.loading import Policy, asked_lanes

logger = logging.getLogger(__name__)

T = TypeVar("T")
_MOST_ATTEMPTS = 5
"""A policy that is stale so often in a row changes faster than it can be read."""


@dataclass(frozen=True, slots=True)
class _Load:
    """Read a policy from the database."""

    identity: Identity
    begun: Begun | None
    now_us: float
    first_tier: Callable[[], str | None]

    def __call__(self) -> Policy:
        return load_and_keep(self.identity, self.begun, self.now_us, self.first_tier)


Step = Command[Any] | Callable[[], Any]
"""A command for the store, or a look into the database."""
Steps = Generator[Step, Any, T]


def drive(steps: Steps[T], engine: Engine) -> T:
    """Take the steps in this thread."""
    try:
        step = next(steps)
        while True:
            try:
                reply = engine.run(step) if isinstance(step, Command) else step()
            except redis.RedisError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as done:
        result: T = done.value
        return result


async def adrive(steps: Steps[T], engine: Engine) -> T:
    """Take the steps from an event loop; the database is asked in a thread."""
    try:
        step = next(steps)
        while True:
            try:
                reply = await engine.arun(step) if isinstance(step, Command) else await sync_to_async(step)()
            except redis.RedisError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as done:
        result: T = done.value
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is asked of the gate: who, in which lane, for how many milli-units.

    With a `lease` an admitted operation takes its slots. `inside` an admitted operation, lane `all` is not asked again.
    `plan` is given where no stored policy stands behind it; else the tenant's policy makes one.
    """

    identity: Identity
    lane: Lane
    cost: int
    lease: bytes | None = None
    inside: bool = False
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
    """A decision, and the store's answer that it was made of; `engine` is the store that gave it."""

    decision: Decision
    answer: Answer | None
    engine: Engine | None


def admitting(ask: Ask) -> Steps[Outcome]:
    """Ask and record. Never raises redis.RedisError: the lane says what happens without a store."""
    outcome = yield from _admitting(ask)
    stores.outcomes.note(outcome.decision)
    return outcome


def _admitting(ask: Ask) -> Steps[Outcome]:
    if not ask.identity.tenant and conf.ANONYMOUS_TIER is None and ask.plan is None:
        return Outcome(_blank(ask, allowed=False), None, None)
    repeated = _repeated(ask)
    if repeated is not None:
        return Outcome(repeated, None, None)
    asked_at = time.monotonic()
    try:
        answer, plan = yield from _decided(ask, ask.command)
    except redis.RedisError as error:
        stores.health.note(error, ask.lane)
        return (yield from _without_store(ask))
    decision = _decision(ask, plan, answer)
    if decision.refused and ask.plan is None and stores.repeats_refusals:
        stores.refusals.keep(ask.question, ask.identity, decision, asked_at)
    return Outcome(decision, answer, stores.engine)


def _repeated(ask: Ask) -> Decision | None:
    """The refusal that the store gave to the same question just now, where the store may still be of that opinion."""
    if not stores.refusals or ask.plan is not None or sees_uncommitted_changes():
        return None
    return stores.refusals.find(ask.question, ask.cost)


def peeking(ask: Ask) -> Steps[Outcome]:
    """The decision that would be made now; redis.RedisError where the store cannot say."""
    answer, plan = yield from _decided(ask, ask.peek)
    return Outcome(_decision(ask, plan, answer), answer, stores.engine)


def current_policy(identity: Identity, first_tier: Callable[[], str | None]) -> Steps[Policy]:
    """The tenant's policy in memory, or from the database on the stamps of now."""
    policy = policies.get(identity)
    if policy is None:
        policy = yield from reloaded(identity, first_tier)
    return policy


def reloaded(identity: Identity, first_tier: Callable[[], str | None]) -> Steps[Policy]:
    """Stamp first, then rows: what is saved in between moves the stamp, and the policy is stale at once."""
    begun: Begun = yield Begin(identity)
    policy: Policy = yield _Load(identity, begun, begun.now_us, first_tier)
    return policy


def _decided(ask: Ask, command: Callable[[Plan], Command[Answer]]) -> Steps[tuple[Answer, Plan]]:
    """Ask the store until the policy that is asked by is the one in force."""
    if ask.plan is not None:
        answer: Answer = yield command(ask.plan)
        return answer, ask.plan
    policy = yield from current_policy(ask.identity, ask.first_tier)
    for _ in range(_MOST_ATTEMPTS):
        plan = ask.planned(policy)
        answer = yield command(plan)
        if answer.decided:
            return answer, plan
        policy = yield from reloaded(ask.identity, ask.first_tier)
    raise redis.RedisError(f"The policy of tenant {ask.identity.tenant!r} changes faster than it can be read.")


def _decision(ask: Ask, plan: Plan, answer: Answer, *, degraded: bool = False) -> Decision:
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


def _blank(ask: Ask, *, allowed: bool, degraded: bool = False) -> Decision:
    """A decision that no limit had a part in."""
    plan = Plan(tenant=ask.identity.tenant, lane=ask.lane.name, tier="", tier_name="", terms=(), lease_us=0)
    return Decision(
        plan=plan, allowed=allowed, cost=ask.cost, now_us=now_us(), states=(), fits=(),
        degraded=degraded, unavailable=degraded and not allowed,
    )  # fmt: skip


def _without_store(ask: Ask) -> Steps[Outcome]:
    """What the lane declares for a store that cannot be reached."""
    if ask.lane.on_store_failure is not OnStoreFailure.LOCAL:
        allowed = ask.lane.on_store_failure is OnStoreFailure.ALLOW
        return Outcome(_blank(ask, allowed=allowed, degraded=True), None, None)
    plan = yield from _local_plan(ask)
    answer = stores.local.run(ask.command(plan))
    return Outcome(_decision(ask, plan, answer, degraded=True), answer, stores.local)


def _local_plan(ask: Ask) -> Steps[Plan]:
    """This process's part of the plan, by its own clock: without the store there is no other."""
    if ask.plan is not None:
        return local_plan(ask.plan, processes=stores.processes, cost=ask.cost, flushed={})
    policy = policies.latest(ask.identity, now_us())
    if policy is None:
        policy = yield _Load(ask.identity, None, now_us(), ask.first_tier)
    plan = ask.planned(policy)
    if policy.flushed is None:
        policy.flushed = yield partial(_flushed, plan)
    return local_plan(plan, processes=stores.processes, cost=ask.cost, flushed=policy.flushed)


def _flushed(plan: Plan) -> dict[bytes, float]:
    """What the rows know; nothing where the database is away, too, which then is the host's trouble and not ours."""
    try:
        return flushed_use(plan)
    except Error as error:
        logger.warning("The use of calendar quotas cannot be read (%s): they begin anew in this process.", error)
        return {}


def _subjects(identity: Identity) -> frozenset[Subject]:
    """Whose limits can be asked of this caller."""
    return _PRESENT[bool(identity.tenant), identity.user is not None, identity.credential is not None]


_PRESENT = {
    present: frozenset(subject for subject, is_there in zip(Subject, present, strict=True) if is_there)
    for present in product((False, True), repeat=len(Subject))
}


@cache
def console_plan() -> Plan:
    """The constant limit of the admin, the app's own pages and its API: nothing stored can lock staff out of them."""
    limit = Limit(
        name="console", lane=ALL_LANE, kind=Kind.TOKEN_BUCKET, amount=10, period_seconds=1, burst=60,
        layer=Layer.USER, counts=Counts.REQUESTS, guarantee=Guarantee.FUSE,
    )  # fmt: skip
    asked = terms(
        [LimitInForce(limit=limit, tier_limit=limit)], asked_lanes=None, now=from_us(0), zone=ZoneInfo("UTC"),
        subjects={Layer.USER: Subject.USER},
    )  # fmt: skip
    return Plan(tenant="", lane="console", tier="", tier_name="", terms=asked, lease_us=0, counts_usage=False)


CONSOLE_LANE = Lane(name="console", on_store_failure=OnStoreFailure.ALLOW)
