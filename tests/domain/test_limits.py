"""What a limit is, and how staff write it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantlimits.domain.errors import InvalidLimit
from tenantlimits.domain.limits import (
    DAY,
    HOUR,
    MAX_AMOUNT,
    MAX_PERIOD,
    MINUTE,
    MONTH,
    SECOND,
    UNLIMITED,
    WEEK,
    Guarantee,
    LimitInForce,
    Mode,
    format_amount,
    mildest,
    parse_amount,
    validated,
)
from tests.engine.builders import NOON, bucket, cap, counter, log, overridden, quota


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("500/min", (500, MINUTE)),
        ("10/s", (10, SECOND)),
        ("12/3s", (12, 3)),
        ("10000/day", (10_000, DAY)),
        ("1,000 per 2 hours", (1000, 2 * HOUR)),
        ("10_000 / week", (10_000, WEEK)),
        (" 1 000/MONTH ", (1000, MONTH)),
        ("0/s", (0, SECOND)),
        ("6", (6, None)),
        ("6 at once", (6, None)),
        ("unlimited", (UNLIMITED, None)),
        (" Unlimited ", (UNLIMITED, None)),
        (f"{MAX_AMOUNT}/s", (MAX_AMOUNT, SECOND)),
    ],
)
def test_a_limit_is_typed_as_amount_and_period(text, meaning):
    assert parse_amount(text) == meaning


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("lots", "write amount/period, such as 500/min"),
        ("", "write amount/period"),
        ("500/fortnight", "periods: s, min, h, day, week, month"),
        ("-5/s", "write amount/period"),
        ("1e3/s", "write amount/period"),
        ("12/0s", "at least 1 second"),
        (f"12/{'9' * 5000}s", "write amount/period"),
        ("1.2.3/s", "'1.2.3' is not a number"),
        ("._/s", "'._' is not a number"),
        ("9" * 5000, "is not a number"),
        (f"{MAX_AMOUNT + 1}/s", "write unlimited to lift the limit"),
        ("0.05/s", "Write 3/min, which is the same rate"),
        ("1.5/min", "Write 90/h, which is the same rate"),
        ("0.5/day", "amounts are whole units."),
        ("1.000/min", "write the number without a point"),
        ("2.5", "amounts are whole units."),
    ],
)
def test_a_text_that_is_no_limit_is_answered_with_what_to_write(text, advice):
    with pytest.raises(InvalidLimit) as caught:
        parse_amount(text)

    assert advice in str(caught.value)


@given(
    amount=st.integers(0, MAX_AMOUNT) | st.just(UNLIMITED),
    period=st.none() | st.integers(1, MAX_PERIOD) | st.sampled_from([SECOND, MINUTE, HOUR, DAY, WEEK, MONTH]),
)
def test_what_is_shown_can_be_typed_again(amount, period):
    written = format_amount(amount, period)

    assert parse_amount(written) == (amount, None if amount == UNLIMITED else period)


@pytest.mark.parametrize(
    "limit",
    [
        bucket(500),
        bucket(500, burst=1),
        bucket(500, burst=2000),
        bucket(0),
        bucket(0, burst=0),
        bucket(UNLIMITED),
        bucket(MAX_AMOUNT, MAX_PERIOD),
        log(128),
        log(UNLIMITED),
        quota(10_000, MONTH, anchor_day=31),
        counter(10_000),
        counter(UNLIMITED),
        cap(6),
    ],
    ids=str,
)
def test_a_limit_that_means_something_is_accepted(limit):
    assert validated(limit) is limit


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        (bucket(-1), "a whole number from 0"),
        (bucket(math.nan), "a whole number from 0"),
        (bucket(-math.inf), "a whole number from 0"),
        (bucket(2.5), "a whole number from 0"),
        (bucket(MAX_AMOUNT + 1), "or unlimited"),
        (bucket(5, burst=0), "write amount 0 to block"),
        (bucket(5, burst=2.5), "the burst is a whole number"),
        (bucket(5, burst=UNLIMITED), "make the amount unlimited"),
        (bucket(5, period=0), "a period of 1 second to a year"),
        (bucket(5, period=MAX_PERIOD + 1), "a period of 1 second to a year"),
        (bucket(5, period=None), "such as 500/min"),
        (log(129), "at most 128 units"),
        (log(5, burst=5), "only a token bucket has a burst"),
        (counter(5, guarantee=Guarantee.CONTRACT), "approximate, so it can only be a fuse"),
        (counter(5, period=None), "such as 500/min"),
        (counter(5, burst=5), "only a token bucket has a burst"),
        (quota(5, 90), "per hour, day, week or month"),
        (quota(5, MONTH, anchor_day=32), "1 to 31, not 32"),
        (quota(5, MONTH, anchor_day=0), "1 to 31, not 0"),
        (
            cap(5, name="exports-cap").__class__(name="c", lane="x", kind=cap(5).kind, amount=5, period_seconds=60),
            "no period",
        ),
    ],
    ids=str,
)
def test_a_limit_that_cannot_mean_anything_is_refused_with_what_to_write(limit, advice):
    with pytest.raises(InvalidLimit, match=f"Limit {limit.name}:") as caught:
        validated(limit)

    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "capacity"),
    [
        (bucket(10), 10),
        (bucket(10, burst=25), 25),
        (bucket(0, burst=25), 0),
        (bucket(UNLIMITED, burst=25), UNLIMITED),
        (log(12), 12),
        (quota(0), 0),
        (cap(6), 6),
    ],
    ids=str,
)
def test_zero_blocks_and_unlimited_is_unlimited_whatever_burst_stands_beside_it(limit, capacity):
    """C188: 0 blocks, "unlimited" is a separate choice."""
    assert limit.capacity == capacity


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (bucket(10, 60), 60),
        (bucket(10, 60, burst=20), 120),
        (bucket(0, 60), 60),
        (bucket(UNLIMITED, 60), 60),
        (log(5, 3), 3),
        (quota(5, DAY), DAY),
        (counter(5, MINUTE), 2 * MINUTE),
        (cap(6), 0),
    ],
    ids=str,
)
def test_nobody_without_debt_waits_longer_than_the_full_period(limit, seconds):
    assert limit.full_period_seconds == seconds


def test_a_rate_is_units_per_second_over_the_long_run():
    assert bucket(30, 60, burst=1).rate == 0.5
    assert cap(6).rate == math.inf


def test_the_mildest_of_several_modes_is_in_force():
    assert mildest(Mode.ENFORCE, Mode.OBSERVE, Mode.ENFORCE) is Mode.OBSERVE
    assert mildest(Mode.OBSERVE, Mode.OFF) is Mode.OFF
    assert mildest(Mode.ENFORCE) is Mode.ENFORCE


def test_a_limit_says_whether_its_numbers_come_from_the_tier_or_an_override():
    assert LimitInForce(limit=bucket(5), tier_limit=bucket(5)).source == "tier"
    assert overridden(bucket(5), bucket(50), until=NOON).source == "override"
