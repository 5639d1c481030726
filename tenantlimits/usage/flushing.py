"""The flush: write down what the stores have counted, by the hour.

Read, write, then forget, in this order: whatever ends in between is done again, and doing it again changes nothing,
since the numbers are absolute for each source. Of two flushes at the same instant the one that read earlier never
lowers what the other has written: writers of a tenant take turns by its row, and an older count is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.db import Error, connections, router, transaction
from django.db.models import QuerySet

from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.engine.base import Acknowledge, Collect, Engine, Member, Pending
from tenantlimits.gate.counts import StoreUnreachable, ask, counting_stores
from tenantlimits.models import Tenant, UsageHour
from tenantlimits.models.tenants import lock
from tenantlimits.usage.names import Names
from tenantlimits.usage.rows import Key, counted_rows, is_older, key_of

logger = logging.getLogger(__name__)

_UNIQUE = ["tenant", "lane", "start", "source"]
_FIGURES = ["requests", "allowed", "refused", "refused_by", "observed_by", "cost", "peak_in_flight", "complete_until"]
_MOST_UNANSWERED = 3
"""After so many tenants in a row without an answer the store is given up until the next flush."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """What a flush did. `left_over` tenants still have something to flush: used meanwhile, or failed."""

    tenants: int
    rows: int
    left_over: int


class FlushFailed(TenantLimitsError):
    """Some of it could not be flushed and is kept for the next time. `flushed` says what was, `failures` what not."""

    def __init__(self, flushed: Flushed, failures: Sequence[str]) -> None:
        super().__init__(flushed, failures)  # as they came, so that it survives a result backend
        self.flushed, self.failures = flushed, failures

    def __str__(self) -> str:
        shown = "; ".join(self.failures[:3])
        more = f"; and {len(self.failures) - 3} more" if len(self.failures) > 3 else ""
        return f"Not everything could be flushed, and what is left stays for the next time: {shown}{more}"


@dataclass(slots=True)
class _Flush:
    """One flush under way."""

    names: Names
    written: set[str] = field(default_factory=set)
    left_over: set[str] = field(default_factory=set)
    rows: int = 0
    failures: list[str] = field(default_factory=list)

    def summary(self) -> Flushed:
        return Flushed(tenants=len(self.written), rows=self.rows, left_over=len(self.left_over))

    def failed(self, what: str, error: Exception) -> None:
        self.failures.append(f"{what}: {error}")
        logger.error("Usage of %s could not be flushed (%s): it stays for the next flush.", what, error)


def _quietly(_done: int, _of: int) -> None:
    """Nobody watches."""


def flush(progress: Callable[[int, int], None] = _quietly) -> Flushed:
    """Write down all that was counted and not flushed; `progress(done, of)` is called after each tenant.

    Safe at any time: twice, late, in two places, killed at any point, after the store lost its memory. One tenant that
    fails does not stop the others; FlushFailed at the end says which, and they are flushed next time.
    """
    under_way = _Flush(Names.known())
    for engine in counting_stores():
        try:
            members = ask(engine, Pending())
        except StoreUnreachable as error:
            under_way.failed("all tenants", error)
            continue
        _flush_members(under_way, engine, members, progress)
    if under_way.failures:
        raise FlushFailed(under_way.summary(), under_way.failures)
    return under_way.summary()


def _flush_members(
    under_way: _Flush, engine: Engine, members: tuple[Member, ...], progress: Callable[[int, int], None]
) -> None:
    unanswered = 0
    for number, member in enumerate(members, start=1):
        try:
            _flush_member(under_way, engine, member)
            unanswered = 0
        except (Error, TenantLimitsError) as error:
            under_way.left_over.add(member.tenant)
            under_way.failed(f"tenant {member.tenant!r}" if member.tenant else "callers without a tenant", error)
            _mend_connection()
            unanswered = unanswered + 1 if isinstance(error, StoreUnreachable) else 0
        progress(number, len(members))
        if unanswered == _MOST_UNANSWERED:
            under_way.left_over.update(left.tenant for left in members[number:])
            return


def _mend_connection() -> None:
    """A server that has restarted closed this connection: the next tenant needs a new one."""
    connection = connections[router.db_for_write(UsageHour)]
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def _flush_member(under_way: _Flush, engine: Engine, member: Member) -> None:
    counted = ask(engine, Collect(member))
    if rows := counted_rows(member, counted, under_way.names):
        under_way.rows += _write(member.tenant, rows)
        under_way.written.add(member.tenant)
    if not ask(engine, Acknowledge(member, counted)):
        under_way.left_over.add(member.tenant)


def _write(key: str, rows: dict[Key, UsageHour]) -> int:
    """Upsert what is not older than what is there; answers the number of rows written."""
    using = router.db_for_write(UsageHour)
    # Usage of a request whose transaction was rolled back may be all that is left of a tenant that was new.
    tenants = Tenant.objects.using(using)
    tenant = tenants.get_or_create(key=key)[0] if key else tenants.anonymous()
    # Durable: what the caller could still take back must not be forgotten by the store.
    with transaction.atomic(using=using, durable=True):
        lock(using=using, pk=tenant.pk)
        table = UsageHour.objects.using(using)
        starts = {start for start, _, _ in rows}
        sources = {source for _, source, _ in rows}
        there = table.filter(tenant=tenant, start__in=starts, source__in=sources).order_by()
        before = {key_of(row): row for row in there}
        fresh = {at: row for at, row in rows.items() if at not in before or not is_older(row, before[at])}
        _keep_names(table.filter(tenant=tenant), before, fresh)
        for row in fresh.values():
            row.tenant = tenant
        table.bulk_create(
            fresh.values(), batch_size=500, update_conflicts=True, unique_fields=_UNIQUE, update_fields=_FIGURES
        )
    return len(fresh)


def _keep_names(table: QuerySet[UsageHour], before: dict[Key, UsageHour], fresh: dict[Key, UsageHour]) -> None:
    """Let each count stand in one row, though this process and the one that wrote it may know different lanes.

    A lane that nobody knew is renamed once it is known; one that is known only to others keeps the name they gave it.
    """
    renamed = []
    for at, row in fresh.items():
        known = before.get(at)
        if known is None or known.lane == row.lane:
            continue
        if row.lane.startswith("#"):
            row.lane = known.lane
        else:
            renamed.append(known.pk)
    if renamed:
        table.filter(pk__in=renamed).delete()
