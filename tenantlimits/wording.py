"""Words for people: what a limit promises, why it refused, and how long to wait. In the language that is active."""

from __future__ import annotations

import math
from datetime import datetime
from enum import StrEnum

from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tenantlimits.domain import limits
from tenantlimits.domain.decisions import Code, Decision, PoolRefusal, Reading
from tenantlimits.domain.limits import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    UNLIMITED,
    WEEK,
    Counts,
    Kind,
    Limit,
    LimitInForce,
    Mode,
)
from tenantlimits.domain.pools import PoolSpec, ShareInForce

NEAR = 0.8
"""The part of a limit from which on it is nearly used up."""


class LimitState(StrEnum):
    """How close a limit is to refusing, in the words of the API."""

    OK = "ok"
    NEAR = "near"
    LIMITED = "limited"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


_STATES: dict[LimitState, Promise] = {
    LimitState.OK: gettext_lazy("OK"),
    LimitState.NEAR: gettext_lazy("Near the limit"),
    LimitState.LIMITED: gettext_lazy("At the limit"),
    LimitState.BLOCKED: gettext_lazy("Blocked"),
    LimitState.UNKNOWN: gettext_lazy("Unknown"),
}
# A title belongs to a problem type, not to an occurrence (RFC 9457, 3.1.3), so codes of one type share it.
_TITLES: dict[Code, Promise] = {
    Code.RATE_LIMITED: gettext_lazy("Quota exceeded"),
    Code.CONCURRENCY_LIMITED: gettext_lazy("Quota exceeded"),
    Code.QUEUE_FULL: gettext_lazy("Quota exceeded"),
    Code.QUEUE_TIMEOUT: gettext_lazy("Quota exceeded"),
    Code.CAPACITY_FULL: gettext_lazy("Temporarily reduced capacity"),
    Code.STORE_UNAVAILABLE: gettext_lazy("Temporarily reduced capacity"),
    Code.FUSE: gettext_lazy("Abnormal usage detected"),
    Code.COST_EXCEEDS_LIMIT: gettext_lazy("Cost exceeds the limit"),
    Code.BLOCKED: gettext_lazy("Blocked"),
}


def number_words(value: float) -> str:
    """`1,234.5` in the format of the active language, to a thousandth; "unlimited" where it is infinite."""
    if value == UNLIMITED:
        return _("unlimited")
    rounded = round(value, 3)
    whole = int(rounded)
    places = 0 if rounded == whole else len(f"{rounded - whole:.3f}".rstrip("0").partition(".")[2])
    return number_format(rounded if places else whole, places, force_grouping=True)


def promise(limit: Limit) -> str:
    """What the limit guarantees: "at most 1,000 in any minute", "10,000 per calendar day", "at most 6 at once".

    Of a sliding counter what it aims at, and the worst case: "about 500 in any minute, in the worst case up to 1,000".
    """
    if limit.amount == UNLIMITED:
        return _("unlimited")
    if limit.amount == 0:
        return _("blocks everything")
    if limit.kind is Kind.CONCURRENCY:
        return _("at most %(amount)s at once") % {"amount": number_words(limit.amount)}
    if limit.kind is Kind.CALENDAR_QUOTA:
        return _("%(amount)s per calendar %(period)s") % _amount_and_period(limit)
    if limit.kind is Kind.SLIDING_COUNTER:
        words = _amount_and_period(limit) | {"most": number_words(2 * limit.amount)}
        return _("about %(amount)s in any %(period)s, in the worst case up to %(most)s") % words
    # A full bucket gives its burst at once, and meanwhile fills for the length of the window.
    most = limit.amount + (limit.capacity if limit.kind is Kind.TOKEN_BUCKET else 0)
    return _("at most %(amount)s in any %(period)s") % (_amount_and_period(limit) | {"amount": number_words(most)})


def amount_words(limit: Limit) -> str:
    """The limit in short: "500 / minute", "12 / 3 seconds", "4 at once" or "unlimited"."""
    if limit.amount == UNLIMITED:
        return _("unlimited")
    if limit.period_seconds is None:
        return _("%(amount)s at once") % {"amount": number_words(limit.amount)}
    return _("%(amount)s / %(period)s") % _amount_and_period(limit)


def wait_words(seconds: float) -> str:
    """A time to wait in its two largest units, rounded up: "20 seconds", "3 hours 5 minutes"."""
    whole = max(1, math.ceil(seconds))
    units = (DAY, HOUR, MINUTE, SECOND)
    large = next(unit for unit in units if unit <= whole)
    small = units[min(units.index(large) + 1, len(units) - 1)]
    whole = -(-whole // small) * small
    large = next(unit for unit in units if unit <= whole)
    first = _unit_words(whole // large, large)
    rest = whole % large
    if not rest:
        return first
    return _("%(first)s %(rest)s") % {"first": first, "rest": _unit_words(rest // small, small)}


def refusal_title(code: Code) -> str:
    """What kind of refusal it is, the same for all of its kind: "Quota exceeded"."""
    return str(_TITLES[code])


def refusal_detail(decision: Decision, wait: int | None = None) -> str:
    """Which limit refused and what to do: "Limit exports-rate of plan Enterprise reached: 3 units per minute, ...".

    `wait` is in seconds, and the decision's own where it is None.
    """
    wait = decision.retry_after_seconds if wait is None else wait
    return " ".join(part for part in (_reason(decision), _advice(decision, wait)) if part)


def limit_words(decision: Decision, limit: Limit) -> str:
    """The limit and where it comes from: "Limit exports-rate of plan Enterprise"."""
    if not decision.plan.tier_name:
        return _("Limit %(limit)s") % {"limit": limit.name}
    return _("Limit %(limit)s of plan %(plan)s") % {"limit": limit.name, "plan": decision.plan.tier_name}


def source_words(in_force: LimitInForce, tier_name: str = "") -> str:
    """Where a limit's numbers come from: "Pro", or 'Raised from 300 until 14 Dec 2026: "Black Friday import"'."""
    if in_force.override is None:
        return tier_name or _("Plan")
    words = {
        "before": number_words(in_force.tier_limit.amount),
        "until": instant_words(in_force.override.expires_at),
        "reason": in_force.override.reason,
    }
    return _change(in_force) % words


def share_words(slots: int, pool: PoolSpec) -> str:
    """The share in short: "4 of 10 slots"."""
    words = {"slots": number_words(slots), "capacity": number_words(pool.capacity)}
    return _("%(slots)s of %(capacity)s slots") % words


def share_promise(slots: int, pool: PoolSpec) -> str:
    """What a share guarantees: "4 at once whenever slots are free; more while nobody else waits"."""
    lent = pool.rules.lent_at_most
    words = {"slots": number_words(slots), "lent": number_words(lent)}
    if not lent:
        return _("at most %(slots)s at once") % words if slots else _("blocks everything")
    if not slots:
        return _("none of its own: runs only while nobody else waits")
    if lent < pool.capacity:
        return (
            _("%(slots)s at once whenever slots are free; more while nobody else waits, of the %(lent)s that are lent")
            % words
        )
    return _("%(slots)s at once whenever slots are free; more while nobody else waits") % words


def share_source_words(one: ShareInForce, tier_name: str = "") -> str:
    """Where a share comes from: "Pro", or 'Raised from 4 until 14 Dec 2026: "Year-end statements"'."""
    if one.override is None:
        return tier_name or _("Plan")
    return _share_change(one) % {
        "before": number_words(one.tier_slots),
        "until": instant_words(one.override.expires_at),
        "reason": one.override.reason,
    }


def instant_words(instant: datetime) -> str:
    """A date in the current time zone, with the time where it is not midnight: "14 Dec 2026", "14 Dec 2026, 15:30"."""
    local = timezone.localtime(instant)
    at_midnight = (local.hour, local.minute, local.second) == (0, 0, 0)
    return date_format(local, "j M Y" if at_midnight else "j M Y, H:i")


def used_words(reading: Reading) -> str:
    """How much of a limit is used: "410 of 500 (82 %)", and without a percentage where there is none to give.

    Used is rounded up, as what is left is rounded down elsewhere: 19.4 of 20 has no room for 1.
    """
    used, capacity = math.ceil(reading.used), reading.limit.capacity
    words = {"used": number_words(used), "capacity": number_words(capacity)}
    if capacity in (0, UNLIMITED):
        return _("%(used)s of %(capacity)s") % words
    percent = number_words(100 * used // capacity)
    return _("%(used)s of %(capacity)s (%(percent)s %%)") % (words | {"percent": percent})


def state_of(reading: Reading) -> LimitState:
    """How close a limit is to refusing: near from 80 % on, limited where not one unit more fits.

    A limit that only observes is never more than near, for it refuses nothing.
    """
    limit = reading.limit
    if limit.capacity == UNLIMITED:
        return LimitState.OK
    enforced = limit.mode is Mode.ENFORCE
    if limit.amount == 0 and enforced:
        return LimitState.BLOCKED
    if reading.remaining < 1 and enforced:
        return LimitState.LIMITED
    return LimitState.NEAR if reading.used >= NEAR * limit.capacity > 0 else LimitState.OK


def state_words(state: LimitState) -> str:
    """The state as a label: "Near the limit"."""
    return str(_STATES[LimitState(state)])


def _amount_and_period(limit: Limit) -> dict[str, str]:
    return {"amount": number_words(limit.amount), "period": _period_words(limit)}


def _period_words(limit: Limit) -> str:
    """ "minute", "3 seconds": what stands after "per" or "in any"."""
    seconds = limit.period_seconds or 0
    if limit.kind is Kind.CALENDAR_QUOTA and seconds > WEEK:
        return _("month")
    if seconds == WEEK:
        return _("week")
    unit = next((unit for unit in (DAY, HOUR, MINUTE) if seconds % unit == 0), SECOND)
    count = seconds // unit
    return _one_unit(unit) if count == 1 else _unit_words(count, unit)


def _one_unit(unit: int) -> str:
    match unit:
        case limits.DAY:
            return _("day")
        case limits.HOUR:
            return _("hour")
        case limits.MINUTE:
            return _("minute")
    return _("second")


def _unit_words(count: int, unit: int) -> str:
    match unit:
        case limits.DAY:
            words = ngettext("%(count)s day", "%(count)s days", count)
        case limits.HOUR:
            words = ngettext("%(count)s hour", "%(count)s hours", count)
        case limits.MINUTE:
            words = ngettext("%(count)s minute", "%(count)s minutes", count)
        case _:
            words = ngettext("%(count)s second", "%(count)s seconds", count)
    return words % {"count": number_words(count)}


def _units(limit: Limit, amount: float) -> str:
    """ "3 units" of cost, "3 requests"."""
    count = math.ceil(amount)
    if limit.counts is Counts.REQUESTS:
        words = ngettext("%(count)s request", "%(count)s requests", count)
    else:
        words = ngettext("%(count)s unit", "%(count)s units", count)
    return words % {"count": number_words(amount)}


def _rate_words(limit: Limit) -> str:
    """ "3 units per minute, burst 20", "10,000 units per calendar day", "(about) 5 requests in any second"."""
    words = {"units": _units(limit, limit.amount), "period": _period_words(limit)}
    if limit.kind is Kind.CALENDAR_QUOTA:
        return _("%(units)s per calendar %(period)s") % words
    if limit.kind is Kind.SLIDING_LOG:
        return _("%(units)s in any %(period)s") % words
    if limit.kind is Kind.SLIDING_COUNTER:
        return _("about %(units)s in any %(period)s") % words
    return _("%(units)s per %(period)s, burst %(burst)s") % (words | {"burst": number_words(limit.capacity)})


def _reason(decision: Decision) -> str:
    one, code = decision.binding, decision.code
    if decision.by_pool is not None:
        return _pool_reason(decision.by_pool)
    if one is None:
        return _reason_without_limit(decision)
    words = {"limit": limit_words(decision, one.limit), "lane": decision.lane}
    if code is Code.BLOCKED:
        blocked = _("%(limit)s blocks lane %(lane)s.") % words
        return f"{blocked} {source_words(one.in_force)}." if one.in_force.override else blocked
    if code is Code.COST_EXCEEDS_LIMIT:
        words |= {"most": number_words(one.limit.capacity), "cost": number_words(one.requested)}
        return _("%(limit)s never holds more than %(most)s at a time, and this request needs %(cost)s.") % words
    if code is Code.CONCURRENCY_LIMITED:
        words |= {"most": number_words(one.limit.amount), "running": number_words(one.used)}
        return _("%(limit)s reached: at most %(most)s at once, and %(running)s are running.") % words
    # Used is rounded up, as what is left is rounded down: 19.4 of 20 has no room for 1.
    words |= {
        "rate": _rate_words(one.limit),
        "used": number_words(math.ceil(one.used)),
        "cost": number_words(one.requested),
    }
    return _("%(limit)s reached: %(rate)s. Used %(used)s, this request needs %(cost)s.") % words


def _pool_reason(one: PoolRefusal) -> str:
    words = {
        "share": number_words(one.share),
        "pool": one.pool,
        "running": number_words(one.running),
        "waiting": number_words(one.waiting),
    }
    if one.code is Code.CAPACITY_FULL:
        return _("All slots of %(pool)s are in use right now, though your share of %(share)s is not.") % words
    if one.code is Code.QUEUE_FULL:
        return _("%(running)s are running in %(pool)s and %(waiting)s wait: there is no room for more to wait.") % words
    if one.code is Code.QUEUE_TIMEOUT:
        return _("No slot of %(pool)s came free in time: %(running)s are running, your share is %(share)s.") % words
    return _("%(running)s are running in %(pool)s, and your share is %(share)s.") % words


def _reason_without_limit(decision: Decision) -> str:
    if decision.code is Code.STORE_UNAVAILABLE:
        return _("The limits of lane %(lane)s cannot be checked right now.") % {"lane": decision.lane}
    return _("Requests without valid credentials are not accepted here.")


def _advice(decision: Decision, wait: int | None) -> str:
    if decision.code is Code.COST_EXCEEDS_LIMIT:
        return _("Split it into smaller requests.")
    if decision.never or wait is None:
        return ""
    return _("Try again in %(wait)s.") % {"wait": wait_words(wait)}


def _change(in_force: LimitInForce) -> str:
    before, now = in_force.tier_limit, in_force.limit
    if now.amount == UNLIMITED:
        return _('Lifted from %(before)s until %(until)s: "%(reason)s"')
    if now.amount == 0:
        return _('Blocked until %(until)s: "%(reason)s"')
    if now.amount == before.amount and now.capacity == before.capacity:
        return _('Unchanged at %(before)s until %(until)s: "%(reason)s"')
    if (now.amount, now.capacity) > (before.amount, before.capacity):
        return _('Raised from %(before)s until %(until)s: "%(reason)s"')
    return _('Lowered from %(before)s until %(until)s: "%(reason)s"')


def _share_change(one: ShareInForce) -> str:
    if one.share.slots == one.tier_slots:
        return _('Unchanged at %(before)s until %(until)s: "%(reason)s"')
    if one.share.slots > one.tier_slots:
        return _('Raised from %(before)s until %(until)s: "%(reason)s"')
    return _('Lowered from %(before)s until %(until)s: "%(reason)s"')
