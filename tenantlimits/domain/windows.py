"""The sliding log and the calendar quota: exact counts over a moving window and over a calendar period.

Units are milli-units, times are microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tenantlimits.domain.limits import MAX_LOG_AMOUNT

MARGIN_US = 86_400_000_000.0
"""By so much the end of a period that has begun may lie after the next one of another time zone."""


@dataclass(frozen=True, slots=True)
class Log:
    """At most `amount` in every window of `window_us`."""

    amount: float
    window_us: float


@dataclass(frozen=True, slots=True)
class Entry:
    """`cost` units charged at `at_us`."""

    at_us: float
    cost: float


LogState = tuple[Entry, ...]
"""Oldest first; never more entries than MAX_LOG_AMOUNT."""


def kept(log: Log, entries: LogState, now_us: float) -> LogState:
    """The entries still in the window that ends now.

    After a clock that stepped back the whole log moves back with it: spacing stays, nothing is frozen or forgotten.
    """
    ahead = entries[-1].at_us - now_us if entries else 0.0
    if ahead > 0:
        entries = tuple(Entry(e.at_us - ahead, e.cost) for e in entries)
    return tuple(e for e in entries if e.at_us + log.window_us > now_us)


def total(entries: LogState) -> float:
    """Units in the log."""
    return sum(e.cost for e in entries)


def logged(entries: LogState, now_us: float, cost: float) -> LogState:
    """The log with one entry more. A full log merges its two oldest into the younger: strict, never lax."""
    if len(entries) >= MAX_LOG_AMOUNT:
        first, second, *rest = entries
        entries = (Entry(second.at_us, first.cost + second.cost), *rest)
    return (*entries, Entry(now_us, cost))


def corrected(log: Log, entries: LogState, at_us: float, delta: float) -> LogState:
    """The log with one entry of `at_us` corrected by `delta`; an entry that has left the window stays gone.

    More is charged where it happened, into debt of at most one amount above the limit.
    """
    delta = min(delta, max(0.0, 2 * log.amount - total(entries)))
    for i, entry in enumerate(entries):
        if entry.at_us == at_us:
            return (*entries[:i], replace(entry, cost=max(0.0, entry.cost + delta)), *entries[i + 1 :])
    return entries


def log_wait_us(log: Log, entries: LogState, now_us: float, cost: float) -> float:
    """Microseconds until enough entries have left for `cost` to fit; infinite where it never will."""
    excess = total(entries) + cost - log.amount
    if excess <= 0:
        return 0.0
    if cost > log.amount:
        return math.inf
    for entry in entries:
        excess -= entry.cost
        if excess <= 0:
            return entry.at_us + log.window_us - now_us
    return math.inf


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `amount` in a calendar period: the one that runs at the asking, and the one after it."""

    amount: float
    start_us: float
    end_us: float
    next_end_us: float

    def end_at(self, now_us: float) -> float:
        """When the period of `now_us` ends."""
        return self.end_us if now_us < self.end_us else self.next_end_us


@dataclass(frozen=True, slots=True)
class QuotaState:
    """`used` milli-units in the period that ends at `end_us`.

    A period that has begun runs to its own end: a new time zone or anchor day counts from the next one on. One that
    ends later than any that can have begun is of a clock that has stepped back: what was used counts in that of now.
    """

    used: float = 0.0
    end_us: float = 0.0


def current(quota: Quota, state: QuotaState, now_us: float) -> QuotaState:
    """The state of the period of this moment."""
    if now_us >= state.end_us:
        return QuotaState(0.0, quota.end_at(now_us))
    return QuotaState(state.used, quota.end_at(now_us)) if is_ahead(quota, state) else state


def is_ahead(quota: Quota, state: QuotaState) -> bool:
    """Whether the period ends later than any that can have begun by now."""
    return state.end_us > quota.next_end_us + MARGIN_US


def counted(state: QuotaState, cost: float) -> QuotaState:
    """A current state with `cost` more used."""
    return QuotaState(state.used + cost, state.end_us)


def recounted(quota: Quota, state: QuotaState, *, charged_end_us: float, delta: float) -> QuotaState:
    """A current state with `delta` settled, where the period that was charged still runs."""
    if state.end_us != charged_end_us:
        return state
    used = max(0.0, min(state.used + delta, max(state.used, 2 * quota.amount)))
    return QuotaState(used, state.end_us)


def quota_wait_us(quota: Quota, state: QuotaState, now_us: float, cost: float) -> float:
    """Microseconds until the period ends where `cost` does not fit into it; infinite where it never will."""
    if state.used + cost <= quota.amount:
        return 0.0
    return math.inf if cost > quota.amount else state.end_us - now_us
