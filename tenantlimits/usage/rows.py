"""What a store has counted, as rows; and of two rows of the same count, which one was read later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import HOUR
from tenantlimits.domain.periods import from_us
from tenantlimits.engine.base import Counted, HourCount, Member, RefusalCount
from tenantlimits.models import UsageHour
from tenantlimits.usage.names import Names, tag_of

Key = tuple[datetime, str, bytes]
"""Start of the hour, source and the lane's tag: one count of one tenant."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def key_of(row: UsageHour) -> Key:
    """Which count a row is of, whatever its lane was called when it was written."""
    return row.start, row.source, tag_of(row.lane)


def counted_rows(member: Member, counted: Counted, names: Names) -> dict[Key, UsageHour]:
    """Unsaved rows, without their tenant, of everything that a store has counted for a member."""
    hours = (*counted.closed, *([counted.running] if counted.running else ()))
    now = from_us(counted.now_us)
    return {key: row for hour in hours for key, row in _rows_of(member, hour, names, now)}


def _rows_of(member: Member, hour: HourCount, names: Names, now: datetime) -> Iterator[tuple[Key, UsageHour]]:
    start = from_us(hour.start_s * 1_000_000)
    # The anonymous tenant is counted once in every shard, so its shards are sources of their own.
    source = hour.source if member.tenant else f"{hour.source}/{member.shard:02x}"
    for tag, count in hour.lanes.items():
        yield (
            (start, source, tag),
            UsageHour(
                lane=names.lane(tag),
                start=start,
                source=source,
                requests=count.allowed + count.refused,
                allowed=count.allowed,
                refused=count.refused,
                refused_by=_by_limit(hour, tag, names, lambda times: times.refused),
                observed_by=_by_limit(hour, tag, names, lambda times: times.observed),
                cost=Decimal(round(count.cost)) / MILLI,
                peak_in_flight=count.peak,
                complete_until=min(now, start + timedelta(seconds=HOUR)),
            ),
        )


def _by_limit(hour: HourCount, lane: bytes, names: Names, times: Callable[[RefusalCount], int]) -> dict[str, int]:
    """`{limit: times}`: two kinds of one name, before and after a change of tier, count together."""
    found: Counter[str] = Counter()
    for (tag, limit), count in hour.refusals.items():
        if tag == lane:
            found[names.limit(limit)] += times(count)
    return {name: number for name, number in sorted(found.items()) if number}


def is_older(row: UsageHour, than: UsageHour) -> bool:
    """Whether a row shows its count at an earlier time than the other.

    Requests only grow. Where they are the same, settling may have changed the cost, in either direction: then the later
    look counts. Of two looks at the same instant neither is older.
    """
    return _age(row) < _age(than)


def _age(row: UsageHour) -> tuple[int, datetime]:
    return row.requests, row.complete_until or _NEVER
