"""Hours and days of a tenant's time zone, as instants."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from tenantlimits.domain.limits import DAY, HOUR
from tenantlimits.domain.periods import boundaries

Period = tuple[datetime, datetime]
"""From one instant to just before another, both aware and in UTC."""


class Resolution(StrEnum):
    """How long the periods are into which use is divided."""

    HOUR = "hour"
    DAY = "day"


_SECONDS = {Resolution.HOUR: HOUR, Resolution.DAY: DAY}


def period_of(instant: datetime, zone: ZoneInfo, resolution: Resolution) -> Period:
    """The zone's hour or day that contains the instant."""
    start, end, _ = boundaries(instant, zone, _SECONDS[resolution])
    return start, end


def periods(start: datetime, end: datetime, zone: ZoneInfo, resolution: Resolution) -> list[Period]:
    """All hours or days, whole ones, that have a part in what lies from `start` to just before `end`."""
    found = []
    at = start
    while at < end:
        found.append(period_of(at, zone, resolution))
        at = found[-1][1]
    return found


def last_periods(number: int, until: datetime, zone: ZoneInfo, resolution: Resolution) -> list[Period]:
    """So many hours or days; the last one contains `until`."""
    found = [period_of(until, zone, resolution)]
    while len(found) < number:
        found.insert(0, period_of(found[0][0] - timedelta(microseconds=1), zone, resolution))
    return found
