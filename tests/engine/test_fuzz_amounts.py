"""The smallest and the largest numbers that a limit, a cost and a clock can have, through Valkey and through memory."""

import itertools
import os
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenantlimits.domain.limits import (
    DAY,
    HOUR,
    MAX_AMOUNT,
    MAX_LOG_AMOUNT,
    MAX_PERIOD,
    MINUTE,
    MONTH,
    UNLIMITED,
    Kind,
    Layer,
    Limit,
    Mode,
    validated,
)  # fmt: skip
from tenantlimits.domain.periods import US, to_us
from tenantlimits.engine.keys import Identity
from tenantlimits.engine.memory import MemoryEngine
from tests.engine.builders import NOON, Caller, bucket, cap, counter, log, quota, redis_engine

SOME = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
AMOUNTS = st.sampled_from([0, 1, 2, 999_999_999_999, MAX_AMOUNT, UNLIMITED])
PERIODS = st.sampled_from([1, 7, MINUTE, DAY, MAX_PERIOD - 1, MAX_PERIOD])
COSTS = st.sampled_from([0, 0.001, 0.002, 0.999, 1, 2, 128, MAX_AMOUNT / 2, MAX_AMOUNT - 0.001, MAX_AMOUNT])
STEPS = st.sampled_from([0, 1e-6, 0.001, 1, DAY, MAX_PERIOD, 3 * MAX_PERIOD, -1e-6, -1, -MAX_PERIOD])
_number = itertools.count()


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    """One that may be saved, of any kind."""
    kind, amount, period = draw(st.sampled_from(Kind)), draw(AMOUNTS), draw(PERIODS)
    mode = draw(st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE]))
    if kind is Kind.TOKEN_BUCKET:
        burst = draw(st.sampled_from([None, 1, MAX_AMOUNT])) if 0 < amount < UNLIMITED else None
        limit = bucket(amount, period, burst=burst)
    elif kind is Kind.SLIDING_LOG:
        limit = log(amount if amount == UNLIMITED else min(amount, MAX_LOG_AMOUNT), period)
    elif kind is Kind.SLIDING_COUNTER:
        limit = counter(amount, period)
    elif kind is Kind.CALENDAR_QUOTA:
        limit = quota(amount, draw(st.sampled_from([HOUR, DAY, MONTH])))
    else:
        limit = cap(amount)
    return validated(replace(limit, mode=mode, layer=draw(st.sampled_from(Layer))))


TIERS = st.lists(limits(), min_size=1, max_size=4).map(
    lambda tier: [replace(one, name=f"l{number}") for number, one in enumerate(tier)]
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(["admit", "admit", "hold", "settle", "peek", "change"]), COSTS, STEPS), max_size=14
)


@SOME
@given(tiers=st.tuples(TIERS, TIERS), events=EVENTS)
def test_both_stores_agree_at_the_edges_and_every_answer_can_be_told(own_valkey, key_prefix, clock, tiers, events):
    """C52, C58, C188: 0, a thousandth, 10^12, unlimited, a year; and every number of an answer is one."""
    clock.now_us = to_us(NOON)
    who = Identity(tenant=f"t{next(_number)}", user="u", credential="c")
    stores = MemoryEngine(clock=clock), redis_engine(own_valkey, key_prefix, clock)
    callers = [Caller(store, clock, tiers[0], identity=who) for store in stores]
    last: list[Any] = []
    for event, cost, step in events:
        lease = os.urandom(8) if event == "hold" else None
        clock.step(step)
        if event == "change":
            for one in callers:
                one.change(*tiers[1])
        elif event == "settle" and last and last[0].plan is callers[0].plan() and last[0].allowed:
            statuses = [one.settle(decision, cost - 1) for one, decision in zip(callers, last, strict=True)]
            assert statuses[0] == statuses[1]
        elif event == "peek":
            told([one.peek(cost) for one in callers])
        else:
            last = [one.admit(cost, lease=lease) for one in callers]
            told(last)
    stores[1].close()


def told(decisions: list[Any]) -> None:
    """The same from both, in numbers that are numbers."""
    facts = [(one.allowed, one.now_us, one.fits, one.states, one.code, one.retry_after) for one in decisions]
    assert facts[0] == facts[1], [one.limit for one in decisions[0].readings]
    decision = decisions[1]
    assert decision.summary()
    assert (decision.retry_after_seconds is None) == (decision.refused and decision.never)
    for one in decision.readings:
        assert one.used >= 0
        assert one.remaining >= 0
        assert all(wait is None or wait >= 0 for wait in (one.wait, one.next_unit, one.full))


@SOME
@given(limit=limits(), costs=st.lists(COSTS, min_size=1, max_size=6))
def test_what_is_promised_at_the_edges_is_kept(own_valkey, key_prefix, clock, limit, costs):
    """R2, R6, C13, C50: never is never, and after any other wait the operation is admitted."""
    clock.now_us = to_us(NOON)
    store = redis_engine(own_valkey, key_prefix, clock)
    acme = Caller(store, clock, [limit], identity=Identity(tenant=f"t{next(_number)}", user="u", credential="c"))
    for cost in costs:
        decision = acme.admit(cost)
        if not decision.refused or decision.readings[0].wait is None:
            continue
        if decision.never:
            assert limit.amount == 0 or cost > limit.capacity
        elif decision.retry_after * US < 2**52:  # an instant that far ahead has no microseconds any more
            clock.step(decision.retry_after)
            assert acme.admit(cost).allowed
    store.close()
