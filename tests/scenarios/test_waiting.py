"""Waiting as long as told, in real time.

Two milliseconds are added to every wait: time.sleep counts on the monotonic clock, Redis on the wall clock, and a
machine that is being brought in step with its time server may let them differ by half a thousandth.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tenantlimits.domain.periods import US
from tenantlimits.domain.windows import Quota
from tests.engine.builders import Caller, bucket, counter, log, plan_of, quota, redis_engine
from tests.scenarios import calls

MARGIN_SECONDS = 0.002


@pytest.fixture
def engine(redis_url, key_prefix):
    store = redis_engine(redis_url, key_prefix)
    yield store
    store.close()


@pytest.fixture
def now(redis_client) -> Callable[[], float]:
    """The server's clock, in microseconds."""

    def server_us() -> float:
        seconds, micros = redis_client.time()
        return seconds * US + micros

    return server_us


def waited_for(caller: Caller) -> float:
    """When the caller was admitted, having slept as long as every refusal said."""
    while (decision := caller.admit()).refused:
        time.sleep(decision.retry_after + MARGIN_SECONDS)
    return decision.now_us


def test_thirty_calls_that_wait_as_told_break_neither_of_two_limits(engine, now):
    """R4, R6: each sleeps the decision's retry_after and asks again; judged by the server's clock."""
    caller = Caller(engine, now, calls.LIMITS)
    caller.plan()

    with ThreadPoolExecutor(calls.CALLS) as pool:
        sent_us = sorted(pool.map(lambda _: waited_for(caller), range(calls.CALLS)))

    assert calls.violations(sent_us) == 0
    assert 6 <= (sent_us[-1] - sent_us[0]) / US < 8


def test_asking_one_limit_after_the_other_would_break_them():
    """R4: the test of the test. By the time the second lets a call in, the first has recorded another instant."""
    assert calls.violations(calls.sent_one_after_the_other()) > 0
    assert calls.violations(calls.sent_in_one_decision()) == 0


def ending_quota(now_us: float):
    """A plan with a calendar quota whose period ends in three seconds."""
    plan = plan_of([quota(1)], now_us=now_us)
    (term,) = plan.terms
    spec = Quota(1000, now_us - US, now_us + 3 * US, now_us + 6 * US)
    return replace(plan, terms=(replace(term, spec=spec),), valid_from_us=0, valid_until_us=now_us + 6 * US)


LIMITS = {
    "token_bucket": bucket(1, 3),
    "sliding_log": log(1, 3),
    "calendar_quota": quota(1),
    "sliding_counter": counter(1, 2),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_waiting_retry_after_is_admitted_and_a_second_less_is_not(engine, now, kind):
    """R2: once for real."""
    limit = LIMITS[kind]
    longest = 3 if kind == "calendar_quota" else limit.full_period_seconds
    caller = Caller(engine, now, [limit])
    if kind == "calendar_quota":
        caller.plans["reads"] = ending_quota(now())
    assert caller.admit().allowed

    refused = caller.admit()
    assert 1.9 < refused.retry_after <= longest + 0.001
    time.sleep(refused.retry_after - 1)
    a_second_early = caller.admit()
    time.sleep(a_second_early.retry_after + MARGIN_SECONDS)

    assert a_second_early.refused
    assert caller.admit().allowed
