"""A limit or a share as a line of the usage page: every number in words, in the active language and time zone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Reading
from tenantlimits.domain.limits import ALL_LANE, UNLIMITED, Kind, Layer, Limit, LimitInForce, Mode
from tenantlimits.domain.pools import ShareInForce
from tenantlimits.domain.snapshots import Held
from tenantlimits.gate.overview import Overview
from tenantlimits.pools.words import advice_words, held_words, more_words, share_state
from tenantlimits.usage import Former
from tenantlimits.wording import (
    LimitState,
    amount_words,
    instant_words,
    number_words,
    promise,
    share_promise,
    share_source_words,
    share_words,
    source_words,
    state_of,
    state_words,
    wait_words,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A gauge. Texts, since numbers in attributes are never localised."""

    value: str
    most: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One limit or share. Empty texts have nothing to say; `meter` is None where there is nothing to measure by.

    `note` is a sentence about a share by which operations wait.
    """

    name: str
    lane: str
    amount: str
    promise: str
    whose: str
    state: LimitState
    badge: str
    meter: Meter | None
    now: str
    more: str
    resets_at: datetime | None
    source: str
    is_override: bool
    changed: str
    mode: str
    is_cap: bool
    note: str = ""


def lines_of(seen: Overview, former: Mapping[str, Former], known: Sequence[LimitInForce]) -> list[Line]:
    """The caller's limits, by lane, then its tenant's shares.

    Without the store those `known` are there, and nothing of their use.
    """
    readings: list[Reading | None] = [None] * len(known) if seen.stale else list(seen.readings)
    pairs = zip(known, readings, strict=True)
    lines = [(one.limit, _line(one, reading, seen, former.get(one.limit.name))) for one, reading in pairs]
    limits = [line for _limit, line in sorted(lines, key=lambda pair: _order(pair[0]))]
    return [*limits, *(_share(one, seen) for one in seen.policy.shares.values())]


def banners_of(lines: Sequence[Line]) -> list[tuple[LimitState, str, list[Line]]]:
    """What stands on top: the limits by which the next operation would be refused, under a title for each state.

    Where operations wait for a slot is under a title of its own.
    """
    waiting, others = [line for line in lines if line.note], [line for line in lines if not line.note]
    limited = [line for line in others if line.state is LimitState.LIMITED]
    blocked = [line for line in others if line.state is LimitState.BLOCKED]
    found = [
        (LimitState.LIMITED, _("Operations are waiting: what comes now waits behind them, or is refused."), waiting),
        (LimitState.LIMITED, _("At the limit: what comes now is refused until there is more."), limited),
        (LimitState.BLOCKED, _("Blocked: nothing is let in."), blocked),
    ]
    return [banner for banner in found if banner[2]]


def lane_words(lane: str) -> str:
    """The lane's name; of what counts every request, and of a lane that is gone, what it is."""
    if lane == ALL_LANE:
        return _("All requests")
    return _("A former lane (%(tag)s)") % {"tag": lane} if lane.startswith("#") else lane


def _order(limit: Limit) -> tuple[int, int, float, str]:
    lanes = [ALL_LANE, *conf.LANES]
    place = lanes.index(limit.lane) if limit.lane in lanes else len(lanes)
    return place, list(Layer).index(limit.layer), limit.period_seconds or math.inf, limit.name


def _line(one: LimitInForce, reading: Reading | None, seen: Overview, former: Former | None) -> Line:
    limit = one.limit
    state = LimitState.UNKNOWN if reading is None else state_of(reading)
    return Line(
        name=limit.name,
        lane=lane_words(limit.lane),
        amount=_amount(limit),
        promise=promise(limit) if 0 < limit.amount < UNLIMITED and limit.kind is not Kind.CONCURRENCY else "",
        whose=_whose(limit.layer),
        state=state,
        badge=state_words(state) if state in (LimitState.NEAR, LimitState.LIMITED) else "",
        meter=_meter(reading),
        now=_("not known") if reading is None else _now(reading),
        more="" if reading is None else _more(reading),
        resets_at=_resets_at(reading, seen.as_of),
        source=source_words(one, seen.policy.tier_name),
        is_override=one.override is not None,
        changed=_changed(former, one),
        mode=_mode(limit.mode),
        is_cap=limit.kind is Kind.CONCURRENCY,
    )


def _share(one: ShareInForce, seen: Overview) -> Line:
    lanes = [lane_words(lane.name) for lane in conf.LANES.values() if lane.pool == one.pool.name]
    slots, pool, held = one.share.slots, one.pool, seen.held.get(one.pool.name)
    state = share_state(one, held)
    return Line(
        name=one.name,
        lane=", ".join(lanes) or pool.name,
        amount=share_words(slots, pool),
        promise=share_promise(slots, pool),
        whose="",
        state=state,
        badge=state_words(state) if state in (LimitState.NEAR, LimitState.LIMITED) else "",
        meter=_share_meter(one, held),
        now=_("not known") if held is None else held_words(held, slots),
        more="" if held is None else more_words(one, held),
        resets_at=None,
        source=share_source_words(one, seen.policy.tier_name),
        is_override=one.override is not None,
        changed="",
        mode="",
        is_cap=True,
        note="" if held is None else advice_words(one, held),
    )


def _share_meter(one: ShareInForce, held: Held | None) -> Meter | None:
    if held is None or not one.share.slots:
        return None
    return Meter(value=str(min(held.busiest.running, one.share.slots)), most=str(one.share.slots))


def _amount(limit: Limit) -> str:
    if limit.amount == 0:
        return _("blocked")
    words = amount_words(limit)
    if limit.amount in (UNLIMITED, limit.capacity):
        return words
    return _("%(amount)s, burst %(burst)s") % {"amount": words, "burst": number_words(limit.capacity)}


def _whose(layer: Layer) -> str:
    words = {Layer.USER: _("counts your login alone"), Layer.CREDENTIAL: _("counts your key alone")}
    return words.get(layer, "")


def _is_measurable(limit: Limit) -> bool:
    return 0 < limit.capacity < UNLIMITED


def _meter(reading: Reading | None) -> Meter | None:
    if reading is None or not _is_measurable(reading.limit):
        return None
    capacity = reading.limit.capacity
    return Meter(value=f"{min(reading.used, capacity):.3f}", most=f"{capacity:.3f}")


def _now(reading: Reading) -> str:
    """What is used of what there is; used is rounded up, as what is left is rounded down."""
    limit, used = reading.limit, math.ceil(reading.used)
    words = {"used": number_words(used), "most": number_words(limit.capacity)}
    if limit.amount == 0:
        return _("blocked")
    if not _is_measurable(limit):
        running = limit.kind is Kind.CONCURRENCY
        return (_("%(used)s running, no limit") if running else _("%(used)s used, no limit")) % words
    words["percent"] = number_words(math.floor(100 * used / limit.capacity))
    if limit.kind is Kind.CONCURRENCY:
        return _("%(used)s of %(most)s running (%(percent)s %%)") % words
    return _("%(used)s of %(most)s (%(percent)s %%)") % words


def _more(reading: Reading) -> str:
    """When one unit more fits."""
    if reading.limit.amount == 0 or reading.next_unit == math.inf:
        return ""
    if reading.remaining >= 1 or reading.limit.mode is not Mode.ENFORCE:
        return _("now")
    if reading.next_unit is None:
        return _("when one ends")
    return _("in %(wait)s") % {"wait": wait_words(reading.next_unit)}


def _resets_at(reading: Reading | None, as_of: datetime) -> datetime | None:
    """When a calendar quota begins anew; other limits come back bit by bit."""
    if reading is None or reading.limit.kind is not Kind.CALENDAR_QUOTA or not reading.full:
        return None
    return as_of + timedelta(seconds=math.ceil(reading.full))


def _changed(former: Former | None, one: LimitInForce) -> str:
    if former is None or (one.override is not None and one.override.starts_at == former.until):
        return ""  # that the override says itself
    words = {"amount": number_words(former.amount), "until": instant_words(former.until)}
    return _("Was %(amount)s until %(until)s, within this period") % words


def _mode(mode: Mode) -> str:
    words = {Mode.OBSERVE: _("counted, not refused"), Mode.OFF: _("switched off")}
    return words.get(mode, "")
