"""Words for people: promises, amounts, waits, reasons, sources and states."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings
from django.utils import translation

from tenantlimits import wording
from tenantlimits.domain.decisions import Code, Decision
from tenantlimits.domain.limits import (
    DAY,
    HOUR,
    MAX_AMOUNT,
    MINUTE,
    MONTH,
    SECOND,
    UNLIMITED,
    WEEK,
    Counts,
    Guarantee,
    Limit,
    LimitInForce,
    Mode,
    OverrideInForce,
)
from tenantlimits.domain.pools import PoolSpec, ShareInForce
from tenantlimits.domain.shares import Share
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.wording import LimitState
from tests.engine.builders import NOBODY, NOON, Caller, Clock, bucket, cap, counter, log, overridden, plan_of, quota


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def caller(clock):
    return lambda *limits, **options: Caller(MemoryEngine(clock=clock), clock, limits, **options)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (bucket(500, MINUTE, burst=500), "at most 1,000 in any minute"),
        (bucket(500, MINUTE), "at most 1,000 in any minute"),
        (bucket(20, SECOND, burst=60), "at most 80 in any second"),
        (bucket(100, MONTH, burst=10), "at most 110 in any 30 days"),
        (bucket(MAX_AMOUNT, SECOND), "at most 2,000,000,000,000 in any second"),
        (log(5, SECOND), "at most 5 in any second"),
        (log(12, 3), "at most 12 in any 3 seconds"),
        (quota(10_000, DAY), "10,000 per calendar day"),
        (quota(10_000, WEEK), "10,000 per calendar week"),
        (quota(10_000, MONTH), "10,000 per calendar month"),
        (counter(500, MINUTE), "about 500 in any minute, in the worst case up to 1,000"),
        (counter(0, MINUTE), "blocks everything"),
        (cap(6), "at most 6 at once"),
        (cap(0), "blocks everything"),
        (bucket(0, MINUTE, burst=0), "blocks everything"),
        (quota(UNLIMITED), "unlimited"),
        (cap(UNLIMITED), "unlimited"),
    ],
)
def test_a_promise_says_what_the_kind_guarantees(limit, words):
    assert wording.promise(limit) == words


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (bucket(500, MINUTE), "500 / minute"),
        (log(12, 3), "12 / 3 seconds"),
        (log(5, 2 * HOUR), "5 / 2 hours"),
        (bucket(7, WEEK), "7 / week"),
        (bucket(7, 90), "7 / 90 seconds"),
        (quota(10_000, MONTH), "10,000 / month"),
        (cap(4), "4 at once"),
        (bucket(0, MINUTE), "0 / minute"),
        (bucket(UNLIMITED, MINUTE), "unlimited"),
    ],
)
def test_an_amount_in_short(limit, words):
    assert wording.amount_words(limit) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (1234.0, "1,234"),
        (1234.5, "1,234.5"),
        (0.001, "0.001"),
        (2.9999, "3"),
        (1e15, "1,000,000,000,000,000"),
        (UNLIMITED, "unlimited"),
    ],
)
def test_numbers_are_grouped_and_never_longer_than_they_have_to_be(value, words):
    assert wording.number_words(value) == words


def test_numbers_and_words_follow_the_active_language():
    with translation.override("de"):
        assert wording.number_words(1234.5) == "1.234,5"
        assert wording.amount_words(bucket(10_000, DAY)).startswith("10.000 / ")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 second"),
        (0.2, "1 second"),
        (1, "1 second"),
        (20, "20 seconds"),
        (60, "1 minute"),
        (65, "1 minute 5 seconds"),
        (3599.5, "1 hour"),
        (11_100, "3 hours 5 minutes"),
        (39_600, "11 hours"),
        (86_399, "1 day"),
        (86_460, "1 day 1 hour"),
        (1e18, "11,574,074,074,074 days 2 hours"),
    ],
)
def test_a_wait_is_told_in_its_two_largest_units_and_never_too_short(seconds, words):
    assert wording.wait_words(seconds) == words


def test_every_code_has_a_title():
    titles = {code: wording.refusal_title(code) for code in Code}

    assert titles[Code.RATE_LIMITED] == titles[Code.CONCURRENCY_LIMITED] == "Quota exceeded"
    assert titles[Code.BLOCKED] == "Blocked"


def test_a_refusal_by_a_bucket_names_limit_plan_rate_use_and_wait(caller, clock):
    acme = caller(bucket(3, MINUTE, name="exports-rate", burst=20))
    acme.admit(20)
    clock.step(0.5)

    detail = wording.refusal_detail(acme.admit(1))

    assert detail == (
        "Limit exports-rate of plan Pro reached: 3 units per minute, burst 20. "
        "Used 20, this request needs 1. Try again in 20 seconds."
    )


@pytest.mark.parametrize(
    ("limit", "rate"),
    [
        (log(1, 3, counts=Counts.REQUESTS), "1 request in any 3 seconds"),
        (log(1, SECOND), "1 unit in any second"),
        (counter(1, MINUTE), "about 1 unit in any minute"),
        (quota(1, MONTH), "1 unit per calendar month"),
        (quota(1, DAY, guarantee=Guarantee.FUSE), "1 unit per calendar day"),
    ],
)
def test_a_refusal_words_the_rate_of_each_kind(caller, limit, rate):
    acme = caller(limit)
    acme.admit(1)

    detail = wording.refusal_detail(acme.admit(1))

    assert detail.startswith(f"Limit {limit.name} of plan Pro reached: {rate}. Used 1, this request needs 1. Try again")


def test_used_is_rounded_up_since_what_is_left_is_rounded_down(caller, clock):
    acme = caller(bucket(60, MINUTE, burst=20))
    acme.admit(20)
    clock.step(0.6)

    refused = acme.admit(1)

    assert "Used 20, this request needs 1." in wording.refusal_detail(refused)
    assert wording.used_words(refused.readings[0]) == "20 of 20 (100 %)"


def test_a_cap_says_how_many_are_running(caller):
    acme = caller(cap(2, name="exports-cap"))
    acme.hold()
    acme.hold()

    detail = wording.refusal_detail(acme.admit(1))

    assert detail == (
        "Limit exports-cap of plan Pro reached: at most 2 at once, and 2 are running. Try again in 1 second."
    )


def test_a_cost_that_never_fits_is_told_to_split_and_not_to_wait(caller):
    detail = wording.refusal_detail(caller(bucket(20, name="exports-rate")).admit(50))

    assert detail == (
        "Limit exports-rate of plan Pro never holds more than 20 at a time, and this request needs 50. "
        "Split it into smaller requests."
    )


def test_a_block_is_told_with_its_override(caller):
    blocked = overridden(
        bucket(20, name="all-rate"), bucket(0, name="all-rate"), until=datetime(2026, 12, 14, tzinfo=UTC)
    )

    assert wording.refusal_detail(caller(bucket(0, name="x")).admit(1)) == "Limit x of plan Pro blocks lane reads."
    assert wording.refusal_detail(caller(blocked).admit(1)) == (
        'Limit all-rate of plan Pro blocks lane reads. Blocked until 14 Dec 2026: "import".'
    )


def test_a_refusal_without_a_limit_says_why(clock):
    blank = {"allowed": False, "cost": 1000, "now_us": clock(), "states": (), "fits": ()}
    plan = plan_of((), now_us=clock(), lane="exports")
    nobody = plan_of((), now_us=clock(), identity=NOBODY)

    unavailable = Decision(plan=plan, degraded=True, unavailable=True, **blank)

    assert wording.refusal_detail(unavailable) == (
        "The limits of lane exports cannot be checked right now. Try again in 1 second."
    )
    assert wording.refusal_detail(Decision(plan=nobody, **blank)) == (
        "Requests without valid credentials are not accepted here."
    )


def test_a_limit_of_no_plan_is_named_alone(caller, clock):
    acme = caller(bucket(1))
    acme.plan().tier_name = ""
    acme.admit(1)

    assert wording.refusal_detail(acme.admit(1)).startswith("Limit token_bucket reached: ")


def in_force(limit: Limit, by: Limit, until: datetime, reason: str = "Black Friday import") -> LimitInForce:
    override = OverrideInForce(id=9, reason=reason, starts_at=NOON, expires_at=until)
    return LimitInForce(limit=by, tier_limit=limit, override=override)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (300, 500, 'Raised from 300 until 14 Dec 2026: "Black Friday import"'),
        (300, 100, 'Lowered from 300 until 14 Dec 2026: "Black Friday import"'),
        (300, UNLIMITED, 'Lifted from 300 until 14 Dec 2026: "Black Friday import"'),
        (UNLIMITED, 100, 'Lowered from unlimited until 14 Dec 2026: "Black Friday import"'),
        (300, 0, 'Blocked until 14 Dec 2026: "Black Friday import"'),
        (300, 300, 'Unchanged at 300 until 14 Dec 2026: "Black Friday import"'),
    ],
)
def test_an_override_says_what_it_changed_until_when_and_why(before, now, words):
    one = in_force(bucket(before), bucket(now), datetime(2026, 12, 14, tzinfo=UTC))

    assert wording.source_words(one, "Pro") == words


def test_a_limit_without_an_override_comes_from_the_plan():
    plain = LimitInForce(limit=cap(4), tier_limit=cap(4))

    assert wording.source_words(plain, "Pro") == "Pro"
    assert wording.source_words(plain) == "Plan"


def test_only_a_bucket_with_another_burst_is_a_change_too():
    one = in_force(bucket(10, burst=10), bucket(10, burst=50), NOON + timedelta(hours=3, minutes=30))

    assert wording.source_words(one) == 'Raised from 10 until 30 Nov 2026, 15:30: "Black Friday import"'


@override_settings(TIME_ZONE="Asia/Tokyo")
def test_an_end_is_told_in_the_current_time_zone():
    assert wording.instant_words(datetime(2026, 12, 13, 15, tzinfo=UTC)) == "14 Dec 2026"


def test_a_reason_with_percent_signs_stays_what_it_is():
    one = in_force(cap(1), cap(2), NOON, reason="50% more, %(until)s")

    assert wording.source_words(one).endswith('"50% more, %(until)s"')


@pytest.mark.parametrize(
    ("limit", "cost", "state"),
    [
        (bucket(100), 79, "ok"),
        (bucket(100), 80, "near"),
        (bucket(100), 99, "near"),
        (bucket(100), 99.5, "limited"),
        (bucket(100), 100, "limited"),
        (quota(100), 100, "limited"),
        (quota(0), 1, "blocked"),
        (bucket(0, burst=0), 1, "blocked"),
        (bucket(UNLIMITED), 10**9, "ok"),
        (bucket(100, mode=Mode.OBSERVE), 100, "near"),
        (bucket(0, mode=Mode.OBSERVE), 1, "ok"),
    ],
)
def test_the_state_of_a_limit_tells_how_close_it_is_to_refusing(caller, limit, cost, state):
    acme = caller(limit)
    acme.admit(cost)

    assert wording.state_of(acme.peek(0).readings[0]) == state


def test_a_full_cap_is_limited(caller):
    acme = caller(cap(1))
    acme.hold()

    assert wording.state_of(acme.peek(1).readings[0]) is LimitState.LIMITED


def test_every_state_has_words():
    assert [wording.state_words(state) for state in LimitState] == [
        "OK", "Near the limit", "At the limit", "Blocked", "Unknown",
    ]  # fmt: skip


def test_use_is_told_with_a_percentage_where_there_is_one(caller):
    acme = caller(bucket(500), quota(UNLIMITED))
    acme.admit(410)

    assert [wording.used_words(one) for one in acme.peek(0).readings] == ["410 of 500 (82 %)", "410 of unlimited"]


@pytest.mark.parametrize(
    ("slots", "lendable", "words"),
    [
        (4, 1.0, "4 at once whenever slots are free; more while nobody else waits"),
        (4, 0.5, "4 at once whenever slots are free; more while nobody else waits, of the 5 that are lent"),
        (4, 0.0, "at most 4 at once"),
        (0, 1.0, "none of its own: runs only while nobody else waits"),
        (0, 0.0, "blocks everything"),
    ],
)
def test_a_share_says_what_it_guarantees(slots, lendable, words):
    """C2, C75."""
    pool = PoolSpec(name="exports", capacity=10, lendable=lendable)

    assert wording.share_promise(slots, pool) == words
    assert wording.share_words(slots, pool) == f"{slots} of 10 slots"


@pytest.mark.parametrize(("slots", "change"), [(8, "Raised"), (2, "Lowered"), (0, "Lowered"), (4, "Unchanged")])
def test_an_overridden_share_says_what_it_was_until_when_and_why(slots, change):
    override = OverrideInForce(id=9, reason="Statements", starts_at=NOON, expires_at=datetime(2026, 12, 14, tzinfo=UTC))
    one = ShareInForce(
        pool=PoolSpec(name="exports", capacity=10), share=Share(slots), tier_share=Share(4), override=override
    )

    assert wording.share_source_words(one).startswith(change)
    assert wording.share_source_words(one).endswith('4 until 14 Dec 2026: "Statements"')


def test_a_share_of_the_tier_comes_from_the_plan():
    one = ShareInForce(pool=PoolSpec(name="exports", capacity=10), share=Share(4), tier_share=Share(4))

    assert (wording.share_source_words(one, "Pro"), wording.share_source_words(one)) == ("Pro", "Plan")
