"""R4: thirty calls at once through two sliding logs, each waiting as long as it is told."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tenantlimits.domain.periods import US
from tenantlimits.engine.memory import MemoryEngine
from tests.engine.builders import Caller, Clock, log

CALLS = 30
FIVE_A_SECOND, TWELVE_IN_THREE = log(5, 1, name="second"), log(12, 3, name="three")
LIMITS = (FIVE_A_SECOND, TWELVE_IN_THREE)


def sent_one_after_the_other() -> list[float]:
    """On a clock of our own: when each call was sent that asks one limit, then the other."""
    clock = Clock()
    return _sent(clock, [Caller(MemoryEngine(clock=clock), clock, [limit]) for limit in LIMITS])


def sent_in_one_decision() -> list[float]:
    """The same where one decision asks both."""
    clock = Clock()
    return _sent(clock, [Caller(MemoryEngine(clock=clock), clock, LIMITS)])


def _sent(clock: Clock, stages: Sequence[Caller]) -> list[float]:
    """When each of the calls has passed all stages, in microseconds.

    From one stage to the next it is a round trip, of which no two take the same time.
    """
    waiting: list[tuple[float, int, int]] = [(clock.now_us, call, 0) for call in range(CALLS)]
    sent_us: list[float] = []
    while waiting:
        clock.now_us, call, stage = heapq.heappop(waiting)
        decision = stages[stage].admit()
        if decision.refused:
            heapq.heappush(waiting, (clock.now_us + round(decision.retry_after * US), call, stage))
        elif stages[stage] is stages[-1]:
            sent_us.append(clock.now_us)
        else:
            round_trip_us = 1000 + 1000 * (call * 5 % 13)
            heapq.heappush(waiting, (clock.now_us + round_trip_us, call, stage + 1))
    return sent_us


def violations(sent_us: Sequence[float]) -> int:
    """How many windows held more than they may: 5 in a second, 12 in three."""
    return sum(
        sum(start <= at < start + (limit.period_seconds or 0) * US for at in sent_us) > limit.amount
        for limit in LIMITS
        for start in sent_us
    )
