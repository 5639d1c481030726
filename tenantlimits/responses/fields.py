"""The fields that tell a client its limits; nothing else writes them.

RateLimit-Policy and RateLimit follow draft-ietf-httpapi-ratelimit-headers-11: lists of RFC 9651 with a quoted name and
parameters in whole numbers. It is a draft, and an open proposal renames `r` and `t`: this is the place to change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from urllib.parse import quote

from tenantlimits.conf import HeaderStyle, conf
from tenantlimits.domain import buckets, counters, windows
from tenantlimits.domain.buckets import Bucket, BucketState
from tenantlimits.domain.counters import Counter, CounterState
from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import UNLIMITED, Kind, Limit
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import Plan, State, Term
from tenantlimits.domain.windows import Log, Quota, QuotaState
from tenantlimits.responses.answers import answer_to

_LARGEST = 999_999_999_999_999
"""RFC 9651, 3.3.1: an Integer has at most 15 digits."""


def limit_fields(decision: Decision) -> dict[str, str]:
    """The fields in the style of the settings; none where no shared store stands behind the answer.

    An allowed operation is told its tightest limit; a refused one every policy it was asked, and what refused it.
    """
    if decision.degraded:
        return {}
    if conf.RESPONSES.headers is HeaderStyle.RATELIMIT:
        return _ratelimit(decision)
    if conf.RESPONSES.headers is HeaderStyle.X_RATELIMIT:
        return _x_ratelimit(decision)
    return {}


def retry_after_fields(decision: Decision) -> dict[str, str]:
    """Retry-After of a refusal: whole seconds, at least 1 (RFC 9110, 10.2.3); none where waiting is of no use."""
    wait = answer_to(decision).wait
    return {} if wait is None else {"Retry-After": str(wait)}


def policy_name(limit: Limit) -> str:
    """The limit's name in printable ASCII, so that it can stand in a String of RFC 9651: a slug is what it was."""
    return limit.name if limit.name.isascii() and limit.name.isprintable() else quote(limit.name, safe=" ")


def _ratelimit(decision: Decision) -> dict[str, str]:
    if decision.by_pool is not None:
        name = _string(decision.by_pool.name)
        policy = f'{name};q={decision.by_pool.share};qu="concurrent-requests"'
        return {"RateLimit-Policy": policy, "RateLimit": f"{name};r=0"}
    refusing = _refusing(decision)
    told = _told(decision, refusing)
    if not told:
        return {}
    return {
        "RateLimit-Policy": ", ".join(_policy(decision.plan, place) for place in told),
        "RateLimit": ", ".join(_left(decision, place) for place in (refusing or told)),
    }


def _refusing(decision: Decision) -> list[int]:
    """Places of the limits that refused, the longest wait first."""
    if decision.allowed:
        return []
    places = [place for place, one in enumerate(decision.readings) if one.refused]
    return sorted(places, key=lambda place: decision.readings[place].wait or 0.0, reverse=True)


def _told(decision: Decision, refusing: Sequence[int]) -> list[int]:
    """Whose policy is told: what refused first, then what else could have; or the tightest limit alone."""
    if decision.allowed:
        tightest = decision.tightest_place
        return [] if tightest is None else [tightest]
    others = [place for place, _ in decision.plan.limiting if place not in refusing]
    return [*refusing, *others]


def _policy(plan: Plan, place: int) -> str:
    """Name and numbers of one limit."""
    return _names_and_policies(plan)[place][1]


def _name(plan: Plan, place: int) -> str:
    return _names_and_policies(plan)[place][0]


def _names_and_policies(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Of all limits that a plan asks; the same for all its decisions."""
    found: tuple[tuple[str, str], ...] | None = plan.derived.get("fields")
    if found is None:
        limits = [term.in_force.limit for term in plan.asked]
        found = tuple((_string(policy_name(one)), _written(one) if one.capacity < UNLIMITED else "") for one in limits)
        plan.derived["fields"] = found
    return found


def _written(limit: Limit) -> str:
    quota = f"{_string(policy_name(limit))};q={_integer(limit.capacity)}"
    if limit.kind is Kind.CONCURRENCY:
        return f'{quota};qu="concurrent-requests"'
    # No `qu`: it says requests where it is absent, and has no word for units of cost.
    return f"{quota};w={max(1, _integer(math.ceil(limit.window_seconds)))}"


def _left(decision: Decision, place: int) -> str:
    plan, state = decision.plan, decision.states[place]
    limit = plan.asked[place].in_force.limit
    remaining = math.floor(max(0.0, limit.capacity - decision.used[place]))
    left = f"{_name(plan, place)};r={_integer(remaining)}"
    until_more = _until_more(decision, place, state, remaining + 1)
    return left if until_more is None else f"{left};t={_integer(math.ceil(until_more))}"


def _until_more(decision: Decision, place: int, state: State, units: int) -> float | None:
    """Seconds until there are so many whole units, one more than the field says; never later than Retry-After.

    None where nobody knows, or where there will never be more.
    """
    wait = _wait_for_units(decision.plan.asked[place], state, decision.now_us, units)
    if not decision.fits[place]:
        one = decision.reading(place)
        if one.refused and one.wait is not None:
            wait = min(wait, one.wait)
    return wait if wait < math.inf else None


def _wait_for_units(term: Term, state: State, now_us: float, units: int) -> float:
    match term.spec, state:
        case Bucket() as bucket, BucketState():
            return buckets.wait_us(bucket, state.used, units * MILLI) / US
        case Log() as log, tuple():
            return windows.log_wait_us(log, state, now_us, units * MILLI) / US
        case Quota() as quota, QuotaState():
            return windows.quota_wait_us(quota, state, now_us, units * MILLI) / US
        case Counter() as counter, CounterState():
            return counters.wait_us(counter, state, units * MILLI) / US
    return math.inf


def _x_ratelimit(decision: Decision) -> dict[str, str]:
    one = decision.binding or decision.tightest
    if one is None:
        return {}
    fields = {
        "X-RateLimit-Limit": str(_integer(one.limit.capacity)),
        "X-RateLimit-Remaining": str(_integer(one.remaining)),
    }
    reset = one.wait if one.refused else one.full
    if reset is not None and reset < math.inf:
        fields["X-RateLimit-Reset"] = str(_integer(math.ceil(reset)))
    return fields


def _string(text: str) -> str:
    """A String of RFC 9651, 4.1.6."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _integer(number: float) -> int:
    return min(math.floor(number), _LARGEST)
