"""The sliding counter as arithmetic."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantlimits.domain.counters import (
    Counter,
    CounterState,
    charged,
    current,
    estimate,
    fits,
    full_us,
    settled,
    wait_us,
)

TEN_A_SECOND = Counter(amount=10_000, period_us=1_000_000)
HALF_PAST = CounterState(4_000, 6_000, at_us=5_500_000, period_us=1_000_000)
DAY_US = 86_400 * 1_000_000


def test_use_counts_whole_in_its_own_window_and_fades_in_the_next():
    state = charged(current(TEN_A_SECOND, CounterState(), 3_400_000), 8_000)

    seen = {at_us: estimate(current(TEN_A_SECOND, state, at_us)) for at_us in (3_999_999, 4_000_000, 4_250_000)}

    assert seen == {3_999_999: 8_000, 4_000_000: 8_000, 4_250_000: 6_000}
    assert current(TEN_A_SECOND, state, 5_000_000) == CounterState(0, 0, 5_000_000, 1_000_000)


def test_what_was_used_in_both_windows_counts_together():
    assert estimate(HALF_PAST) == 7_000
    assert fits(TEN_A_SECOND, HALF_PAST, 3_000)
    assert not fits(TEN_A_SECOND, HALF_PAST, 3_001)


def test_a_wait_within_the_window_is_for_what_was_used_before():
    """R2."""
    assert wait_us(TEN_A_SECOND, HALF_PAST, 3_000) == 0
    assert wait_us(TEN_A_SECOND, HALF_PAST, 4_500) == 250_000
    assert wait_us(TEN_A_SECOND, HALF_PAST, 6_000) == 500_000


def test_a_wait_over_the_border_is_for_what_was_used_in_this_window():
    """R2: 4,000 of this window have to fade to 3,000, 0, or for ever."""
    assert wait_us(TEN_A_SECOND, HALF_PAST, 7_000) == 500_000 + 250_000
    assert wait_us(TEN_A_SECOND, HALF_PAST, 10_000) == 500_000 + 1_000_000
    assert wait_us(TEN_A_SECOND, HALF_PAST, 10_001) == math.inf


def test_nothing_counts_any_more_when_the_last_window_with_use_has_faded():
    assert full_us(HALF_PAST) == 1_500_000
    assert full_us(CounterState(0, 6_000, 5_500_000, 1_000_000)) == 500_000
    assert full_us(CounterState(0, 0, 5_500_000, 1_000_000)) == 0


def test_after_a_step_back_over_the_start_of_its_window_everything_counts_in_that_of_now():
    """C10, C11: nothing is forgotten, and nothing stays longer than two windows."""
    stepped = current(TEN_A_SECOND, HALF_PAST, 2_900_000)

    assert stepped == CounterState(10_000, 0, 2_900_000, 1_000_000)
    assert current(TEN_A_SECOND, HALF_PAST, 5_100_000) == CounterState(4_000, 6_000, 5_100_000, 1_000_000)


@pytest.mark.parametrize(
    ("period_us", "used", "before"),
    [
        (1_000_000, 4_000, 6_000),
        (2_000_000, 10_000, 0),  # 4 s to 6 s holds all of it
        (5_000_000, 4_000, 6_000),  # one window ends where the other begins
        (750_000, 4_000, 6_000),  # what was used before ends at 5 s, in 4.5 s to 5.25 s
        (500_000, 4_000, 0),  # and here just before 5 s to 5.5 s
        (200_000, 4_000, 0),  # what was used before is older than 5.2 s
    ],
)
def test_windows_of_another_length_count_where_the_last_moment_of_their_use_lies(period_us, used, before):
    """C32: strict, whichever way the length changed."""
    state = current(Counter(10_000, period_us), HALF_PAST, 5_500_000)

    assert (state.used, state.before) == (used, before)


def test_a_cost_is_settled_in_the_window_that_was_charged():
    """K6."""
    now, before, older = 5_000_000, 4_000_000, 3_000_000

    def after(start_us, delta):
        state = settled(TEN_A_SECOND, HALF_PAST, charged_start_us=start_us, delta=delta)
        return state.used, state.before

    assert after(now, -1_000) == (3_000, 6_000)
    assert after(before, -1_000) == (4_000, 5_000)
    assert after(older, -1_000) == (4_000, 6_000)
    assert after(now, -9_000) == (0, 6_000)


def test_a_window_owes_at_most_one_amount():
    """C57: and a lower amount takes nothing from what is owed already."""
    assert settled(TEN_A_SECOND, HALF_PAST, charged_start_us=5_000_000, delta=90_000).used == 20_000
    assert settled(TEN_A_SECOND, HALF_PAST, charged_start_us=4_000_000, delta=90_000).before == 20_000
    lower = Counter(1_000, 1_000_000)
    assert settled(lower, HALF_PAST, charged_start_us=5_000_000, delta=90_000).used == 4_000


AMOUNTS = st.integers(1, 50_000) | st.integers(1, 10**15)
PERIODS_US = st.sampled_from([1, 3, 60, 3600, 7 * 3600 + 1]).map(lambda seconds: seconds * 1_000_000) | st.sampled_from(
    [DAY_US, 366 * DAY_US]
)


@settings(max_examples=300)
@given(st.data(), AMOUNTS, PERIODS_US)
def test_a_wait_is_enough_to_the_microsecond_and_no_longer(data, amount, period_us):
    """R2, C13, C14: for every amount and period there may be, in debt too, on either side of a border."""
    counter = Counter(amount, period_us)
    used, before = (data.draw(st.integers(0, 2 * amount)) for _ in range(2))
    at_us = 1_796_040_000_000_000 + data.draw(st.integers(0, 2 * period_us))
    state, cost = CounterState(used, before, at_us, period_us), data.draw(st.integers(1, amount))

    wait = wait_us(counter, state, cost)

    assert 0 <= wait <= 2 * period_us
    assert fits(counter, current(counter, state, at_us + wait), cost)
    if wait:
        assert not fits(counter, current(counter, state, at_us + wait - 1), cost)
