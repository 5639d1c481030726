"""Costs that are corrected afterwards, over both stores."""

import pytest

from tenantlimits.domain.limits import DAY, HOUR, Counts, Mode
from tenantlimits.domain.plans import Stamps
from tenantlimits.engine.base import Status
from tests.engine.builders import NOON, bucket, cap, counter, log, overridden, quota

TEN_OF_EACH_KIND = pytest.mark.parametrize(
    "limit", [bucket(10, 10), log(10, 10), quota(10, HOUR), counter(10, 10)], ids=lambda one: one.kind
)


@TEN_OF_EACH_KIND
def test_what_the_work_really_cost_is_charged_or_given_back(caller, limit):
    """K6."""
    acme = caller(limit)
    first, second = acme.admit(2), acme.admit(3)

    assert acme.settle(first, +4) is Status.ALLOWED
    assert acme.used(limit.name) == 9
    acme.settle(second, -2.5)
    assert acme.used(limit.name) == 6.5


@TEN_OF_EACH_KIND
def test_a_debt_is_at_most_one_capacity_and_is_waited_for(caller, clock, limit):
    """C57: also many operations together owe no more."""
    acme = caller(limit)
    admissions = [acme.admit(1) for _ in range(10)]

    for one in admissions:
        acme.settle(one, +9)

    assert acme.used(limit.name) == 20
    refused = acme.admit(1)
    clock.step(refused.retry_after - 0.001)
    assert acme.admit(1).refused
    clock.step(0.001)
    assert acme.admit(1).allowed


@TEN_OF_EACH_KIND
def test_giving_back_stops_at_nothing_used(caller, limit):
    """C54."""
    acme = caller(limit)
    one = acme.admit(10)

    acme.settle(one, -3)
    assert acme.used(limit.name) == 7
    acme.settle(one, -100)

    assert acme.used(limit.name) == 0
    assert acme.admitted(12) == 10


@TEN_OF_EACH_KIND
def test_only_what_was_charged_is_settled(caller, limit):
    """K6: not what counts requests, is off, only observed and did not fit, or has come since."""
    before = (
        limit,
        bucket(50, name="requests", counts=Counts.REQUESTS),
        bucket(50, name="off", mode=Mode.OFF),
        bucket(4, name="seen", mode=Mode.OBSERVE),
    )
    acme = caller(*before)
    acme.admit(3)
    one = acme.admit(2)
    acme.change(*before, bucket(50, name="later"))

    acme.settle(one, -1)
    acme.settle(one, +3)

    used = {name: acme.used(name) for name in ("requests", "off", "seen", "later")}
    assert used == {"requests": 2, "off": 0, "seen": 3, "later": 0}
    assert acme.used(limit.name) == 7


def test_an_operation_that_has_left_the_window_is_settled_no_more(caller, clock):
    """K6."""
    acme = caller(log(10, 10))
    old = acme.admit(4)
    clock.step(10)
    acme.admit(5)

    acme.settle(old, -4)

    assert acme.used("sliding_log") == 5


def test_a_period_that_has_ended_is_settled_no_more(caller, clock):
    """K6."""
    acme = caller(quota(10, HOUR))
    old = acme.admit(4)
    clock.step(HOUR)
    acme.admit(5)

    acme.settle(old, -4)

    assert acme.used("calendar_quota") == 5


def test_a_counter_is_settled_in_the_window_that_was_charged(caller, clock):
    """K6: in that of now, in the one before, and no more after that."""
    acme = caller(counter(10, 10))
    first = acme.admit(4)
    clock.step(15)
    second = acme.admit(5)
    assert acme.used("sliding_counter") == 2 + 5

    acme.settle(first, -3)
    assert acme.used("sliding_counter") == 0.5 + 5
    acme.settle(second, +1)
    assert acme.used("sliding_counter") == 0.5 + 6

    clock.step(10)
    acme.settle(first, -1)
    assert acme.used("sliding_counter") == 3


def test_a_counter_owes_at_most_one_amount_in_each_of_its_windows(caller, clock):
    """C57: whatever was charged afterwards, it is repaid after two windows."""
    acme = caller(counter(10, 10))
    first = acme.admit(10)
    clock.step(10)

    for _ in range(5):
        acme.settle(first, +10)

    assert acme.used("sliding_counter") == 20
    assert acme.admit(10).retry_after == 10


def test_one_of_two_operations_of_the_same_microsecond_is_settled(caller):
    """K6, C05."""
    acme = caller(log(10, 10))
    first, _ = acme.admit(4), acme.admit(4)

    acme.settle(first, -4)

    assert acme.used("sliding_log") == 4


def test_what_is_charged_after_the_work_is_bounded(caller):
    """C57: reserve 1, cost 10, limit 50, 40 at once: the debt is one burst, not 350."""
    acme = caller(bucket(50))
    admissions = [acme.admit(1) for _ in range(40)]

    for one in admissions:
        acme.settle(one, +9)

    assert acme.used("token_bucket") == 100


def test_a_lower_limit_forgives_a_debt_down_to_its_own(caller):
    """C26."""
    acme = caller(bucket(50))
    one = acme.admit(50)
    acme.settle(one, +50)

    acme.change(bucket(10))
    acme.settle(one, +1)

    assert acme.used("token_bucket") == 20


def test_settling_counts_in_usage_and_takes_no_slot(caller):
    """K6, V3."""
    acme = caller(bucket(50), cap(2))
    one = acme.admit(5)

    acme.settle(one, +2.5)

    assert acme.used("concurrency") == 0


def test_settling_on_an_outdated_policy_changes_nothing(caller):
    """R3: the process builds its policy anew and settles then."""
    acme = caller(bucket(50))
    acme.begin()
    one = acme.admit(5)
    moved, ended = caller(bucket(50)), caller(overridden(bucket(50), bucket(60), until=NOON))
    moved.stamps = Stamps(b"another.", acme.stamps.shard)

    assert moved.settle(one, +5) is Status.STALE
    assert ended.settle(one, +5) is Status.OUTSIDE
    assert acme.used("token_bucket") == 5


def test_a_settled_day_is_the_day_that_was_charged(caller, clock):
    """K6, C20."""
    acme = caller(quota(10, DAY))
    clock.step(12 * HOUR - 1)
    yesterday = acme.admit(6)
    clock.step(1)
    today = acme.admit(6)

    acme.settle(yesterday, -6)
    acme.settle(today, +1)

    assert acme.used("calendar_quota") == 7
