"""The token bucket: at most burst + rate x w units in any window w.

State is what was used and when, never what is left, so that a raised limit gives its extra room at once and a
lowered one clamps to its own burst. Units are milli-units, times are microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SLACK = 1e-6
"""Milli-units by which rounding may be off: so much above the burst still fits, so that a promised wait is enough."""
_EXACT_UP_TO = 1e9
"""Milli-units up to which doubles are off by less than that."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What the bucket may hold, and how fast use drains from it (milli-units per microsecond)."""

    burst: float
    per_us: float


@dataclass(frozen=True, slots=True)
class BucketState:
    """`used` milli-units at `at_us`; `in_debt` once settling took it above the burst."""

    used: float = 0.0
    at_us: float = 0.0
    in_debt: bool = False


def drained(bucket: Bucket, state: BucketState, now_us: float) -> BucketState:
    """The state of this moment. A clock that stepped back neither drains nor freezes the bucket."""
    elapsed_us = max(0.0, now_us - state.at_us)
    most = bucket.burst * 2 if state.in_debt else bucket.burst
    used = max(0.0, min(state.used, most) - elapsed_us * bucket.per_us) if state.used else 0.0
    return BucketState(used, now_us, state.in_debt and used > bucket.burst)


def fits(bucket: Bucket, state: BucketState, cost: float) -> bool:
    """Whether `cost` fits into a drained state."""
    return state.used + cost <= bucket.burst + SLACK


def charged(state: BucketState, cost: float) -> BucketState:
    """A drained state with `cost` more used."""
    return BucketState(state.used + cost, state.at_us, state.in_debt)


def settled(bucket: Bucket, state: BucketState, delta: float) -> BucketState:
    """A drained state with `delta` charged afterwards, into debt of at most one burst, or given back."""
    used = max(0.0, min(state.used + delta, bucket.burst * 2))
    return BucketState(used, state.at_us, used > bucket.burst)


def wait_us(bucket: Bucket, used: float, cost: float) -> float:
    """Microseconds until `cost` fits when nobody else spends; infinite where it never will."""
    excess = used + cost - bucket.burst
    if excess <= SLACK:
        return 0.0
    if cost > bucket.burst or bucket.per_us == 0:
        return math.inf
    # Half the slack is for the rounding here, and half for that when the wait is over.
    wait = math.ceil((excess - SLACK / 2) / bucket.per_us)
    return wait if bucket.burst <= _EXACT_UP_TO else wait + 1
