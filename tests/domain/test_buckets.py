"""The token bucket as arithmetic; the stores' tests hold its promises against real sequences."""

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from tenantlimits.domain.buckets import SLACK, Bucket, BucketState, charged, drained, fits, settled, wait_us

TEN_PER_SECOND = Bucket(burst=10_000, per_us=10_000 / 1e6)

TEN_YEARS_US = 10 * 366 * 86_400 * 1e6
buckets = st.builds(
    lambda burst, amount, seconds: Bucket(burst * 1000, amount * 1000 / (seconds * 1e6)),
    st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from([1, 3, 60, 3600, 86_400]),
).filter(lambda bucket: bucket.burst / bucket.per_us < TEN_YEARS_US)  # fmt: skip


def test_use_drains_at_the_rate_and_stops_at_nothing():
    state = BucketState(10_000, at_us=0)

    assert drained(TEN_PER_SECOND, state, 300_000).used == 7_000
    assert drained(TEN_PER_SECOND, state, 5_000_000).used == 0


def test_a_clock_that_steps_back_neither_drains_nor_freezes():
    """C10, C11."""
    state = BucketState(10_000, at_us=60_000_000)

    stepped = drained(TEN_PER_SECOND, state, 1_000_000)

    assert stepped == BucketState(10_000, 1_000_000)
    assert drained(TEN_PER_SECOND, stepped, 1_500_000).used == 5_000


def test_a_lower_burst_forgives_what_is_above_it():
    assert drained(Bucket(4_000, 1e-3), BucketState(9_000, at_us=0), 0).used == 4_000


def test_debt_is_at_most_one_burst_and_survives_until_it_is_repaid():
    """C57."""
    in_debt = settled(TEN_PER_SECOND, BucketState(10_000, at_us=0), 50_000)

    assert in_debt == BucketState(20_000, 0, in_debt=True)
    assert drained(TEN_PER_SECOND, in_debt, 500_000) == BucketState(15_000, 500_000, in_debt=True)
    assert drained(TEN_PER_SECOND, in_debt, 1_000_000) == BucketState(10_000, 1_000_000, in_debt=False)


def test_giving_back_stops_at_nothing_used():
    """C54."""
    assert settled(TEN_PER_SECOND, BucketState(10_000, 0), -3_000).used == 7_000
    assert settled(TEN_PER_SECOND, BucketState(10_000, 0), -100_000).used == 0


def test_what_can_never_fit_has_no_wait():
    """C50."""
    assert wait_us(TEN_PER_SECOND, 0, 10_001) == math.inf
    assert wait_us(Bucket(0, 0), 0, 1) == math.inf
    assert wait_us(TEN_PER_SECOND, 0, 10_000) == 0


@given(bucket=buckets, fill=st.floats(0, 2), share=st.floats(0.001, 1), at_us=st.integers(10**15, 2 * 10**15))
def test_waiting_as_told_is_enough_and_hardly_a_microsecond_too_long(bucket, fill, share, at_us):
    """R2: but for the slack that rounding is given, which matters where a unit takes days."""
    cost = max(1, math.floor(bucket.burst * share))
    state = BucketState(bucket.burst * fill, at_us, in_debt=fill > 1)
    wait = wait_us(bucket, state.used, cost)
    assume(wait > 0)

    assert fits(bucket, drained(bucket, state, at_us + wait), cost)
    assert not fits(bucket, drained(bucket, state, at_us + wait - 3 - 2 * SLACK / bucket.per_us), cost)


@given(bucket=buckets, cost=st.integers(0, 10**9))
def test_charging_is_what_asking_foretold(bucket, cost):
    state = BucketState(0, 1)

    assert fits(bucket, state, cost) == (charged(state, cost).used <= bucket.burst)
