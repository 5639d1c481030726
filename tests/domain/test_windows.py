"""The sliding log and the calendar quota as arithmetic."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tenantlimits.domain.windows import (
    Entry,
    Log,
    Quota,
    QuotaState,
    corrected,
    counted,
    current,
    kept,
    log_wait_us,
    logged,
    quota_wait_us,
    recounted,
    total,
)

FIVE_PER_SECOND = Log(amount=5_000, window_us=1_000_000)
DAY = Quota(amount=10_000, start_us=0, end_us=100, next_end_us=200)


def test_an_entry_leaves_exactly_one_window_after_it_was_made():
    entries = (Entry(10, 1_000), Entry(20, 2_000))

    assert total(kept(FIVE_PER_SECOND, entries, 1_000_009)) == 3_000
    assert total(kept(FIVE_PER_SECOND, entries, 1_000_010)) == 2_000
    assert kept(FIVE_PER_SECOND, entries, 1_000_020) == ()


def test_after_a_step_back_of_the_clock_the_whole_log_moves_with_it():
    """C11: nothing is forgotten, and nothing stays for as long as the step."""
    entries = (Entry(60_000_000, 1_000), Entry(60_000_500, 2_000))

    assert kept(FIVE_PER_SECOND, entries, 1_000) == (Entry(500, 1_000), Entry(1_000, 2_000))


def test_a_full_log_counts_its_two_oldest_as_long_as_the_younger():
    entries = tuple(Entry(at, 1) for at in range(128))

    fuller = logged(entries, 500, 7)

    assert len(fuller) == 128
    assert fuller[0] == Entry(1, 2)
    assert fuller[-1] == Entry(500, 7)
    assert total(fuller) == 128 + 7


def test_the_wait_ends_when_enough_entries_have_left():
    """R2."""
    entries = (Entry(0, 1_000), Entry(100, 2_000), Entry(200, 2_000))

    assert log_wait_us(FIVE_PER_SECOND, entries, 300, 1_000) == 999_700
    assert log_wait_us(FIVE_PER_SECOND, entries, 300, 2_000) == 999_800
    assert log_wait_us(FIVE_PER_SECOND, entries, 300, 5_000) == 999_900
    assert log_wait_us(FIVE_PER_SECOND, entries, 300, 5_001) == math.inf
    assert log_wait_us(FIVE_PER_SECOND, (), 300, 5_000) == 0


def test_a_cost_is_corrected_where_it_was_charged():
    """K6."""
    entries = (Entry(10, 1_000), Entry(20, 2_000))

    assert corrected(FIVE_PER_SECOND, entries, 10, -500) == (Entry(10, 500), Entry(20, 2_000))
    assert corrected(FIVE_PER_SECOND, entries, 20, 1_000) == (Entry(10, 1_000), Entry(20, 3_000))
    assert corrected(FIVE_PER_SECOND, entries, 15, -500) == entries


def test_only_one_of_two_operations_of_the_same_microsecond_is_corrected():
    """C54: what another operation was charged is not given back with mine."""
    entries = (Entry(10, 2_000), Entry(10, 2_000))

    assert total(corrected(FIVE_PER_SECOND, entries, 10, -2_000)) == 2_000


def test_a_log_owes_at_most_one_amount():
    """C57."""
    entries = (Entry(10, 5_000),)

    assert total(corrected(FIVE_PER_SECOND, entries, 10, 50_000)) == 10_000
    assert total(corrected(Log(2_000, 1_000_000), entries, 10, 50_000)) == 5_000
    assert total(corrected(FIVE_PER_SECOND, entries, 10, -50_000)) == 0


def test_a_quota_starts_anew_with_the_next_period():
    state = counted(current(DAY, QuotaState(), 50), 4_000)

    assert current(DAY, state, 99) == QuotaState(4_000, end_us=100)
    assert current(DAY, state, 100) == QuotaState(0, end_us=200)


def test_a_period_that_has_begun_runs_to_its_own_end():
    moved_zone = Quota(10_000, start_us=30, end_us=130, next_end_us=230)
    state = QuotaState(4_000, end_us=100)

    assert current(moved_zone, state, 99) == state
    assert current(moved_zone, state, 100) == QuotaState(0, end_us=130)


def test_a_quota_is_settled_only_in_the_period_that_was_charged():
    """K6."""
    assert recounted(DAY, QuotaState(4_000, 100), charged_end_us=100, delta=-1_000) == QuotaState(3_000, 100)
    assert recounted(DAY, QuotaState(4_000, 200), charged_end_us=100, delta=-1_000) == QuotaState(4_000, 200)


def test_a_quota_owes_at_most_one_amount_and_gives_back_at_most_what_was_used():
    """C54, C57."""
    assert recounted(DAY, QuotaState(10_000, 100), charged_end_us=100, delta=50_000).used == 20_000
    assert recounted(DAY, QuotaState(50_000, 100), charged_end_us=100, delta=1_000).used == 50_000
    assert recounted(DAY, QuotaState(4_000, 100), charged_end_us=100, delta=-9_000).used == 0


def test_a_quota_waits_for_the_end_of_its_period():
    """R2, C50."""
    assert quota_wait_us(DAY, QuotaState(10_000, 100), 40, 1) == 60
    assert quota_wait_us(DAY, QuotaState(9_000, 100), 40, 1_000) == 0
    assert quota_wait_us(DAY, QuotaState(0, 100), 40, 10_001) == math.inf


@settings(max_examples=30)
@given(
    costs=st.lists(st.integers(1, 1_000), min_size=1, max_size=160),
    gaps=st.lists(st.integers(0, 20_000), min_size=160, max_size=160),
)
def test_merging_never_forgets_a_unit_before_its_time(costs, gaps):
    """A log of many small costs is strict, never lax: the kept total is at least the exact one."""
    log, now, made, entries = FIVE_PER_SECOND, 0, [], ()
    for cost, gap in zip(costs, gaps, strict=False):
        now += gap
        entries = logged(kept(log, entries, now), now, cost)
        made.append((now, cost))

        exact = sum(cost for at, cost in made if at + log.window_us > now)

        assert total(entries) >= exact
