"""What is asked of the usage API, from the parameters of the address."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from tenantlimits.api.problems import BadParameter
from tenantlimits.conf import conf, suggestion
from tenantlimits.domain.limits import ALL_LANE
from tenantlimits.domain.periods import from_us, to_us
from tenantlimits.models import UsageHour
from tenantlimits.usage import Ledger, Resolution
from tenantlimits.usage.periods import Period, last_periods, periods

PAGE_SIZE = 200
"""Buckets of one answer."""
MOST_DAYS = {Resolution.HOUR: 92, Resolution.DAY: 400}
_DEFAULT_PERIODS = {Resolution.HOUR: 24, Resolution.DAY: 30}
_INSTANT = timedelta(microseconds=1)
_PARAMETERS = ("start", "end", "bucket", "lane", "group_by", "cursor", "format")
_CURSOR = struct.Struct("<qq")
_EARLIEST, _LATEST = datetime(1971, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """Which hours or days, of which lane, and whether each lane is shown by itself; one page of them."""

    resolution: Resolution
    lane: str | None
    by_lane: bool
    page: list[Period]
    next_cursor: str | None

    @classmethod
    def of(cls, parameters: QueryDict, ledger: Ledger) -> Self:
        """What the parameters ask for; BadParameter says what to write instead."""
        _refuse_unknown(parameters)
        resolution = _resolution(parameters.get("bucket", Resolution.HOUR))
        start, end = _range(parameters, ledger, resolution)
        found = periods(start, end, ledger.zone, resolution)
        page, rest = found[:PAGE_SIZE], found[PAGE_SIZE:]
        return cls(
            resolution=resolution,
            lane=_lane(parameters.get("lane"), ledger),
            by_lane=_by_lane(parameters.get("group_by", "")),
            page=page,
            next_cursor=_packed(rest[0][0], end) if rest else None,
        )


def _refuse_unknown(parameters: QueryDict) -> None:
    for name, values in parameters.lists():
        if name not in _PARAMETERS:
            known = ", ".join(_PARAMETERS)
            guess = suggestion(name, _PARAMETERS)
            raise BadParameter(name, f"There is no parameter {name!r:.80}: there are {known}.{guess}")
        if len(values) > 1:
            raise BadParameter(name, f"Give {name} once, not {len(values)} times.")


def _resolution(text: str) -> Resolution:
    try:
        return Resolution(text)
    except ValueError:
        raise BadParameter("bucket", f"Bucket {text!r:.80} is none: write hour or day.") from None


def _by_lane(text: str) -> bool:
    asked = {part.strip() for part in text.split(",")} - {""}
    if "layer" in asked:
        raise BadParameter("group_by", "Use is counted by lane and not by layer: write group_by=lane.")
    if asked - {"lane"}:
        raise BadParameter("group_by", f"Nothing is grouped by {text!r:.80}: write group_by=lane, or leave it out.")
    return bool(asked)


def _lane(name: str | None, ledger: Ledger) -> str | None:
    """The lane, which may also be one that is no longer in the settings but was used."""
    if name is None or name in conf.LANES:
        return name
    if name == ALL_LANE:
        raise BadParameter("lane", f"Lane {ALL_LANE} is the sum of the lanes: leave lane out.")
    if UsageHour.objects.filter(tenant__key=ledger.tenant, lane=name).exists():
        return name
    raise BadParameter(
        "lane", f"There is no lane {name!r:.80}: there are {', '.join(conf.LANES)}.{suggestion(name, conf.LANES)}"
    )


def _range(parameters: QueryDict, ledger: Ledger, resolution: Resolution) -> Period:
    """From start to end, not beyond now: by default the last 24 hours, or the last 30 days, with the one that runs."""
    now = ledger.as_of + _INSTANT
    if "cursor" in parameters:
        start, end = _cursor(parameters)
    else:
        end = _instant(parameters, "end") or now
        default = last_periods(_DEFAULT_PERIODS[resolution], min(end, now) - _INSTANT, ledger.zone, resolution)
        start = _instant(parameters, "start") or default[0][0]
    if start >= end:
        raise BadParameter("start", f"Start {_words(start)} is not before end {_words(end)}.")
    if start >= now:
        raise BadParameter("start", f"Start {_words(start)} is in the future: it is {_words(ledger.as_of)}.")
    most = MOST_DAYS[resolution]
    if end - start > timedelta(days=most):
        raise BadParameter(
            "start", f"From start to end are more than {most} days, the most of buckets of one {resolution}: ask twice."
        )
    return start, min(end, now)


def _instant(parameters: QueryDict, name: str) -> datetime | None:
    text = parameters.get(name)
    if text is None:
        return None
    try:
        instant = parse_datetime(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        plus = " In an address + is written %2B." if " " in text else ""
        raise BadParameter(
            name, f"{text!r:.80} is no instant: write {name} with its time zone, as 2026-11-29T00:00:00Z.{plus}"
        )
    if not _EARLIEST < instant < _LATEST:
        raise BadParameter(name, f"{text!r:.80} is no time that a tenant could have been there.")
    return instant.astimezone(UTC)


def _words(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _packed(start: datetime, end: datetime) -> str:
    """Where the next page begins, and where the last one ends, so that it does not move on with the time."""
    return urlsafe_b64encode(_CURSOR.pack(int(to_us(start)), int(to_us(end)))).decode().rstrip("=")


def _cursor(parameters: QueryDict) -> Period:
    for name in ("start", "end"):
        if name in parameters:
            raise BadParameter(name, f"A cursor knows where it goes on: leave {name} out.")
    text = parameters.get("cursor", "")
    try:
        start_us, end_us = _CURSOR.unpack(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        start, end = from_us(start_us), from_us(end_us)
    except (ValueError, struct.error, OverflowError):
        start = end = _EARLIEST
    if not _EARLIEST < start < end < _LATEST:
        raise BadParameter("cursor", "This is no cursor: follow the address in `next` as it is.")
    return start, end
