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
from tenantlimits.domain.decisions import Decision, Reading
from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import UNLIMITED, Kind, Limit, Mode
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import State, Term
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
    refusing = sorted(decision.refusals, key=_wait, reverse=True)
    policies = _told(decision, refusing)
    if not policies:
        return {}
    return {
        "RateLimit-Policy": ", ".join(_policy(one.limit) for one in policies),
        "RateLimit": ", ".join(_left(one, _until_more(decision, one)) for one in (refusing or policies)),
    }


def _told(decision: Decision, refusing: Sequence[Reading]) -> list[Reading]:
    """Whose policy is told: what refused first, then what else could have; or the tightest limit alone."""
    if decision.allowed:
        return [decision.tightest] if decision.tightest else []
    others = [one for one in decision.readings if one not in refusing and _limits(one.limit)]
    return [*refusing, *others]


def _limits(limit: Limit) -> bool:
    return limit.mode is Mode.ENFORCE and limit.capacity < UNLIMITED


def _wait(one: Reading) -> float:
    return 0.0 if one.wait is None else one.wait


def _policy(limit: Limit) -> str:
    quota = f"{_string(policy_name(limit))};q={_integer(limit.capacity)}"
    if limit.kind is Kind.CONCURRENCY:
        return f'{quota};qu="concurrent-requests"'
    # No `qu`: it says requests where it is absent, and has no word for units of cost.
    return f"{quota};w={max(1, _integer(math.ceil(limit.window_seconds)))}"


def _left(one: Reading, until_more: float | None) -> str:
    left = f"{_string(policy_name(one.limit))};r={_integer(one.remaining)}"
    return left if until_more is None else f"{left};t={_integer(math.ceil(until_more))}"


def _until_more(decision: Decision, one: Reading) -> float | None:
    """Seconds until there is one whole unit more than the field says, never later than Retry-After.

    None where nobody knows, or where there will never be more.
    """
    place = decision.readings.index(one)
    wait = _wait_for_units(
        decision.plan.asked[place], decision.states[place], decision.now_us, math.floor(one.remaining) + 1
    )
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
