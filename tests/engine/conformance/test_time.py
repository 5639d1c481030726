"""A clock that steps, over both stores."""

import pytest

from tenantlimits.domain.limits import DAY, HOUR, MINUTE
from tests.engine.builders import bucket, cap, counter, log, quota

MOVING = pytest.mark.parametrize("limit", [bucket(4, 2), log(4, 2), counter(4, 2)], ids=lambda one: one.kind)
RATES = pytest.mark.parametrize(
    "limit", [bucket(4, 2), log(4, 2), quota(4, HOUR), counter(4, 2)], ids=lambda one: one.kind
)


@RATES
def test_a_clock_that_goes_back_again_and_again_refills_nothing(caller, clock, limit):
    """C10."""
    acme, admitted = caller(limit), 0

    for _ in range(10):
        admitted += acme.admit().allowed
        clock.step(-10)

    assert admitted == 4


@MOVING
def test_after_a_step_back_nothing_is_frozen_and_no_wait_grows_with_the_step(caller, clock, limit):
    """C11: the state stands a minute in the future, as after a failover to a server with a slower clock."""
    acme = caller(limit)
    acme.admit(1)

    clock.step(-MINUTE)
    admitted, refused = acme.admitted(5), acme.admit()

    assert admitted == 3
    assert 0 < refused.retry_after <= limit.full_period_seconds
    clock.step(refused.retry_after)
    assert acme.admit().allowed


@MOVING
def test_a_refusal_after_a_step_back_starts_time_again_too(caller, clock, limit):
    """C11: somebody who only gets refusals must not stay frozen until the clock has caught up."""
    acme = caller(limit)
    acme.admit(4)

    clock.step(-MINUTE)
    wait = acme.admit().retry_after
    assert wait <= limit.full_period_seconds
    clock.step(wait)

    assert acme.admit().allowed


def test_after_a_step_back_a_counter_has_all_it_knows_in_the_window_of_now(caller, clock):
    """C10, C11: strict, for nobody knows how much of the previous window a window that ends now would still cover."""
    acme = caller(counter(4, 2))
    acme.admit(3)
    clock.step(3)
    acme.admit(2)
    assert acme.used("sliding_counter") == 1.5 + 2

    clock.step(-1.5)
    assert acme.admit().readings[0].used == 3 + 2

    clock.step(1)
    assert acme.used("sliding_counter") == 5 * 0.75


def test_a_counter_takes_a_small_step_back_within_its_window_as_it_is(caller, clock):
    """C11."""
    acme = caller(counter(4, 2))
    clock.step(1)
    acme.admit(3)

    clock.step(-0.5)
    acme.admit(1)

    assert acme.used("sliding_counter") == 4


def test_an_hour_forward_gains_one_bucket_at_most(caller, clock):
    """C11."""
    acme = caller(bucket(10, 10))
    acme.admit(10)

    clock.step(HOUR)

    assert acme.admitted(15) == 10


def test_a_step_back_does_not_keep_a_lost_holders_slot_for_as_long_as_the_step(caller, clock):
    """C11, C66."""
    acme = caller(cap(1))
    acme.hold()

    clock.step(-HOUR)
    assert acme.hold()[0].refused
    clock.step(15)

    assert acme.hold()[0].allowed


def test_after_a_step_forward_live_holders_get_their_slots_back_at_their_next_renewal(caller, clock):
    """C11: instead of doubling the load."""
    acme = caller(cap(2))
    leases = [acme.hold()[1] for _ in range(2)]

    clock.step(HOUR)
    renewed = acme.renew(*leases, again=True)

    assert renewed == (True, True)
    assert acme.hold()[0].refused


def test_a_day_that_was_used_up_stays_so_when_the_clock_goes_back(caller, clock):
    """C11."""
    acme = caller(quota(3, DAY))
    acme.admit(3)

    clock.step(-HOUR)

    assert acme.admit().refused
    assert acme.admit().retry_after == 13 * HOUR


@pytest.mark.parametrize("period", [HOUR, DAY])
def test_a_quota_is_not_used_up_for_a_year_when_the_clock_was_a_year_ahead(caller, clock, period):
    """C11: what was used counts in the period of now, and no longer."""
    clock.step(365 * DAY)
    acme = caller(quota(3, period))
    acme.admit(3)

    clock.step(-365 * DAY)
    refused = acme.admit()

    assert refused.refused
    assert refused.retry_after <= period
    clock.step(refused.retry_after)
    assert acme.admitted(4) == 3


def test_a_period_that_was_begun_goes_on_when_the_clock_steps_back_over_its_start(caller, clock):
    """C11."""
    acme = caller(quota(3, HOUR))
    acme.admit(3)

    clock.step(-1)

    assert acme.admit().refused
    clock.step(HOUR + 1)
    assert acme.admit().allowed
