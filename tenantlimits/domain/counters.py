"""The sliding counter: what was used in the window of now, and a part of what was used in the one before it.

The part is that of the previous window which a window that ends now still covers, as if its use had been spread evenly:
approximate, two numbers however large the amount. Windows are aligned to the epoch. Within any one window of time it
admits less than twice its amount, and never more than the amount in one of its own windows (see `docs/guide.md`).

Units are milli-units, times are microseconds. Both counts are whole numbers, so no comparison needs slack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Counter:
    """About `amount` in every window of `period_us`."""

    amount: float
    period_us: float


@dataclass(frozen=True, slots=True)
class CounterState:
    """`used` milli-units in the window of `at_us`, `before` in the one before it; windows are `period_us` long."""

    used: float = 0.0
    before: float = 0.0
    at_us: float = 0.0
    period_us: float = 1.0


def current(counter: Counter, state: CounterState, now_us: float) -> CounterState:
    """The state of this moment.

    What was counted in windows of another length counts where its last moment lies; after a clock that stepped back
    over the start of a window all counts in the one of now. Both are strict, never lax.
    """
    period_us = counter.period_us
    used, before = _recast(state, period_us)
    windows = (_start(now_us, period_us) - _start(state.at_us, period_us)) / period_us
    if windows < 0:
        used, before = used + before, 0.0
    elif windows == 1:
        used, before = 0.0, used
    elif windows > 1:
        used = before = 0.0
    return CounterState(used, before, now_us, period_us)


def _recast(state: CounterState, period_us: float) -> tuple[float, float]:
    """Used and before, in windows of another length at the same moment."""
    counted_from, start = _start(state.at_us, state.period_us), _start(state.at_us, period_us)
    if counted_from > start:
        return state.used + state.before, 0.0
    return state.used, state.before if counted_from > start - period_us else 0.0


def _start(at_us: float, period_us: float) -> float:
    return at_us - at_us % period_us


def start_us(counter: Counter, now_us: float) -> float:
    """When the window of a moment began."""
    return _start(now_us, counter.period_us)


def _left_us(state: CounterState) -> float:
    """How much of the window before a window that ends now still covers."""
    return _start(state.at_us, state.period_us) + state.period_us - state.at_us


def estimate(state: CounterState) -> float:
    """Milli-units that a current state stands for."""
    return state.used + _part(state)


def _part(state: CounterState) -> float:
    return state.before * _left_us(state) / state.period_us


def fits(counter: Counter, state: CounterState, cost: float) -> bool:
    """Whether `cost` fits into a current state."""
    return _part(state) <= counter.amount - cost - state.used


def charged(state: CounterState, cost: float) -> CounterState:
    """A current state with `cost` more used."""
    return replace(state, used=state.used + cost)


def settled(counter: Counter, state: CounterState, *, charged_start_us: float, delta: float) -> CounterState:
    """A current state with `delta` settled in the window that was charged, while that is one of its two."""
    start = _start(state.at_us, state.period_us)
    if charged_start_us == start:
        return replace(state, used=_corrected(counter, state.used, delta))
    if charged_start_us == start - state.period_us:
        return replace(state, before=_corrected(counter, state.before, delta))
    return state


def _corrected(counter: Counter, used: float, delta: float) -> float:
    """Into debt of at most one amount, or given back."""
    return max(0.0, min(used + delta, max(used, 2 * counter.amount)))


def wait_us(counter: Counter, state: CounterState, cost: float) -> float:
    """Microseconds until `cost` fits into a current state when nobody else spends; infinite where it never will.

    What was used before fades to the end of this window, and what was used in it to the end of the next.
    """
    if fits(counter, state, cost):
        return 0.0
    if cost > counter.amount:
        return math.inf
    left_us, period_us = _left_us(state), state.period_us
    room = counter.amount - cost - state.used
    if room >= 0:
        exact = left_us - room * period_us / state.before
    else:
        exact = left_us + period_us - (counter.amount - cost) * period_us / state.used
    # Rounded down it is never too long; rounding errors are far below a microsecond, so this ends after one or two.
    wait = max(0.0, float(math.floor(exact)))
    while not fits(counter, current(counter, state, state.at_us + wait), cost):
        wait += 1
    return wait


def full_us(state: CounterState) -> float:
    """Microseconds until nothing of a current state counts any more."""
    if state.used:
        return _left_us(state) + state.period_us
    return _left_us(state) if state.before else 0.0
