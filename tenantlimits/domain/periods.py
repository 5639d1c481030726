"""Calendar periods in a time zone, as instants.

Local midnights that a clock change skips resolve to the first valid instant after them; consecutive periods
neither overlap nor leave a gap (PEP 495 for the fold of ambiguous times).
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from tenantlimits.domain.limits import DAY, HOUR, MONTH, WEEK

US = 1_000_000


def to_us(instant: datetime) -> float:
    """Microseconds since the epoch of an aware instant, exactly."""
    delta = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return float((delta.days * DAY + delta.seconds) * US + delta.microseconds)


def from_us(us: float) -> datetime:
    """The aware UTC instant of so many microseconds since the epoch."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def boundaries(
    now: datetime, zone: ZoneInfo, period_seconds: int, anchor_day: int = 1
) -> tuple[datetime, datetime, datetime]:
    """`(start, end, next_end)` of the calendar period of `now` and the one after it, in UTC."""
    start = _start(now, zone, period_seconds, anchor_day)
    end = _following(start, zone, period_seconds, anchor_day)
    if end <= now:
        # Clocks that go back over midnight: the rest of the old date already belongs to the new day.
        start, end = end, _following(end, zone, period_seconds, anchor_day)
    return start, end, _following(end, zone, period_seconds, anchor_day)


def _start(now: datetime, zone: ZoneInfo, period_seconds: int, anchor_day: int) -> datetime:
    if period_seconds == HOUR:
        return hour_start(now, zone)
    today = now.astimezone(zone).date()
    # Where midnight does not exist the day begins late: an instant before that still belongs to the day before.
    if midnight(today, zone) > now:
        today -= timedelta(days=1)
    return midnight(_first_day(today, period_seconds, anchor_day), zone)


def _first_day(today: date, period_seconds: int, anchor_day: int) -> date:
    if period_seconds == DAY:
        return today
    if period_seconds == WEEK:
        return today - timedelta(days=today.weekday())
    this_month = _anchored(today.year, today.month, anchor_day)
    return this_month if this_month <= today else _anchored(*_month_before(today), anchor_day)


def _following(start: datetime, zone: ZoneInfo, period_seconds: int, anchor_day: int) -> datetime:
    if period_seconds == HOUR:
        end = hour_start(start + timedelta(seconds=HOUR), zone)
        return end if end > start else hour_start(start + timedelta(seconds=2 * HOUR), zone)
    day = start.astimezone(zone).date()
    if period_seconds != MONTH:
        return midnight(day + timedelta(days=period_seconds // DAY), zone)
    year, month = (day.year + day.month // 12, day.month % 12 + 1)
    return midnight(_anchored(year, month, anchor_day), zone)


def _month_before(day: date) -> tuple[int, int]:
    return (day.year, day.month - 1) if day.month > 1 else (day.year - 1, 12)


def _anchored(year: int, month: int, anchor_day: int) -> date:
    """The anchor day, or the month's last day where it has no such day."""
    return date(year, month, min(anchor_day, calendar.monthrange(year, month)[1]))


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a local day, in UTC."""
    start = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    if start.astimezone(zone).date() == day and start.astimezone(zone).hour == 0:
        return start
    return _end_of_gap(start - timedelta(hours=3), start + timedelta(hours=3), zone, day)


def _end_of_gap(low: datetime, high: datetime, zone: ZoneInfo, day: date) -> datetime:
    """The first second whose local date is `day`, by halving."""
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        low, high = (low, middle) if middle.astimezone(zone).date() >= day else (middle, high)
    return high.replace(microsecond=0)


def hour_offset_us(now: datetime, zone: ZoneInfo) -> float:
    """How far the zone's hours stand off UTC's, in microseconds: 0 in Paris, 1.8e9 (half an hour) in Adelaide."""
    offset = now.astimezone(zone).utcoffset()
    assert offset is not None
    return (offset.total_seconds() % HOUR) * US


def hour_start(now: datetime, zone: ZoneInfo) -> datetime:
    """The start of the zone's hour that contains `now`, in UTC.

    Where clocks move by half an hour (Lord Howe Island), the hour of the change lasts an hour and a half.
    """
    offset, now_us = hour_offset_us(now, zone), to_us(now)
    start = from_us(now_us - (now_us + offset) % (HOUR * US))
    return start if hour_offset_us(start, zone) == offset else hour_start(start, zone)
