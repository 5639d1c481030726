"""Lanes: named classes of work, and what one operation in them costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from numbers import Real

from tenantlimits.domain.errors import InvalidCost
from tenantlimits.domain.limits import MAX_AMOUNT

MILLI = 1000
"""Costs are counted in steps of 0.001, as whole numbers of milli-units: so sums are exact."""


class OnStoreFailure(StrEnum):
    """What a lane does while the store cannot be reached."""

    LOCAL = "local"
    ALLOW = "allow"
    REFUSE = "refuse"


class Excess(StrEnum):
    """What becomes of an operation for which the lane's pool has no slot now."""

    REJECT = "reject"
    WAIT = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A class of work. `cost` is that of an operation that names none, in units.

    Each takes a slot of `pool`, where there is one. `wait_seconds` is the longest that it waits for that, and there
    where `excess` is to wait; `queue` how many of one tenant wait in this lane, None: as many as its share lets.
    """

    name: str
    cost: float = 1.0
    counts_in_all: bool = True
    on_store_failure: OnStoreFailure = OnStoreFailure.LOCAL
    max_hold_seconds: float | None = None
    pool: str | None = None
    excess: Excess = Excess.REJECT
    wait_seconds: float | None = None
    queue: int | None = None


def milli(cost: object) -> int:
    """The cost in whole milli-units, rounded to the nearest; InvalidCost where it is no number of units."""
    kind = cost.__class__
    if (kind is float or kind is int) and 0 <= cost <= MAX_AMOUNT:  # type: ignore[operator]  # the usual case, at once
        return round(cost * MILLI)  # type: ignore[operator]  # as above
    if isinstance(cost, bool) or not isinstance(cost, Real | Decimal):
        raise InvalidCost(f"Cost {cost!r} is a {type(cost).__name__}: give a number of units, such as 1 or 0.5.")
    try:
        units = float(cost)
    except OverflowError:
        units = math.inf
    if not units >= 0:
        raise InvalidCost(f"Cost {cost} is no number of units: give 0 or more; settle gives units back.")
    if units > MAX_AMOUNT:
        raise InvalidCost(f"Cost {units:g} is more than {MAX_AMOUNT:,}, the largest amount that any limit can hold.")
    return round(units * MILLI)
