"""Limits, plans and stores for the tests of the domain and the engine, and a caller who asks as the gate does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import redis

from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.lanes import milli
from tenantlimits.domain.limits import (
    ALL_LANE,
    DAY,
    MINUTE,
    Counts,
    Guarantee,
    Kind,
    Layer,
    Limit,
    LimitInForce,
    OverrideInForce,
)
from tenantlimits.domain.periods import US, from_us, to_us
from tenantlimits.domain.plans import SUBJECT_OF_LAYER, Plan, Stamps, Subject, terms, validity
from tenantlimits.engine.base import (
    Admit,
    Answer,
    Begin,
    Engine,
    Lease,
    Peek,
    Release,
    Renew,
    Settle,
    Status,
    lease_caps,
    witnesses,
)
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.keys import Identity
from tenantlimits.engine.plain import PlainConnections
from tenantlimits.engine.redis import RedisEngine

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LEASE_SECONDS = 15
ACME = Identity(tenant="acme", user="ann", credential="key-1")
BOLT = Identity(tenant="bolt", user="bob", credential="key-2")
CEDAR = Identity(tenant="cedar", user="cy", credential="key-3")
NOBODY = Identity(tenant="", user="192.0.2.7")
ZULU = ZoneInfo("UTC")


class Clock:
    """A clock that only a test moves, in microseconds since the epoch."""

    def __init__(self, at: datetime = NOON) -> None:
        self.now_us = to_us(at)

    def __call__(self) -> float:
        return self.now_us

    def step(self, seconds: float) -> None:
        """Go forward; back where `seconds` is negative."""
        self.now_us += round(seconds * US)


def bucket(amount: float, period: int = MINUTE, **options: Any) -> Limit:
    """A token bucket of lane reads."""
    return _limit(Kind.TOKEN_BUCKET, amount, period, options)


def log(amount: float, period: int = MINUTE, **options: Any) -> Limit:
    """A sliding log of lane reads."""
    return _limit(Kind.SLIDING_LOG, amount, period, options)


def quota(amount: float, period: int = DAY, **options: Any) -> Limit:
    """A calendar quota of lane reads."""
    return _limit(Kind.CALENDAR_QUOTA, amount, period, options)


def counter(amount: float, period: int = MINUTE, **options: Any) -> Limit:
    """A sliding counter of lane reads."""
    return _limit(Kind.SLIDING_COUNTER, amount, period, {"guarantee": Guarantee.FUSE, **options})


def cap(amount: float, **options: Any) -> Limit:
    """A concurrency cap of lane reads."""
    return _limit(Kind.CONCURRENCY, amount, None, options)


def _limit(kind: Kind, amount: float, period: int | None, options: dict[str, Any]) -> Limit:
    options = {"name": kind.value, "lane": "reads", **options}
    if options["lane"] == ALL_LANE:
        options.setdefault("counts", Counts.REQUESTS)
    return Limit(kind=kind, amount=amount, period_seconds=period, **options)


def overridden(limit: Limit, by: Limit, *, until: datetime) -> LimitInForce:
    """A limit whose numbers an override replaces until then."""
    override = OverrideInForce(id=1, reason="import", starts_at=NOON, expires_at=until)
    return LimitInForce(limit=by, tier_limit=limit, override=override)


def plan_of(
    limits: Sequence[Limit | LimitInForce],
    *,
    now_us: float,
    lane: str = "reads",
    identity: Identity = ACME,
    **options: Any,
) -> Plan:
    """What the policy would build for these limits at this moment."""
    anonymous = not identity.tenant
    known = {Subject.USER} if anonymous else {Subject.TENANT, Subject.USER, Subject.CREDENTIAL}
    who = dict(zip(Subject, (identity.tenant, identity.user, identity.credential), strict=True))
    found = terms(
        [one if isinstance(one, LimitInForce) else LimitInForce(limit=one, tier_limit=one) for one in limits],
        asked_lanes=frozenset({ALL_LANE, lane}),
        now=from_us(now_us),
        zone=options.pop("zone", ZULU),
        subjects={
            layer: subject
            for layer, subject in (dict.fromkeys(Layer, Subject.USER) if anonymous else SUBJECT_OF_LAYER).items()
            if subject in known and who[subject] is not None
        },
    )
    until = [to_us(t.in_force.override.expires_at) for t in found if t.in_force.override]
    valid_from_us, valid_until_us = validity(found, 0.0, min(until, default=float("inf")))
    options = {
        "lease_us": LEASE_SECONDS * US,
        "valid_from_us": valid_from_us,
        "valid_until_us": valid_until_us,
        **options,
    }
    return Plan(tenant=identity.tenant, lane=lane, tier="pro", tier_name="Pro", terms=found, **options)


def answer_of(decision: Decision) -> Answer:
    """What the store said."""
    return Answer(Status(decision.allowed), decision.now_us, decision.fits, decision.states)


@dataclass
class Caller:
    """Asks a store as the gate does: by the limits of now, with a new plan where the store says that it needs one."""

    engine: Engine
    clock: Callable[[], float]
    limits: Sequence[Limit | LimitInForce]
    identity: Identity = ACME
    zone: ZoneInfo = ZULU
    stamps: Stamps | None = None
    options: dict[str, Any] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)

    def change(self, *limits: Limit | LimitInForce) -> None:
        """Be under other limits from now on."""
        self.limits = limits
        self.plans.clear()

    def begin(self) -> None:
        """Build policies on the store's stamps of now."""
        self.stamps = self.engine.run(Begin(self.identity)).stamps
        self.plans.clear()

    def plan(self, lane: str = "reads") -> Plan:
        """The plan in use for a lane."""
        if lane not in self.plans:
            self.plans[lane] = plan_of(
                self.limits, now_us=self.clock(), lane=lane, identity=self.identity,
                zone=self.zone, stamps=self.stamps, **self.options,
            )  # fmt: skip
        return self.plans[lane]

    def admit(self, cost: float = 1, lane: str = "reads", *, lease: bytes | None = None) -> Decision:
        """Ask for one operation."""
        return self._decide(
            lane, lambda plan: Admit(plan=plan, identity=self.identity, cost=milli(cost), lease=lease), cost
        )

    def peek(self, cost: float = 1, lane: str = "reads") -> Decision:
        """Ask without asking for anything."""
        return self._decide(lane, lambda plan: Peek(plan=plan, identity=self.identity, cost=milli(cost)), cost)

    def used(self, name: str, lane: str = "reads") -> float:
        """Units of a limit in use."""
        return next(one.used for one in self.peek(0, lane).readings if one.limit.name == name)

    def hold(self, cost: float = 1, lane: str = "reads") -> tuple[Decision, Lease]:
        """Ask for one operation and, where it is admitted, keep its slot."""
        lease = os.urandom(8)
        decision = self.admit(cost, lane, lease=lease)
        return decision, self.lease(lease, lane)

    def lease(self, lease: bytes, lane: str = "reads") -> Lease:
        """A lease by its id."""
        plan = self.plan(lane)
        return Lease(id=lease, identity=self.identity, caps=lease_caps(plan), length_us=plan.lease_us)

    def release(self, lease: Lease) -> bool:
        """Give a slot back."""
        return self.engine.run(Release(lease))

    def renew(self, *leases: Lease, again: bool = False) -> tuple[bool, ...]:
        """Keep slots."""
        return self.engine.run(Renew(leases, (again,) * len(leases)))

    def settle(self, decision: Decision, delta: float) -> Status:
        """Correct the cost of an admitted operation."""
        return self.engine.run(
            Settle(
                plan=self.plan(decision.lane),
                identity=self.identity,
                delta=round(delta * 1000),
                witnesses=witnesses(decision.plan, answer_of(decision)),
            )
        )

    def admitted(self, calls: int, cost: float = 1, lane: str = "reads") -> int:
        """How many of so many operations are let in."""
        return sum(self.admit(cost, lane).allowed for _ in range(calls))

    def _decide(self, lane: str, command: Callable[[Plan], Admit | Peek], cost: float) -> Decision:
        answer = self.engine.run(command(self.plan(lane)))
        if answer.status is Status.STALE:
            self.begin()
        if not answer.decided:
            self.plans.pop(lane, None)
            answer = self.engine.run(command(self.plan(lane)))
        assert answer.decided, answer
        return Decision(
            plan=self.plan(lane), allowed=answer.status is Status.ALLOWED, cost=milli(cost),
            now_us=answer.now_us, states=answer.states, fits=answer.fits,
        )  # fmt: skip


def connections_to(
    url: str, kind: type[Connections | PlainConnections] = Connections, **options: Any
) -> Connections | PlainConnections:
    """Connections to a server: held ones, or those of redis-py's pool."""
    timeouts = {"connect_seconds": 5.0, "answer_seconds": 5.0}
    pool_options = {name: value for name, value in options.items() if name not in timeouts}
    timeouts |= {name: value for name, value in options.items() if name in timeouts}
    return kind(Dial(redis.ConnectionPool.from_url(url, **pool_options), **timeouts))


def redis_engine(url: str, prefix: str, clock: Clock | None = None) -> RedisEngine:
    """A store in Redis, on its own clock or on that of a test."""
    return RedisEngine(connections_to(url), prefix=prefix, clock=clock)


def limits_part(raw: bytes) -> bytes:
    """The stamp, shape, fields and tails of a state's bytes: all but the usage (see lua/prelude.lua)."""
    kinds = [raw[10 + 4 * i + 3] & 7 for i in range(raw[9])]
    at = 10 + 4 * raw[9]
    tails = 0
    for kind in kinds:
        if kind >= 4:
            tails += 16 * int.from_bytes(raw[at : at + 4], "little")
        at += 4 if kind >= 4 else 32 if kind == 2 else 16
    return raw[: at + tails]
