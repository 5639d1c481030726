"""The answer to one operation: allowed, or which limits refused, with what is left and how long to wait.

decision = admit(lane="exports", cost=5)
if decision.refused: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from tenantlimits.domain import buckets, counters, windows
from tenantlimits.domain.buckets import Bucket, BucketState
from tenantlimits.domain.counters import Counter, CounterState
from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import Guarantee, Limit, LimitInForce, Mode
from tenantlimits.domain.periods import US, to_us
from tenantlimits.domain.plans import Cap, Plan, State, Term
from tenantlimits.domain.windows import Log, Quota, QuotaState


class Code(StrEnum):
    """Why an operation was refused, in a word for programs."""

    RATE_LIMITED = "rate_limited"
    CONCURRENCY_LIMITED = "concurrency_limited"
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    CAPACITY_FULL = "capacity_full"
    STORE_UNAVAILABLE = "store_unavailable"
    FUSE = "fuse"
    COST_EXCEEDS_LIMIT = "cost_exceeds_limit"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One limit as a decision left it. Units are units, times are seconds.

    `wait` until the operation would fit (0 where it did, infinite where it never will); `next_unit` until one more
    unit; `full` until nothing is used. A cap's waits are None: nobody knows when an operation ends.
    """

    in_force: LimitInForce
    used: float
    requested: float
    fits: bool
    wait: float | None
    next_unit: float | None
    full: float | None

    @property
    def limit(self) -> Limit:
        """The limit, with its numbers in force."""
        return self.in_force.limit

    @property
    def remaining(self) -> float:
        """Units left; infinite where nothing limits."""
        return max(0.0, self.limit.capacity - self.used)

    @property
    def refused(self) -> bool:
        """Whether this limit was one of those that refused."""
        return not self.fits and self.limit.mode is Mode.ENFORCE

    @property
    def never(self) -> bool:
        """Whether the operation costs more than this limit can ever hold."""
        return not self.fits and self.wait == math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRefusal:
    """Why a pool had no slot: `name` is that of the share, which has so many slots and uses so many."""

    code: Code
    pool: str
    name: str
    share: int
    running: int
    waiting: int
    source: str


def reading(term: Term, state: State, *, now_us: float, cost: int, fits: bool) -> Reading:
    """What a limit's raw state means. `cost` is the operation's, in milli-units."""
    requested = term.requested(cost)
    if isinstance(term.spec, Cap):
        assert isinstance(state, int)
        return Reading(in_force=term.in_force, used=state, requested=1, fits=fits, wait=None, next_unit=None, full=None)
    used, waits = _measured(term.spec, state, now_us, (requested, MILLI))
    wait, next_unit, full = waits
    return Reading(
        in_force=term.in_force, used=used / MILLI, requested=requested / MILLI, fits=fits,
        wait=0.0 if fits else _until_override_ends(term.in_force, wait, now_us, requested) / US,
        next_unit=next_unit / US, full=full / US,
    )  # fmt: skip


def _measured(
    spec: Bucket | Log | Quota | Counter, state: State, now_us: float, costs: tuple[int, int]
) -> tuple[float, list[float]]:
    """Milli-units used, and microseconds until each cost fits and until all is free."""
    match spec, state:
        case Bucket(), BucketState():
            waits = [buckets.wait_us(spec, state.used, cost) for cost in costs]
            full = state.used / spec.per_us if spec.per_us and state.used else 0.0
            return state.used, [*waits, full]
        case Log(), tuple():
            waits = [windows.log_wait_us(spec, state, now_us, cost) for cost in costs]
            return windows.total(state), [*waits, state[-1].at_us + spec.window_us - now_us if state else 0.0]
        case Quota(), QuotaState():
            waits = [windows.quota_wait_us(spec, state, now_us, cost) for cost in costs]
            return state.used, [*waits, state.end_us - now_us if state.used else 0.0]
        case Counter(), CounterState():
            waits = [counters.wait_us(spec, state, cost) for cost in costs]
            return counters.estimate(state), [*waits, counters.full_us(state)]
    raise AssertionError(f"{spec} cannot have the state {state}")


def units_used(state: State) -> float:
    """Units that a limit's raw state stands for; of a cap, how many operations are in flight."""
    if isinstance(state, int):
        return state
    if isinstance(state, BucketState) or isinstance(state, QuotaState):  # noqa: SIM101 - half the time of both at once
        return state.used / MILLI
    return (counters.estimate(state) if isinstance(state, CounterState) else windows.total(state)) / MILLI


def _until_override_ends(one: LimitInForce, wait_us: float, now_us: float, requested: int) -> float:
    """A wait never reaches past the end of the override that it was reckoned under."""
    if one.override is None or one.limit.amount == 0:
        return wait_us
    if wait_us == math.inf and requested > one.tier_limit.capacity * MILLI:
        return wait_us
    return min(wait_us, max(0.0, to_us(one.override.expires_at) - now_us))


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Allowed or refused, over every limit of the operation's lane and layers.

    `cost` is in milli-units and `fits[i]` the answer of `plan.asked[i]`; `degraded` marks an answer that was given
    without the shared store. `busy_seconds` is the estimate until a slot comes free, from measured hold times.
    `by_pool` says why the lane's pool had no slot, where the limits were not even asked.
    """

    plan: Plan
    allowed: bool
    cost: int
    now_us: float
    states: Sequence[State]
    fits: tuple[bool, ...]
    degraded: bool = False
    unavailable: bool = False
    busy_seconds: float = 1.0
    by_pool: PoolRefusal | None = None

    @property
    def refused(self) -> bool:
        """The opposite of `allowed`."""
        return not self.allowed

    @property
    def tenant(self) -> str:
        """The tenant's key; empty for anonymous callers."""
        return self.plan.tenant

    @property
    def tier(self) -> str:
        """The slug of the tier in force."""
        return self.plan.tier

    @property
    def lane(self) -> str:
        """The operation's lane."""
        return self.plan.lane

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Every limit that was asked, as the decision left it."""
        return tuple(
            reading(term, state, now_us=self.now_us, cost=self.cost, fits=fits)
            for term, state, fits in zip(self.plan.asked, self.states, self.fits, strict=True)
        )

    def reading(self, place: int) -> Reading:
        """One limit that was asked, by its place in `plan.asked`, without a look at the others."""
        if "readings" in vars(self):
            return self.readings[place]
        term, state, fits = self.plan.asked[place], self.states[place], self.fits[place]
        return reading(term, state, now_us=self.now_us, cost=self.cost, fits=fits)

    @cached_property
    def refusals(self) -> tuple[Reading, ...]:
        """The limits that refused; empty where the operation was allowed or no limit was asked."""
        return () if self.allowed else tuple(one for one in self.readings if one.refused)

    @cached_property
    def binding(self) -> Reading | None:
        """The refusing limit with the longest wait: a block, then what never fits, then the longest time."""
        return max(self.refusals, key=self._weight, default=None)

    def _weight(self, one: Reading) -> float:
        if one.limit.amount == 0:
            return math.inf
        return self.busy_seconds if one.wait is None else min(one.wait, 1e18)

    @property
    def tightest(self) -> Reading | None:
        """The enforced limit of which the smallest part is left."""
        place = self.tightest_place
        return None if place is None else self.reading(place)

    @property
    def tightest_place(self) -> int | None:
        """Where in `plan.asked` that limit is."""
        # For the fields of every response that is allowed, so from the raw states.
        tightest, smallest, used = None, math.inf, self.used
        for place, capacity in self.plan.limiting if used else ():
            part = (capacity - used[place]) / (capacity or 1)
            if part < smallest:
                tightest, smallest = place, max(0.0, part)
        return tightest

    @cached_property
    def used(self) -> list[float]:
        """Units used of every limit that was asked; of a cap, how many operations are in flight."""
        # A store may know a shorter way to these numbers than by the states.
        units: Callable[[], list[float] | None] | None = getattr(self.states, "units", None)
        used = units() if units is not None else None
        return [units_used(state) for state in self.states] if used is None else used

    @cached_property
    def code(self) -> Code | None:
        """Why it was refused, or None."""
        if self.allowed:
            return None
        if self.by_pool is not None:
            return self.by_pool.code
        one = self.binding
        if one is None:
            return Code.STORE_UNAVAILABLE if self.unavailable else Code.BLOCKED
        if one.limit.amount == 0:
            return Code.BLOCKED
        if one.never:
            return Code.COST_EXCEEDS_LIMIT
        if one.wait is None:
            return Code.CONCURRENCY_LIMITED
        return Code.FUSE if one.limit.guarantee is Guarantee.FUSE else Code.RATE_LIMITED

    @property
    def never(self) -> bool:
        """Whether repeating the operation is of no use."""
        return self.code in (Code.COST_EXCEEDS_LIMIT, Code.BLOCKED)

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the operation is admitted when nobody else spends; None where it never will be.

        For a concurrency cap an honest estimate of at least a second; 0 where the operation was allowed.
        """
        if self.allowed:
            return 0.0
        if self.never:
            return None
        return max((self._weight(one) for one in self.refusals), default=self.busy_seconds)

    @property
    def retry_after_seconds(self) -> int | None:
        """`retry_after` for a header: whole seconds, rounded up, at least 1 (RFC 9110, 10.2.3)."""
        wait = self.retry_after
        return None if wait is None else max(1, math.ceil(wait))

    def summary(self) -> str:
        """One sentence for logs and exceptions."""
        if self.allowed:
            return f"Allowed in lane {self.lane}."
        one = self.binding
        what = f"limit {one.limit.name} of tier {self.tier or 'none'}" if one else f"lane {self.lane}"
        if self.by_pool is not None:
            what = f"pool {self.by_pool.pool} (running {self.by_pool.running}, share {self.by_pool.share})"
        then = "" if self.retry_after_seconds is None else f", try again in {self.retry_after_seconds} s"
        return f"Refused by {what} in lane {self.lane} ({self.code}){then}."
