"""What a tenant used, read from the rows and from what the store has counted since: nothing is left out or seen twice.

The store is asked first, then the database: what is flushed in between is in both, and of one count the later look is
taken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol
from zoneinfo import ZoneInfo

from django.utils import timezone

from tenantlimits.conf import conf
from tenantlimits.domain.limits import HOUR
from tenantlimits.domain.periods import from_us
from tenantlimits.engine.base import Counted, Member
from tenantlimits.gate.counts import StoreUnreachable, counted_for
from tenantlimits.models import Tenant, UsageHour
from tenantlimits.usage.names import Names
from tenantlimits.usage.periods import Period, Resolution, last_periods, period_of
from tenantlimits.usage.rows import counted_rows, is_older, key_of


class Figures(Protocol):
    """What was counted. `cost` is what allowed operations cost, in units; refused ones are no use."""

    @property
    def requests(self) -> int: ...
    @property
    def allowed(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def refused_by(self) -> Mapping[str, int]: ...
    @property
    def observed_by(self) -> Mapping[str, int]: ...
    @property
    def cost(self) -> Decimal: ...
    @property
    def waited_ms(self) -> int: ...
    @property
    def peak_in_flight(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum of figures; of peaks the highest, since nobody knows whether two of them met."""

    requests: int = 0
    allowed: int = 0
    refused: int = 0
    refused_by: Mapping[str, int] = field(default_factory=dict)
    observed_by: Mapping[str, int] = field(default_factory=dict)
    cost: Decimal = Decimal(0)
    waited_ms: int = 0
    peak_in_flight: int = 0


def total(figures: Iterable[Figures]) -> Total:
    """The sum."""
    all_of_them = tuple(figures)
    return Total(
        requests=sum(one.requests for one in all_of_them),
        allowed=sum(one.allowed for one in all_of_them),
        refused=sum(one.refused for one in all_of_them),
        refused_by=_sum(one.refused_by for one in all_of_them),
        observed_by=_sum(one.observed_by for one in all_of_them),
        cost=sum((one.cost for one in all_of_them), Decimal(0)),
        waited_ms=sum(one.waited_ms for one in all_of_them),
        peak_in_flight=max((one.peak_in_flight for one in all_of_them), default=0),
    )


def _sum(times: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """`{limit: times}`, the most frequent first."""
    found: Counter[str] = Counter()
    for one in times:
        found.update(one)
    return dict(found.most_common())


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An hour or a day, from `start` to just before `end`, with the figures of each lane.

    `partial`: it has not ended. Before `complete_until` nothing more is to come; None: nobody can say.
    """

    start: datetime
    end: datetime
    partial: bool
    complete_until: datetime | None
    lanes: Mapping[str, Total]

    @property
    def total(self) -> Total:
        """All lanes together."""
        return total(self.lanes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Hours or days in a row. `stale`: the store is away, so what it has counted since the last flush is missing."""

    as_of: datetime
    stale: bool
    spans: tuple[Span, ...]

    @property
    def lanes(self) -> dict[str, Total]:
        """Each lane's figures of the whole time."""
        by_lane: defaultdict[str, list[Total]] = defaultdict(list)
        for span in self.spans:
            for lane, figures in span.lanes.items():
                by_lane[lane].append(figures)
        return {lane: total(figures) for lane, figures in by_lane.items()}

    @property
    def total(self) -> Total:
        """All of it."""
        return total(self.lanes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What can be known of a tenant's use now; `as_of` is the store's clock, or this process's where that is away."""

    tenant: str
    zone: ZoneInfo
    as_of: datetime
    counted: Counted | None

    @property
    def stale(self) -> bool:
        """Whether the store is away."""
        return self.counted is None

    def history(self, periods: Sequence[Period], resolution: Resolution) -> History:
        """The use in these hours or days, one after another; every lane of the settings is among the figures."""
        found: defaultdict[Period, list[UsageHour]] = defaultdict(list)
        for row in self._rows(periods[0][0], periods[-1][1]) if periods else ():
            found[period_of(row.start, self.zone, resolution)].append(row)
        lanes = dict.fromkeys([*conf.LANES, *sorted({row.lane for rows in found.values() for row in rows})])
        spans = tuple(self._span(one, found[one], lanes) for one in periods)
        return History(as_of=self.as_of, stale=self.stale, spans=spans)

    def _rows(self, start: datetime, end: datetime) -> list[UsageHour]:
        """The rows of that time, those that the store knows better in its words."""
        live = {} if self.counted is None else counted_rows(Member(0, self.tenant), self.counted, Names.known())
        rows = {at: row for at, row in live.items() if start <= row.start < end}
        for row in UsageHour.objects.filter(tenant__key=self.tenant, start__gte=start, start__lt=end).order_by():
            at = key_of(row)
            if at not in rows or is_older(rows[at], row):
                rows[at] = row
        return list(rows.values())

    def _span(self, period: Period, rows: Sequence[UsageHour], lanes: Iterable[str]) -> Span:
        start, end = period
        return Span(
            start=start,
            end=end,
            partial=end > self.as_of,
            complete_until=_complete_until(rows) if self.stale else min(end, self.as_of),
            lanes={lane: total(row for row in rows if row.lane == lane) for lane in lanes},
        )


def _complete_until(rows: Sequence[UsageHour]) -> datetime | None:
    """Until when rows alone are complete: not beyond an hour of which the last flush came before its end."""
    known = [(row.start, row.complete_until) for row in rows if row.complete_until]
    unfinished = (until for start, until in known if until < start + timedelta(seconds=HOUR))
    return min(unfinished, default=max((until for _, until in known), default=None))


def ledger_of(tenant: str) -> Ledger:
    """What can be known now of the use of a tenant, by its key; not for callers without one, who are in every shard."""
    try:
        counted = counted_for(tenant)
    except StoreUnreachable:
        counted = None
    row = Tenant.objects.filter(key=tenant).first()
    return Ledger(
        tenant=tenant,
        zone=row.zone if row else conf.TIME_ZONE,
        as_of=from_us(counted.now_us) if counted else timezone.now(),
        counted=counted,
    )


def last_hours(tenant: str, hours: int = 24) -> History:
    """What a tenant used, by hour of its zone and by lane, up to now and with the running hour as the last one."""
    ledger = ledger_of(tenant)
    return ledger.history(last_periods(hours, ledger.as_of, ledger.zone, Resolution.HOUR), Resolution.HOUR)
