"""One limit of a rate kind at a time, over both stores."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tenantlimits.domain.decisions import Code
from tenantlimits.domain.limits import DAY, HOUR, MINUTE, MONTH, SECOND, UNLIMITED, Counts, Mode
from tenantlimits.domain.periods import US, to_us
from tests.engine.builders import BOLT, CEDAR, bucket, counter, log, quota

FIVE_OF_EACH_KIND = pytest.mark.parametrize(
    "limit", [bucket(5, 10), log(5, 10), quota(5, HOUR), counter(5, 10)], ids=lambda one: one.kind
)


@FIVE_OF_EACH_KIND
def test_exactly_the_amount_is_admitted_at_once(caller, limit):
    """C02, C49."""
    acme = caller(limit)

    assert acme.admitted(7) == 5
    assert acme.used(limit.name) == 5


@FIVE_OF_EACH_KIND
@pytest.mark.parametrize("cost", [1, 3, 5])
def test_waiting_as_long_as_told_is_admitted_and_any_shorter_is_not(caller, clock, limit, cost):
    """R2, C13, C14: to the microsecond."""
    acme = caller(limit)
    acme.admit(2)
    clock.step(0.1)
    acme.admit(3)
    refused = acme.admit(cost)
    assert refused.refused

    for less_us in (US, 1):
        clock.now_us = refused.now_us + round(refused.retry_after * US) - less_us
        assert acme.peek(cost).refused
        assert acme.admit(cost).retry_after == pytest.approx(less_us / US)
    clock.now_us = refused.now_us + round(refused.retry_after * US)
    assert acme.admit(cost).allowed


@FIVE_OF_EACH_KIND
def test_the_told_wait_shrinks_as_time_passes(caller, clock, limit):
    """C14."""
    acme = caller(limit)
    acme.admit(5)
    first = acme.admit(5).retry_after

    clock.step(2)

    assert acme.admit(5).retry_after == pytest.approx(first - 2)


@FIVE_OF_EACH_KIND
def test_peek_answers_as_admit_would_and_changes_nothing(caller, limit):
    acme = caller(limit)
    acme.admit(3)

    foretold = [acme.peek(cost) for cost in (1, 2, 3, 6, 1)]
    done = [acme.admit(cost) for cost in (6, 3, 2)]

    assert [one.allowed for one in foretold] == [True, True, False, False, True]
    assert [one.readings[0].used for one in foretold] == [3] * 5
    assert [one.allowed for one in done] == [False, False, True]
    assert foretold[2].retry_after == done[1].retry_after


@FIVE_OF_EACH_KIND
def test_a_cost_above_the_capacity_never_fits_and_consumes_nothing(caller, limit):
    """C49, C50, C51."""
    acme = caller(limit)
    acme.admit(3)

    refused = [acme.admit(cost) for cost in (6, 100, 10**12)]

    assert {one.code for one in refused} == {Code.COST_EXCEEDS_LIMIT}
    assert {one.retry_after for one in refused} == {None}
    assert acme.used(limit.name) == 3


@FIVE_OF_EACH_KIND
def test_a_cost_of_nothing_is_admitted_and_changes_nothing(caller, limit):
    """C55: full, empty and missing."""
    acme = caller(limit)

    missing = acme.admit(0)
    acme.admit(5)
    full = acme.admit(0)

    assert missing.allowed
    assert full.allowed
    assert acme.used(limit.name) == 5


@FIVE_OF_EACH_KIND
def test_fractions_add_up_exactly(caller, limit):
    """C18, C56: costs are counted in thousandths."""
    acme = caller(limit)

    tenths, quarters, thirds = acme.admitted(10, 0.1), acme.admitted(4, 0.25), acme.admitted(3, 1 / 3)

    assert (tenths, quarters, thirds) == (10, 4, 3)
    assert acme.used(limit.name) == 1 + 1 + 0.999
    assert acme.admitted(10, 0.5) == 4


@FIVE_OF_EACH_KIND
def test_varying_costs_do_not_slip_past(caller, limit):
    """C52."""
    acme = caller(limit)

    assert [acme.admit(cost).allowed for cost in (2.5, 2, 0.5, 0.5)] == [True, True, True, False]


@FIVE_OF_EACH_KIND
def test_requests_are_counted_as_one_whatever_they_cost(caller, limit):
    """K1."""
    by_requests = replace(limit, name="r", counts=Counts.REQUESTS)
    acme = caller(by_requests)

    assert acme.admitted(7, cost=50) == 5


@pytest.mark.parametrize("limit", [bucket(0), log(0), quota(0), counter(0)], ids=lambda one: one.kind)
def test_zero_blocks_everything_that_costs(caller, limit):
    """C188."""
    acme = caller(limit)

    assert acme.admit(0.001).code is Code.BLOCKED
    assert acme.admit(0).allowed


@pytest.mark.parametrize(
    "limit", [bucket(UNLIMITED), log(UNLIMITED), quota(UNLIMITED), counter(UNLIMITED)], ids=lambda one: one.kind
)
def test_unlimited_lets_everything_in_and_still_counts(caller, limit):
    """C188."""
    acme = caller(limit)

    assert acme.admitted(200, cost=10**9) == 200
    assert acme.peek().readings[0].remaining == math.inf
    assert acme.used(limit.name) == pytest.approx(200 * 10**9)


@FIVE_OF_EACH_KIND
def test_a_limit_that_observes_refuses_nobody_and_counts_only_what_it_would_have_let_in(caller, limit):
    seen = replace(limit, name="seen", mode=Mode.OBSERVE)
    acme = caller(seen)

    decisions = [acme.admit() for _ in range(8)]

    assert all(one.allowed for one in decisions)
    assert [one.fits[0] for one in decisions] == [True] * 5 + [False] * 3
    assert acme.used("seen") == 5


@FIVE_OF_EACH_KIND
def test_a_limit_that_is_off_neither_refuses_nor_counts(caller, limit):
    off = replace(limit, name="off", mode=Mode.OFF)
    acme = caller(off)

    assert acme.admitted(8) == 8
    assert acme.used("off") == 0


def test_a_calendar_month_starts_at_the_tenants_midnight(caller, clock):
    """C138."""
    clock.now_us = to_us(datetime(2024, 12, 31, 22, 59, tzinfo=UTC))
    acme = caller(quota(5, MONTH), zone=ZoneInfo("Europe/Budapest"))
    acme.admit(5)
    assert acme.admit().retry_after == 60

    clock.step(60)

    assert acme.admitted(6) == 5


@pytest.mark.parametrize(
    ("used_up_at", "seconds"), [("2026-10-24T23:30+00:00", 84_600), ("2027-03-28T00:30+00:00", 77_400)]
)
def test_a_day_that_is_used_up_comes_back_at_local_midnight_over_a_clock_change(caller, clock, used_up_at, seconds):
    """C19, C20: both are 1:30 in Paris."""
    clock.now_us = to_us(datetime.fromisoformat(used_up_at))
    acme = caller(quota(5, DAY), zone=ZoneInfo("Europe/Paris"))
    acme.admit(5)

    refused = acme.admit()

    assert refused.retry_after == seconds
    clock.step(seconds - 1)
    assert acme.admit().refused
    clock.step(1)
    assert acme.admit().allowed


@pytest.mark.parametrize("limit", [bucket(5, HOUR), log(5, HOUR), counter(5, HOUR)], ids=lambda one: one.kind)
def test_five_per_hour_are_not_ten_around_the_full_hour(caller, clock, limit):
    """C15: five calls a second before one o'clock, five a second after it; nor is it forgotten at 1:01."""
    clock.step(HOUR - 1)
    acme = caller(limit)
    assert acme.admitted(5) == 5

    clock.step(2)
    assert acme.admitted(5) == 0

    clock.step(MINUTE)
    assert acme.admitted(5) == 0


def test_a_bucket_refills_and_never_starts_anew(caller, clock):
    """C16: 3 per second, a call every 100 ms for 5 s."""
    acme = caller(bucket(3, SECOND))
    admitted = []

    for _ in range(50):
        admitted.append(acme.admit().allowed)
        clock.step(0.1)

    assert sum(admitted) in (17, 18)
    assert [sum(admitted[second : second + 10]) for second in (10, 20, 30, 40)] == [3, 3, 3, 3]


def test_a_steady_caller_gets_its_units_back(caller, clock):
    """C17: 10 per 30 s, a call every second; thirds of a unit may round the last one away."""
    acme = caller(bucket(10, 30))
    admitted = 0

    for _ in range(31):
        admitted += acme.admit().allowed
        clock.step(1)

    assert admitted in (19, 20)


def test_less_than_a_second_left_is_still_refused(caller, clock):
    """C18."""
    acme = caller(log(1, 10))
    acme.admit()
    clock.step(9.1)

    refused = acme.admit()

    assert refused.refused
    assert refused.retry_after == pytest.approx(0.9)
    assert refused.retry_after_seconds == 1


def test_a_log_is_exact_in_every_window_though_calls_cluster_at_its_edges(caller, clock):
    """R4, C04: refused if, and only if, five calls were made in the ten seconds that end now."""
    acme, made = caller(log(5, 10)), []

    for gap in [0, 0, 0, 9.999999, 0, 0, 0.000001, 0, 0, 0, 9.999999, 0.000001, 0, 0, 0, 0] * 3:
        clock.step(gap)
        in_window = sum(clock() - 10 * US < at for at in made)
        assert acme.admit().allowed == (in_window < 5)
        if in_window < 5:
            made.append(clock())

    assert len(made) > 20


def test_a_log_of_many_small_costs_stays_bounded_and_strict(caller, clock):
    """C58."""
    acme = caller(log(2, MINUTE))

    admitted = 0
    for _ in range(400):
        admitted += acme.admit(0.01).allowed
        clock.step(0.01)

    assert admitted == 200
    assert len(acme.peek().states[0]) == 128


def test_a_counter_counts_what_its_previous_window_still_covers(caller, clock):
    """R9: at a quarter of a window three quarters of the one before."""
    acme = caller(counter(8, 10))
    clock.step(9)
    acme.admit(8)

    clock.step(3.5)

    assert acme.used("sliding_counter") == 6
    assert [acme.admit(cost).allowed for cost in (2.001, 2, 0.001)] == [False, True, False]
    clock.step(7.5)
    assert acme.used("sliding_counter") == 2


def test_a_counter_admits_almost_twice_its_amount_in_a_window_at_worst(caller, clock):
    """R9: all at the end of one window, and the next filled as fast as the estimate lets it."""
    acme, admitted = caller(counter(100, 10)), 0
    clock.step(9.999)
    admitted += acme.admitted(200)

    for _ in range(999):
        clock.step(0.01)
        admitted += acme.admitted(2)

    assert admitted == 199


def test_a_counter_may_refuse_though_the_window_that_ends_now_is_empty(caller, clock):
    """R9: the other side of its error, for use that was all at the start of a window."""
    acme = caller(counter(100, 10))
    acme.admit(100)

    clock.step(10.1)

    assert acme.used("sliding_counter") == 99
    assert acme.admit(2).code is Code.FUSE


def test_a_counter_forgets_after_two_windows(caller, clock):
    acme = caller(counter(5, 10))
    acme.admit(5)
    assert acme.peek(0).readings[0].full == 20
    clock.step(10)
    assert acme.peek(0).readings[0].full == 10

    clock.step(10)

    assert acme.used("sliding_counter") == 0
    assert acme.admitted(7) == 5


@pytest.mark.parametrize("kind", [quota, counter])
def test_the_largest_amounts_are_counted_exactly(caller, kind):
    """C58."""
    acme = caller(kind(10**12))

    acme.admit(10**12 - 1)

    assert acme.admit(1.001).refused
    assert acme.admit(0.999).allowed
    assert acme.admit(0.002).refused
    assert acme.admit(0.001).allowed


def test_two_tenants_never_meet(caller):
    """T2: what acme spends is not missing from bolt's, and cedar sees nothing of either."""
    acme, bolt, cedar = caller(bucket(5)), caller(bucket(5), identity=BOLT), caller(bucket(5), identity=CEDAR)

    acme.admitted(10)
    bolt.admit(2)

    assert (acme.used("token_bucket"), bolt.used("token_bucket"), cedar.used("token_bucket")) == (5, 2, 0)
