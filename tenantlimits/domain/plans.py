"""What one operation is asked: the limits that its lane and its caller put it under, with their numbers of now.

A plan is built once per policy and lane and used for every decision until the policy changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from hashlib import blake2s
from typing import Any
from zoneinfo import ZoneInfo

from tenantlimits.domain.buckets import Bucket, BucketState
from tenantlimits.domain.counters import Counter, CounterState
from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import ALL_LANE, DAY, UNLIMITED, Counts, Kind, Layer, LimitInForce, Mode
from tenantlimits.domain.periods import US, boundaries, to_us
from tenantlimits.domain.windows import Log, LogState, Quota, QuotaState


@dataclass(frozen=True, slots=True)
class Cap:
    """At most `amount` operations in flight."""

    amount: float


Spec = Bucket | Log | Quota | Counter | Cap
State = BucketState | LogState | QuotaState | CounterState | int
"""What a limit keeps; for a cap, how many are in flight."""


class Subject(IntEnum):
    """Whose state: the tenant's own, or one user's or credential's within it (an anonymous caller's address)."""

    TENANT = 0
    USER = 1
    CREDENTIAL = 2


SUBJECT_OF_LAYER = {Layer.TENANT: Subject.TENANT, Layer.USER: Subject.USER, Layer.CREDENTIAL: Subject.CREDENTIAL}
_KIND_CODES = {
    Kind.TOKEN_BUCKET: 0, Kind.CALENDAR_QUOTA: 1, Kind.SLIDING_COUNTER: 2, Kind.SLIDING_LOG: 4, Kind.CONCURRENCY: 5,
}  # fmt: skip


def lane_tag(lane: str) -> bytes:
    """Four bytes that stand for a lane in counted usage."""
    return blake2s(lane.encode(), digest_size=4).digest()


def state_id(in_force: LimitInForce) -> bytes:
    """Four bytes that stand for a limit in stored state. The low three bits of the last say its kind.

    A limit of the same name with another kind, layer or calendar period starts anew: its old count means nothing.
    """
    limit = in_force.limit
    period = in_force.tier_limit.period_seconds if limit.kind is Kind.CALENDAR_QUOTA else ""
    text = f"{limit.layer}\0{limit.name}\0{limit.kind}\0{period}"
    digest = blake2s(text.encode(), digest_size=4).digest()
    return digest[:3] + bytes([digest[3] & 0xF8 | _KIND_CODES[limit.kind]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One limit of a plan. Limits that are not `asked` share the subject's state but not the decision."""

    in_force: LimitInForce
    subject: Subject
    spec: Spec
    asked: bool
    id: bytes

    @property
    def by_cost(self) -> bool:
        """Whether an operation counts with its cost, and not as one."""
        return self.in_force.limit.counts is Counts.COST

    @property
    def mode(self) -> Mode:
        """The mode in force."""
        return self.in_force.limit.mode

    def requested(self, cost: int) -> int:
        """Milli-units that an operation of `cost` milli-units takes from this limit; 0 changes nothing anywhere."""
        return cost if self.by_cost else min(cost, 1) * MILLI


@dataclass(frozen=True, slots=True)
class Stamps:
    """Opaque versions of what a policy was built from."""

    tenant: bytes
    shard: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Plan:
    """Everything that a store needs to decide in one lane for one tenant, and nothing that it would have to look up.

    `valid_from_us` to `valid_until_us` is the time that the numbers are for, on the store's clock; `stamps` is None
    where no stored policy stands behind the plan. `compiled` belongs to the store that runs the plan, and `derived` to
    whoever derives something from a plan that is the same for all its decisions.
    """

    tenant: str
    lane: str
    tier: str
    tier_name: str
    terms: tuple[Term, ...]
    lease_us: int
    stamps: Stamps | None = None
    valid_from_us: float = 0.0
    valid_until_us: float = UNLIMITED
    hour_offset_us: float = 0.0
    counts_usage: bool = True
    compiled: object = field(default=None, repr=False)
    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    asked: tuple[Term, ...] = field(init=False)
    has_cap: bool = field(init=False)
    """Whether an operation of this plan takes a slot."""
    limiting: tuple[tuple[int, float], ...] = field(init=False)
    """Where in `asked` the limits are that can refuse, and what they hold, in units."""

    def __post_init__(self) -> None:
        assert self.counts_usage or self.stamps is None, "a tenant's policy counts its usage"
        self.asked = tuple(term for term in self.terms if term.asked)
        self.has_cap = any(isinstance(t.spec, Cap) and t.mode is not Mode.OFF for t in self.asked)
        held = ((place, term.in_force.limit.capacity, term.mode) for place, term in enumerate(self.asked))
        self.limiting = tuple((p, c) for p, c, mode in held if mode is Mode.ENFORCE and c < UNLIMITED)


def terms(
    limits: Sequence[LimitInForce],
    *,
    asked_lanes: frozenset[str] | None,
    now: datetime,
    zone: ZoneInfo,
    subjects: Mapping[Layer, Subject],
) -> tuple[Term, ...]:
    """The limits as terms, those of one subject together; `asked_lanes` None asks all of them.

    `subjects` says whose state keeps each layer's limits. A layer that is not in it (users, where there is no user)
    has its limits left out.
    """
    found = [
        Term(
            in_force=one,
            subject=subjects[one.limit.layer],
            spec=_spec(one, now, zone),
            asked=asked_lanes is None or one.limit.lane in asked_lanes,
            id=state_id(one),
        )
        for one in limits
        if one.limit.layer in subjects
    ]
    return tuple(sorted(found, key=lambda term: (term.subject, term.in_force.limit.lane != ALL_LANE)))


def _spec(one: LimitInForce, now: datetime, zone: ZoneInfo) -> Spec:
    limit, amount = one.limit, one.limit.amount * MILLI
    if limit.kind is Kind.CONCURRENCY:
        return Cap(limit.amount)
    # An unlimited override lifts only the ceiling: use goes on draining at the tier's rate, for the time after it.
    paced = limit if limit.amount < UNLIMITED else one.tier_limit
    # What is unlimited in the tier itself needs no period: its use is counted by the day.
    period = paced.period_seconds or DAY
    if limit.kind is Kind.TOKEN_BUCKET:
        rate = paced.amount if paced.amount < UNLIMITED else 0
        return Bucket(limit.capacity * MILLI, rate * MILLI / (period * US))
    if limit.kind is Kind.SLIDING_LOG:
        return Log(amount, period * US)
    if limit.kind is Kind.SLIDING_COUNTER:
        return Counter(amount, period * US)
    start, end, next_end = boundaries(now, zone, period, limit.anchor_day)
    return Quota(amount, to_us(start), to_us(end), to_us(next_end))


def validity(plan_terms: Sequence[Term], valid_from_us: float, valid_until_us: float) -> tuple[float, float]:
    """The time for which the numbers of all terms hold: calendar quotas know their period and the next."""
    quotas = [term.spec for term in plan_terms if isinstance(term.spec, Quota)]
    return (
        max([valid_from_us, *(quota.start_us for quota in quotas)]),
        min([valid_until_us, *(quota.next_end_us for quota in quotas)]),
    )


LONGEST_HORIZON_US = 800 * 86_400 * US


def horizon_us(term: Term, lease_us: int) -> float:
    """How long a limit's state can matter after its last use: a bucket in debt drains two bursts."""
    spec, longest = term.spec, 0.0
    match spec:
        case Cap():
            longest = float(lease_us)
        case Log():
            longest = spec.window_us
        case Counter():
            longest = 2 * spec.period_us
        case Quota():
            longest = spec.next_end_us - spec.start_us
        case Bucket():
            # Use that an override let in still counts by the tier's own numbers when it ends.
            limits = (term.in_force.limit, term.in_force.tier_limit)
            rated = [limit for limit in limits if 0 < limit.amount < UNLIMITED]
            longest = max((2 * US * limit.full_period_seconds for limit in rated), default=0.0)
    return min(longest, LONGEST_HORIZON_US)
