"""The answer to one operation, read from what a store says."""

import math
from datetime import timedelta

import pytest

from tenantlimits.domain.decisions import Code, Decision
from tenantlimits.domain.errors import LimitExceeded
from tenantlimits.domain.limits import DAY, MINUTE, UNLIMITED, Counts, Guarantee, Layer, Mode
from tenantlimits.engine.memory import MemoryEngine
from tests.engine.builders import NOON, Caller, Clock, bucket, cap, log, overridden, plan_of, quota

TWO_O_CLOCK = NOON + timedelta(hours=2)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def caller(clock):
    return lambda *limits, **options: Caller(MemoryEngine(clock=clock), clock, limits, **options)


def test_an_allowed_operation_has_no_reason_and_nothing_to_wait_for(caller):
    decision = caller(bucket(10), quota(100)).admit(3)

    assert (decision.allowed, decision.refused) == (True, False)
    assert (decision.code, decision.binding, decision.refusals) == (None, None, ())
    assert decision.retry_after == 0
    assert decision.summary() == "Allowed in lane reads."
    assert (decision.tenant, decision.tier, decision.lane) == ("acme", "pro", "reads")


def test_every_limit_asked_has_a_reading_in_units_and_seconds(caller, clock):
    acme = caller(bucket(60, MINUTE), log(5, 3), quota(100), cap(2))
    acme.hold(4)
    clock.step(1)

    rate, window, day, slots = acme.admit(2).readings

    assert (rate.used, rate.remaining, rate.requested, rate.fits, rate.wait) == (3, 57, 2, True, 0)
    assert (rate.next_unit, rate.full) == (0, pytest.approx(3))
    assert (window.used, window.remaining, window.fits, window.wait) == (4, 1, False, 2)
    assert (window.next_unit, window.full) == (0, 2)
    assert (day.used, day.remaining, day.full) == (4, 96, 12 * 3600 - 1)
    assert (slots.used, slots.remaining, slots.wait, slots.next_unit, slots.full) == (1, 1, None, None, None)


def test_what_is_left_is_never_negative_and_unlimited_where_nothing_limits(caller):
    """C27."""
    acme = caller(bucket(10), quota(UNLIMITED))
    acme.admit(10)
    acme.change(bucket(4), quota(UNLIMITED))

    rate, day = acme.admit(1).readings

    assert rate.remaining == 0
    assert day.remaining == math.inf


def test_the_limit_with_the_longest_wait_binds_and_is_named(caller):
    """C27, C42."""
    acme = caller(
        bucket(2, 1, name="second"), bucket(3, MINUTE, name="minute"), quota(4, name="day"), bucket(99, name="idle")
    )
    acme.admit(2)

    by_the_second = acme.admit(1)
    by_all = acme.admit(3)

    assert [one.limit.name for one in by_the_second.refusals] == ["second"]
    assert by_the_second.binding.limit.name == "second"
    assert 0.5 <= by_the_second.retry_after < 0.6
    assert [one.limit.name for one in by_all.refusals] == ["second", "minute", "day"]
    assert by_all.summary() == "Refused by limit second of tier pro in lane reads (cost_exceeds_limit)."


def test_the_wait_is_the_longest_of_all_that_refused(caller):
    acme = caller(bucket(2, 1, name="second"), log(2, 30, name="window"), quota(2, name="day"))
    acme.admit(2)

    refused = acme.admit(1)

    assert refused.binding.limit.name == "day"
    assert refused.retry_after == 12 * 3600
    assert refused.retry_after_seconds == 12 * 3600
    assert refused.summary() == "Refused by limit day of tier pro in lane reads (rate_limited), try again in 43200 s."


@pytest.mark.parametrize("seconds_left", [0.9, 0.0004, 0.000001])
def test_a_header_says_whole_seconds_rounded_up_and_at_least_one(caller, clock, seconds_left):
    """C13, C18."""
    acme = caller(log(1, 10))
    acme.admit()
    clock.step(10 - seconds_left)

    refused = acme.admit()

    assert refused.refused
    assert refused.retry_after == pytest.approx(seconds_left)
    assert refused.retry_after_seconds == 1


def test_no_wait_is_promised_for_a_cost_that_can_never_fit(caller):
    """C49, C50."""
    refused = caller(bucket(3), bucket(100, name="wide")).admit(4)

    assert refused.code is Code.COST_EXCEEDS_LIMIT
    assert (refused.never, refused.retry_after, refused.retry_after_seconds) == (True, None, None)
    assert refused.binding.limit.capacity == 3
    assert refused.binding.never


@pytest.mark.parametrize("limit", [bucket(0), bucket(0, burst=5), log(0), quota(0), cap(0)], ids=str)
def test_zero_blocks_and_says_so(caller, limit):
    """C188."""
    refused = caller(limit, bucket(1, name="other")).admit(1)

    assert refused.code is Code.BLOCKED
    assert refused.retry_after is None


def test_a_block_binds_before_a_cost_that_never_fits(caller):
    refused = caller(bucket(2, name="small"), cap(0)).admit(5)

    assert refused.code is Code.BLOCKED


def test_a_full_cap_answers_an_honest_estimate_of_at_least_a_second(caller):
    """R2."""
    acme = caller(cap(1), bucket(1))
    acme.hold()

    refused = acme.admit()

    assert {one.limit.kind.value for one in refused.refusals} == {"concurrency", "token_bucket"}
    assert refused.retry_after == 60
    assert by_busy(refused, 5).code is Code.RATE_LIMITED
    assert by_busy(refused, 90).code is Code.CONCURRENCY_LIMITED
    assert by_busy(refused, 90).retry_after == 90
    assert by_busy(refused, 0.2).retry_after_seconds == 60


@pytest.mark.parametrize(("busy_seconds", "header"), [(-0.0001, 1), (0, 1), (0.0004, 1), (1.0001, 2)])
def test_no_estimate_however_small_makes_a_header_of_less_than_a_second(caller, busy_seconds, header):
    """C13."""
    acme = caller(cap(1))
    acme.hold()

    assert by_busy(acme.admit(), busy_seconds).retry_after_seconds == header


def by_busy(decision, seconds):
    return Decision(
        plan=decision.plan, allowed=False, cost=decision.cost, now_us=decision.now_us,
        states=decision.states, fits=decision.fits, busy_seconds=seconds,
    )  # fmt: skip


def test_a_fuse_is_answered_as_abuse(caller):
    """R9."""
    assert caller(bucket(1, guarantee=Guarantee.FUSE), log(1)).admit(1).code is None
    fuse = caller(bucket(2, guarantee=Guarantee.FUSE))
    fuse.admit(2)

    assert fuse.admit().code is Code.FUSE


def test_a_limit_that_only_observes_never_refuses(caller):
    acme = caller(bucket(1, mode=Mode.OBSERVE))

    decision = acme.admit(5)

    assert decision.allowed
    assert decision.refusals == ()
    assert decision.readings[0].never
    assert not decision.readings[0].refused


def test_the_tightest_limit_is_the_enforced_one_of_which_the_smallest_part_is_left(caller):
    acme = caller(
        bucket(10, name="rate"),
        quota(4, name="day"),
        quota(UNLIMITED, name="free"),
        bucket(3, name="seen", mode=Mode.OBSERVE),
    )

    assert acme.admit(3).tightest.limit.name == "day"
    assert caller(quota(UNLIMITED)).admit().tightest is None
    assert caller(bucket(5), bucket(0, name="none")).peek().tightest.limit.name == "none"


def test_a_raise_that_ends_bounds_the_wait(caller, clock):
    """C35 (a): default 500, override 1000 until two o'clock."""
    acme = caller(overridden(quota(500), quota(1000), until=TWO_O_CLOCK))
    assert acme.admit(600).allowed

    clock.step(2 * 3600 - 1)
    last = acme.admit(1)
    refused = acme.admit(400)
    assert last.allowed
    assert refused.retry_after == 1

    clock.step(2)
    acme.change(quota(500))
    after = acme.admit(1)
    assert after.refused
    assert after.binding.in_force.source == "tier"


def test_a_lowering_that_ends_bounds_the_wait(caller, clock):
    """C35 (b): default 500, override 100 until two o'clock."""
    acme = caller(overridden(quota(500), quota(100), until=TWO_O_CLOCK))
    acme.admit(100)
    clock.step(3600)

    refused = acme.admit(1)
    too_large_for_now = acme.admit(150)
    too_large_for_ever = acme.admit(501)

    assert refused.retry_after == 3600
    assert (too_large_for_now.code, too_large_for_now.retry_after) == (Code.RATE_LIMITED, 3600)
    assert too_large_for_ever.code is Code.COST_EXCEEDS_LIMIT
    clock.step(3600)
    acme.change(quota(500))
    assert acme.admit(150).allowed


def test_an_override_that_blocks_is_a_block(caller):
    """C188."""
    refused = caller(overridden(bucket(10), bucket(0), until=TWO_O_CLOCK)).admit(1)

    assert refused.code is Code.BLOCKED
    assert refused.retry_after is None


def test_a_wait_shorter_than_the_override_is_left_alone(caller):
    acme = caller(overridden(bucket(10), bucket(20), until=TWO_O_CLOCK))
    acme.admit(20)

    assert acme.admit(1).retry_after == 3


def test_a_request_counted_as_one_never_exceeds_a_limit_by_its_cost(caller):
    """K1."""
    acme = caller(bucket(2, lane="all", counts=Counts.REQUESTS))

    decision = acme.admit(50)

    assert decision.allowed
    assert decision.readings[0].requested == 1


def test_without_a_store_the_answer_names_the_store(clock):
    plan = plan_of([bucket(5)], now_us=clock())

    def refused(**options):
        return Decision(plan=plan, allowed=False, cost=1000, now_us=clock(), states=(), fits=(), **options)

    with pytest.raises(ValueError, match="shorter"):
        refused().readings  # noqa: B018 - the reading is what fails
    nothing_asked = plan_of([], now_us=clock())
    down = Decision(
        plan=nothing_asked, allowed=False, cost=0, now_us=0, states=(), fits=(), unavailable=True, busy_seconds=5
    )
    assert down.code is Code.STORE_UNAVAILABLE
    assert down.retry_after == 5
    assert down.summary() == "Refused by lane reads in lane reads (store_unavailable), try again in 5 s."


def test_the_error_carries_the_decision_and_says_it_in_a_sentence(caller):
    acme = caller(bucket(1, DAY, layer=Layer.USER))
    acme.admit()
    refused = acme.admit()

    error = LimitExceeded(refused)

    assert error.decision is refused
    assert str(error) == refused.summary()
    assert "limit token_bucket of tier pro in lane reads" in str(error)
