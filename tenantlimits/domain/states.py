"""One limit's state through one operation, whatever its kind: what it is now, whether the operation fits, what is left.

Costs are milli-units, times are microseconds.
"""

from __future__ import annotations

from tenantlimits.domain import buckets, counters, leases, windows
from tenantlimits.domain.buckets import Bucket, BucketState
from tenantlimits.domain.counters import Counter, CounterState
from tenantlimits.domain.leases import Deadlines
from tenantlimits.domain.limits import Mode
from tenantlimits.domain.plans import Cap, State, Term
from tenantlimits.domain.windows import Log, Quota, QuotaState

Kept = BucketState | windows.LogState | QuotaState | CounterState | Deadlines
Lease = tuple[bytes, float]
"""A lease and its deadline."""


def current(term: Term, state: Kept | None, now_us: float, lease_us: int) -> Kept:
    """The state of this moment, begun where there is none."""
    match term.spec, state:
        case Bucket() as bucket, BucketState() | None:
            return buckets.drained(bucket, state or BucketState(), now_us)
        case Log() as log, tuple() | None:
            return windows.kept(log, state or (), now_us)
        case Quota() as quota, QuotaState() | None:
            return windows.current(quota, state or QuotaState(), now_us)
        case Counter() as counter, CounterState() | None:
            return counters.current(counter, state or CounterState(), now_us)
        case Cap(), dict() | None:
            return leases.live(state or {}, now_us, lease_us)
    raise AssertionError(f"{term.spec} cannot have the state {state}")


def ahead(term: Term, state: Kept, now_us: float, lease_us: int) -> bool:
    """Whether a state was written at a time that the clock has not reached."""
    match term.spec, state:
        case _, BucketState() | CounterState():
            return state.at_us > now_us
        case _, tuple():
            return bool(state) and state[-1].at_us > now_us
        case Quota() as quota, QuotaState():
            return windows.is_ahead(quota, state)
        case _, dict():
            return bool(state) and next(reversed(state.values())) > now_us + lease_us
    return False


def fits(term: Term, state: Kept, cost: int) -> bool:
    """Whether an operation fits into a current state."""
    if term.mode is Mode.OFF:
        return True
    requested = term.requested(cost)
    match term.spec, state:
        case Cap(amount), dict():
            return len(state) < amount
        case _ if requested == 0:
            return True
        case Bucket() as bucket, BucketState():
            return buckets.fits(bucket, state, requested)
        case Log() as log, tuple():
            return windows.total(state) + requested <= log.amount
        case Quota() as quota, QuotaState():
            return state.used + requested <= quota.amount
        case Counter() as counter, CounterState():
            return counters.fits(counter, state, requested)
    raise AssertionError(f"{term.spec} cannot have the state {state}")


def charged(term: Term, state: Kept, *, cost: int, now_us: float, lease: Lease | None) -> Kept:
    """A current state with an operation recorded in it; a cap takes the lease, if there is one."""
    requested = term.requested(cost)
    if term.mode is Mode.OFF:
        return state
    match state:
        case BucketState():
            return buckets.charged(state, requested)
        case tuple():
            return windows.logged(state, now_us, requested) if requested else state
        case QuotaState():
            return windows.counted(state, requested)
        case CounterState():
            return counters.charged(state, requested)
        case dict():
            return state if lease is None else {**state, lease[0]: lease[1]}


def settled(term: Term, state: Kept, delta: int, witness: float) -> Kept:
    """A current state with `delta` charged or given back afterwards; `witness` says what had been charged."""
    match term.spec, state:
        case Bucket() as bucket, BucketState():
            return buckets.settled(bucket, state, delta)
        case Log() as log, tuple():
            return windows.corrected(log, state, witness, delta)
        case Quota() as quota, QuotaState():
            return windows.recounted(quota, state, charged_end_us=witness, delta=delta)
        case Counter() as counter, CounterState():
            return counters.settled(counter, state, charged_start_us=witness, delta=delta)
    return state


def shown(state: Kept) -> State:
    """What an answer tells of a state: of a cap how many are in flight, of a bucket what is used."""
    match state:
        case dict():
            return len(state)
        case BucketState():
            return BucketState(state.used, state.at_us)
    return state
