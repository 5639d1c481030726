"""Counted usage of a store in this process: by tenant, lane and hour, as lua/usage.lua counts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tenantlimits.domain.limits import HOUR, Mode
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import Plan, lane_tag
from tenantlimits.engine.base import USAGE_TTL_MS, Counted, HourCount, LaneCount, Member, RefusalCount

Missed = Mapping[tuple[bytes, bytes], RefusalCount]
"""By lane and limit: how often a limit did not fit."""


@dataclass(slots=True)
class _Usage:
    """Counted hours of one tenant; the running one is last. `deposits` are those that another store has counted."""

    hours: dict[int, HourCount] = field(default_factory=dict)
    deposits: dict[tuple[int, str], HourCount] = field(default_factory=dict)
    running: int | None = None
    flushed: bool = False


class Ledger:
    """What was counted. `source` tells it from what other stores count."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._usage: dict[Member, _Usage] = {}

    def add(self, member: Member, plan: Plan, now_us: float, count: LaneCount, missed: Missed) -> None:
        """Count an operation, or several, in the running hour."""
        usage = self._usage.setdefault(member, _Usage())
        hour = self._hour(usage, now_us, plan.hour_offset_us)
        tag = lane_tag(plan.lane)
        lanes = {**hour.lanes, tag: _sum(hour.lanes.get(tag, LaneCount()), count)}
        refusals = dict(hour.refusals)
        for key, one in missed.items():
            before = refusals.get(key, RefusalCount())
            refusals[key] = RefusalCount(before.refused + one.refused, before.observed + one.observed)
        usage.hours[hour.start_s] = replace(hour, lanes=lanes, refusals=refusals)
        usage.flushed = False

    def _hour(self, usage: _Usage, now_us: float, offset_us: float) -> HourCount:
        """The running hour, begun where the clock has reached a new one. It never goes back to a closed one."""
        seconds, offset = int(now_us // US), int(offset_us // US)
        start = seconds - (seconds + offset) % HOUR
        if usage.running is not None and start <= usage.running:
            return usage.hours[usage.running]
        if usage.flushed and usage.running is not None:
            del usage.hours[usage.running]
        usage.running = start
        return usage.hours.setdefault(start, HourCount(start, self._source, {}, {}))

    def pending(self) -> tuple[Member, ...]:
        """Tenants with something that is not flushed."""
        return tuple(sorted(member for member, usage in self._usage.items() if not usage.flushed))

    def collected(self, member: Member, now_us: float) -> Counted:
        """What is counted for a tenant."""
        usage = self._usage.get(member)
        if usage is None or usage.running is None:
            return Counted(now_us, None, tuple(usage.deposits.values()) if usage else ())
        closed = tuple(hour for start, hour in usage.hours.items() if start != usage.running)
        return Counted(now_us, usage.hours[usage.running], (*closed, *usage.deposits.values()))

    def acknowledge(self, member: Member, counted: Counted) -> bool:
        """Forget what was flushed; whether nothing unflushed is left."""
        usage = self._usage.get(member)
        if usage is None:
            return True
        for hour in counted.closed:
            if usage.deposits.get((hour.start_s, hour.source)) == hour:
                del usage.deposits[hour.start_s, hour.source]
            elif usage.hours.get(hour.start_s) == hour and hour.start_s != usage.running:
                del usage.hours[hour.start_s]
        running = usage.hours.get(usage.running) if usage.running is not None else None
        is_known = usage.flushed or running == counted.running
        usage.flushed = is_known and len(usage.hours) <= 1 and not usage.deposits
        return usage.flushed

    def deposit(self, member: Member, hours: Iterable[HourCount]) -> None:
        """Take over what another store has counted."""
        usage = self._usage.setdefault(member, _Usage())
        usage.deposits |= {(hour.start_s, hour.source): hour for hour in hours}
        usage.flushed = False

    def sweep(self, now_us: float) -> None:
        """Forget tenants that were away for so long that nobody flushes their usage any more."""
        oldest = now_us / US - USAGE_TTL_MS / 1000
        self._usage = {member: one for member, one in self._usage.items() if _latest(one) > oldest}


def missed(plan: Plan, fits: tuple[bool, ...], times: int) -> Missed:
    """What the limits that did not fit are to be counted."""
    return {
        (lane_tag(plan.lane), term.id): RefusalCount(
            refused=times * (term.mode is Mode.ENFORCE), observed=times * (term.mode is Mode.OBSERVE)
        )
        for term, fit in zip(plan.asked, fits, strict=True)
        if not fit and term.mode is not Mode.OFF
    }


def _latest(usage: _Usage) -> int:
    return max([usage.running or 0, *(start for start, _ in usage.deposits)])


def _sum(before: LaneCount, more: LaneCount) -> LaneCount:
    return LaneCount(
        before.allowed + more.allowed,
        before.refused + more.refused,
        max(before.peak, more.peak),
        before.cost + more.cost,
    )
