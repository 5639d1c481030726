# ruff: noqa: T201 - it prints its table
"""How far a sliding counter is off: `python -m tests.benchmarks.sliding_counter`. A few seconds.

Replays real requests (tests/data) against a sliding counter for every tenant, beside the exact rule: a request fits if
the requests that were let in within the period that ends now leave room for it. A wrong decision is one that the exact
rule would have made otherwise *after the same admissions*: after a wrong decision two limiters of their own would go
separate ways, and every difference that follows would count again. So the counter decides, and the exact rule judges
what the counter itself let in.

Where in a window the bursts lie decides which way a counter errs. So each limit is replayed with its windows beginning
at several moments, spread evenly over one window, and the figures are those of all replays together.
"""

from __future__ import annotations

import csv
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenantlimits.domain.counters import Counter, CounterState, charged, current, estimate, fits
from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import DAY, HOUR, MINUTE, format_amount
from tenantlimits.domain.periods import US
from tests.benchmarks.rows import Row

ABOUT = "how far a sliding counter is off"
TRACE = Path(__file__).parent.parent / "data" / "access-trace.csv"
LIMITS = ((5, 10), (10, MINUTE), (60, HOUR), (100, DAY))
"""Amount and period, per tenant: small, so that each of them refuses some."""
PHASES = 4
START_US = 16_572 * DAY * US
"""A midnight of May 2015, for the trace has no date."""
REFERENCE = "published, over 400 million requests: wrong 0.003 %, mean difference 6 % of the true use (docs/credits.md)"

Request = tuple[int, str]
"""Seconds since the first request, and the tenant."""


@dataclass(slots=True)
class Tally:
    """What was counted of one limit. Differences are those of the estimate from the true use, before each decision."""

    decisions: int = 0
    refused: int = 0
    too_lenient: int = 0
    too_strict: int = 0
    used: int = 0
    """Decisions before which something was used: of those there is a difference in parts of the true use."""
    difference: float = 0.0
    """The sum of those parts."""
    most: float = 0.0
    """The largest difference, in parts of the amount."""

    @property
    def mean_difference(self) -> float:
        """In parts of the true use."""
        return self.difference / self.used if self.used else 0.0

    @property
    def wrong(self) -> float:
        """The part of decisions that were wrong."""
        return (self.too_lenient + self.too_strict) / self.decisions


@dataclass(slots=True)
class _Tenant:
    """A tenant under both rules: the counter's state, and when requests were let in."""

    state: CounterState = field(default_factory=CounterState)
    admitted: deque[float] = field(default_factory=deque)


def trace() -> list[Request]:
    """The requests, in order of time."""
    with TRACE.open(newline="") as file:
        return [(int(row["seconds"]), row["tenant"]) for row in csv.DictReader(file)]


def replayed(requests: Sequence[Request], amount: int, period: int) -> Tally:
    """The decisions of a limit of so many requests per period, for each tenant, in all phases."""
    tally = Tally()
    for phase in range(PHASES):
        _replay(requests, Counter(amount * MILLI, period * US), START_US + phase * period * US / PHASES, tally)
    return tally


def _replay(requests: Iterable[Request], counter: Counter, start_us: float, tally: Tally) -> None:
    tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)
    for seconds, name in requests:
        tenant, now_us = tenants[name], start_us + seconds * US
        tenant.state = current(counter, tenant.state, now_us)
        while tenant.admitted and tenant.admitted[0] <= now_us - counter.period_us:
            tenant.admitted.popleft()
        allowed = fits(counter, tenant.state, MILLI)
        _judge(tally, counter, tenant, allowed=allowed)
        if allowed:
            tenant.state = charged(tenant.state, MILLI)
            tenant.admitted.append(now_us)


def _judge(tally: Tally, counter: Counter, tenant: _Tenant, *, allowed: bool) -> None:
    used = len(tenant.admitted) * MILLI
    is_right = used + MILLI <= counter.amount
    difference = abs(estimate(tenant.state) - used)
    tally.decisions += 1
    tally.refused += not allowed
    tally.too_lenient += allowed and not is_right
    tally.too_strict += is_right and not allowed
    tally.most = max(tally.most, difference / counter.amount)
    if used:
        tally.used += 1
        tally.difference += difference / used


def rows(_bench: object = None) -> Iterator[Row]:
    """R9: wrong decisions and mean difference, in percent, for each limit."""
    requests = trace()
    for amount, period in LIMITS:
        one, what = replayed(requests, amount, period), format_amount(amount, period)
        yield Row("R9", f"sliding counter, {what}: wrong decisions", measured=100 * one.wrong, unit="%")
        difference = 100 * one.mean_difference
        yield Row("R9", f"sliding counter, {what}: mean difference of use", measured=difference, unit="%")


def main() -> None:
    """Measure and print."""
    requests = trace()
    print(
        f"{'limit':10}{'decisions':>10}{'refused':>9}{'too lenient':>13}{'too strict':>12}{'mean diff.':>12}{'most':>7}"
    )
    for amount, period in LIMITS:
        one = replayed(requests, amount, period)
        parts = [one.refused / one.decisions, one.too_lenient / one.decisions, one.too_strict / one.decisions]
        refused, lenient, strict = (f"{100 * part:.2f} %" for part in parts)
        print(
            f"{format_amount(amount, period):10}{one.decisions:10,}{refused:>9}{lenient:>13}{strict:>12}"
            f"{100 * one.mean_difference:10.1f} %{100 * one.most:5.0f} %"
        )
    print("mean diff.: in parts of the true use; most: the largest difference, in parts of the amount")
    print(REFERENCE)


if __name__ == "__main__":
    main()
