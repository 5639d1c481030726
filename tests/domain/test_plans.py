"""What one operation is asked, and how limits become terms of a plan."""

import math
from datetime import timedelta

import pytest

from tenantlimits.domain.buckets import Bucket
from tenantlimits.domain.counters import Counter
from tenantlimits.domain.limits import DAY, HOUR, MINUTE, MONTH, UNLIMITED, Counts, Layer, LimitInForce, Mode
from tenantlimits.domain.periods import US, to_us
from tenantlimits.domain.plans import Cap, Subject, horizon_us, lane_tag, state_id, validity
from tenantlimits.domain.windows import Log, Quota
from tests.engine.builders import (
    LEASE_SECONDS,
    NOBODY,
    NOON,
    Identity,
    bucket,
    cap,
    counter,
    log,
    overridden,
    plan_of,
    quota,
)

NOON_US = to_us(NOON)
MIDNIGHT = NOON + timedelta(hours=12)


def in_force(limit):
    return LimitInForce(limit=limit, tier_limit=limit)


def term_of(limit, **options):
    return plan_of([limit], now_us=NOON_US, **options).terms[0]


def names(terms):
    return [term.in_force.limit.name for term in terms]


def test_limits_of_the_lane_and_of_all_are_asked_and_those_of_other_lanes_only_kept():
    limits = [bucket(5, name="other", lane="exports"), bucket(5, name="mine"), bucket(5, name="total", lane="all")]

    plan = plan_of(limits, now_us=NOON_US, lane="reads")

    assert names(plan.terms) == ["total", "other", "mine"]
    assert names(plan.asked) == ["total", "mine"]


def test_a_limit_of_somebody_who_is_not_there_is_left_out():
    """K2."""
    limits = [bucket(5, name=layer.value, layer=layer) for layer in Layer]

    assert names(plan_of(limits, now_us=NOON_US, identity=Identity(tenant="acme", user="ann")).asked) == [
        "tenant",
        "user",
    ]


def test_every_limit_of_an_anonymous_caller_counts_the_address():
    """T3."""
    plan = plan_of([bucket(5, name=layer.value, layer=layer) for layer in Layer], now_us=NOON_US, identity=NOBODY)

    assert {term.subject for term in plan.asked} == {Subject.USER}


def test_terms_of_one_subject_stand_together():
    limits = [
        bucket(5, name="u", layer=Layer.USER),
        bucket(5, name="t"),
        log(5, name="v", layer=Layer.USER),
        cap(2, name="c"),
    ]

    assert [term.subject for term in plan_of(limits, now_us=NOON_US).terms] == sorted([0, 0, 1, 1])


def test_numbers_become_thousandths_and_microseconds():
    assert term_of(bucket(10, MINUTE, burst=20)).spec == Bucket(20_000, 10_000 / 60e6)
    assert term_of(log(12, 3)).spec == Log(12_000, 3e6)
    assert term_of(counter(12, 3)).spec == Counter(12_000, 3e6)
    assert term_of(cap(6)).spec == Cap(6)
    assert term_of(quota(9)).spec == Quota(
        9_000, to_us(MIDNIGHT - timedelta(days=1)), to_us(MIDNIGHT), to_us(MIDNIGHT) + DAY * US
    )


def test_an_unlimited_override_goes_on_draining_at_the_tiers_rate():
    """C35: so that the state means something when it ends."""
    spec = term_of(overridden(bucket(10, burst=20), bucket(UNLIMITED), until=MIDNIGHT)).spec

    assert spec == Bucket(math.inf, 10_000 / 60e6)
    assert term_of(bucket(UNLIMITED)).spec == Bucket(math.inf, 0)


def test_operations_count_as_one_or_with_their_cost_and_nothing_counts_as_nothing():
    """K1, C55."""
    by_cost, by_requests = term_of(bucket(5)), term_of(bucket(5, counts=Counts.REQUESTS))

    assert [by_cost.requested(cost) for cost in (0, 250, 7_000)] == [0, 250, 7_000]
    assert [by_requests.requested(cost) for cost in (0, 250, 7_000)] == [0, 1_000, 1_000]


@pytest.mark.parametrize(
    "other",
    [
        log(5, name="l"),
        bucket(5, name="m"),
        bucket(5, name="l", layer=Layer.USER),
        quota(5, DAY, name="l"),
        quota(5, HOUR, name="l"),
        cap(5, name="l"),
    ],
    ids=str,
)
def test_a_limit_of_another_name_kind_layer_or_calendar_period_has_a_state_of_its_own(other):
    """C32."""
    assert state_id(in_force(other)) != state_id(in_force(bucket(5, name="l")))


@pytest.mark.parametrize(
    "other",
    [
        bucket(50, name="l"),
        bucket(5, HOUR, name="l"),
        bucket(5, name="l", burst=9),
        bucket(5, name="l", mode=Mode.OBSERVE),
        bucket(5, name="l", lane="exports"),
    ],
    ids=str,
)
def test_use_is_carried_over_a_change_of_numbers(other):
    """C26, C32."""
    assert state_id(in_force(other)) == state_id(in_force(bucket(5, name="l")))


def test_the_kind_can_be_read_from_a_state_id():
    kinds = [state_id(in_force(limit))[3] & 7 for limit in (bucket(5), quota(5), counter(5), log(5), cap(5))]

    assert kinds == [0, 1, 2, 4, 5]


def test_lanes_have_tags_of_four_bytes():
    assert len({lane_tag(lane) for lane in ("reads", "uploads", "exports", "all")}) == 4
    assert len(lane_tag("reads")) == 4


def test_a_plan_holds_until_its_quotas_have_had_a_period_more():
    plan = plan_of([quota(5, DAY), quota(5, HOUR, name="hourly"), bucket(5)], now_us=NOON_US)

    assert validity(plan.terms, 0, math.inf) == (NOON_US, NOON_US + 2 * HOUR * US)
    assert validity(plan.terms, NOON_US + 5, NOON_US + 10) == (NOON_US + 5, NOON_US + 10)


def test_only_a_cap_that_is_on_takes_a_slot():
    def has_cap(*limits):
        return plan_of(limits, now_us=NOON_US).has_cap

    assert has_cap(cap(2))
    assert has_cap(cap(2, mode=Mode.OBSERVE))
    assert not has_cap(cap(2, mode=Mode.OFF))
    assert not has_cap(cap(2, lane="exports"))
    assert not has_cap(bucket(2))


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (bucket(10, MINUTE), 120),
        (bucket(10, MINUTE, burst=20), 240),
        (bucket(0), 0),
        (bucket(UNLIMITED), 0),
        (log(5, 3), 3),
        (cap(2), LEASE_SECONDS),
        (quota(5, DAY), 2 * DAY),
        (counter(5, MINUTE), 2 * MINUTE),
        (bucket(1, 366 * DAY, burst=10**6), 800 * DAY),
        (overridden(bucket(10, MINUTE), bucket(20, MINUTE, burst=200), until=MIDNIGHT), 20 * 60),
        (overridden(bucket(10, MINUTE), bucket(1000, MINUTE), until=MIDNIGHT), 120),
        (overridden(bucket(10, MINUTE), bucket(UNLIMITED), until=MIDNIGHT), 120),
        (overridden(bucket(10, MINUTE), bucket(0), until=MIDNIGHT), 120),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_state_is_kept_for_as_long_as_it_can_matter_under_its_override_or_after(limit, seconds):
    """C03, C04: a bucket in debt drains two bursts."""
    assert horizon_us(term_of(limit), LEASE_SECONDS * US) == seconds * US


def test_a_month_is_kept_until_the_next_has_ended():
    assert horizon_us(term_of(quota(5, MONTH, anchor_day=31)), 0) == (31 + 31) * DAY * US
