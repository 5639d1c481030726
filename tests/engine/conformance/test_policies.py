"""Stamps, validity and changed limits, over both stores."""

from datetime import timedelta

import pytest

from tenantlimits.domain.limits import DAY, HOUR, MINUTE, SECOND, UNLIMITED, Layer
from tenantlimits.domain.periods import US, to_us
from tenantlimits.engine.base import Admit, Begin, Move, Peek, Status
from tests.engine.builders import (
    ACME,
    BOLT,
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

# Stamps


def test_a_policy_is_stale_from_the_moment_its_tenants_stamp_moves(caller, engine):
    """R3, C29."""
    acme, bolt = caller(bucket(5)), caller(bucket(5), identity=BOLT)
    acme.begin()
    bolt.begin()
    assert acme.admit().allowed

    engine.run(Move(frozenset({"acme"})))

    for verb in (Admit, Peek):
        answer = engine.run(verb(plan=acme.plan(), identity=ACME, cost=1000))
        assert (answer.status, answer.fits, answer.states) == (Status.STALE, (), ())
        assert engine.run(verb(plan=bolt.plan(), identity=BOLT, cost=1000)).decided
    assert acme.admit().allowed
    assert acme.used("token_bucket") == 2


def test_all_policies_are_stale_when_every_stamp_moves(caller, engine):
    """R3: the site-wide switch."""
    callers = [caller(bucket(5), identity=who) for who in (ACME, BOLT, NOBODY)]
    for one in callers:
        one.begin()

    engine.run(Move(None))

    answers = [engine.run(Admit(plan=one.plan(), identity=one.identity, cost=1000)) for one in callers]
    assert [one.status for one in answers] == [Status.STALE] * 3


def test_the_anonymous_tiers_policies_are_stale_together(caller, engine):
    """R3, T3: addresses lie in many shards."""
    callers = [caller(bucket(5), identity=Identity(tenant="", user=f"192.0.2.{n}")) for n in range(9)]
    for one in callers:
        one.begin()
        assert one.admit().allowed

    engine.run(Move(frozenset({""})))

    answers = [engine.run(Admit(plan=one.plan(), identity=one.identity, cost=1000)) for one in callers]
    assert {one.status for one in answers} == {Status.STALE}


def test_moving_nobodys_stamp_or_that_of_a_stranger_disturbs_nobody(caller, engine):
    acme = caller(bucket(5))
    acme.begin()

    engine.run(Move(frozenset()))
    engine.run(Move(frozenset({"cedar"})))

    assert engine.run(Admit(plan=acme.plan(), identity=ACME, cost=1000)).status is Status.ALLOWED


def test_two_processes_build_on_the_same_stamps(engine):
    first, second = engine.run(Begin(ACME)), engine.run(Begin(ACME))

    assert first == second
    assert len(first.stamps.tenant) == len(first.stamps.shard) == 8
    assert first.stamps.tenant != engine.run(Begin(BOLT)).stamps.tenant


def test_beginning_tells_the_stores_time(engine, clock):
    """R5: a policy is built for the store's clock, not for the process's."""
    assert engine.run(Begin(ACME)).now_us == clock()


def test_a_lost_store_repeats_no_stamp(caller, engine, forget):
    """R3, C108."""
    acme = caller(bucket(5))
    acme.begin()
    before = acme.stamps

    forget()

    assert engine.run(Admit(plan=acme.plan(), identity=ACME, cost=1000)).status is Status.STALE
    assert engine.run(Begin(ACME)).stamps != before


def test_a_stale_answer_counts_nothing_at_all(caller, engine, usage):
    """R3, V3: the process asks again, and that counts."""
    acme = caller(bucket(5))
    acme.begin()
    acme.admit()
    counted = usage("acme")
    old = acme.plan()
    engine.run(Move(frozenset({"acme"})))

    engine.run(Admit(plan=old, identity=ACME, cost=1000, lease=b"12345678"))

    assert usage("acme") == counted


def test_beginning_keeps_what_was_used_before_there_was_a_stamp(caller):
    acme = caller(bucket(5))
    acme.admit(3)

    acme.begin()

    assert acme.used("token_bucket") == 3


# Validity


def test_outside_the_time_that_it_was_built_for_a_policy_decides_nothing(engine, clock):
    """R3, C35: an override ends by itself."""
    noon_us = to_us(NOON)
    plan = plan_of([bucket(5)], now_us=noon_us, valid_from_us=noon_us, valid_until_us=noon_us + 10 * US)

    def status(at_us):
        clock.now_us = noon_us + at_us
        return engine.run(Peek(plan=plan, identity=ACME, cost=1000)).status

    assert [status(at_us) for at_us in (-1, 0, 10 * US - 1, 10 * US)] == [
        Status.OUTSIDE, Status.ALLOWED, Status.ALLOWED, Status.OUTSIDE,
    ]  # fmt: skip


def test_an_answer_from_outside_tells_the_stores_time(engine, clock):
    """R5: so that the process can build the policy for that moment, whatever its own clock says."""
    plan = plan_of([bucket(5)], now_us=clock(), valid_until_us=clock() - 5)

    answer = engine.run(Admit(plan=plan, identity=ACME, cost=1000))

    assert (answer.status, answer.now_us) == (Status.OUTSIDE, clock())


def test_a_calendar_policy_serves_its_period_and_the_next(caller, engine, clock):
    acme = caller(quota(5, HOUR))
    old = acme.plan()
    acme.admit(5)

    clock.step(HOUR)
    in_the_next = engine.run(Admit(plan=old, identity=ACME, cost=5000))
    clock.step(HOUR)
    after_it = engine.run(Admit(plan=old, identity=ACME, cost=5000))

    assert in_the_next.status is Status.ALLOWED
    assert after_it.status is Status.OUTSIDE


# Limits that change


@pytest.mark.parametrize("used", [199, 200, 201, 1500])
@pytest.mark.parametrize("kind", [bucket, quota])
def test_a_downgrade_carries_what_was_used(caller, kind, used):
    """C26: 2000 a day become 200; nobody waits longer than the new limit's full period."""
    acme = caller(kind(2000, DAY))
    acme.admit(used)

    acme.change(kind(200, DAY))
    decision = acme.admit()

    assert decision.allowed == (used < 200)
    if decision.refused:
        assert 1 <= decision.retry_after_seconds <= DAY


def test_a_window_that_is_added_joins_what_is_used_up_already(caller, clock):
    """C27."""
    acme = caller(bucket(10, HOUR, name="hour"))
    acme.admit(10)
    clock.step(30)

    acme.change(bucket(10, HOUR, name="hour"), bucket(5, MINUTE, name="minute"))
    refused = acme.admit()

    assert refused.binding.limit.name == "hour"
    assert refused.retry_after == pytest.approx(6 * MINUTE - 30, abs=0.001)
    assert refused.readings[1].remaining == 5


def test_refused_calls_do_not_count_against_an_upgrade(caller):
    """C28."""
    acme = caller(bucket(10, HOUR))
    assert acme.admitted(50) == 10

    acme.change(bucket(20, HOUR))

    assert acme.admitted(50) == 10


def test_saving_the_same_limits_refills_nothing(caller, engine):
    """C31."""
    acme = caller(bucket(5, DAY), log(9, DAY), quota(9), cap(9))
    assert acme.admitted(9) == 5

    for _ in range(20):
        engine.run(Move(frozenset({"acme"})))
        acme.change(*acme.limits)
        assert acme.admit().refused


def test_windows_come_and_go(caller):
    """C32: three windows become one, and two again."""
    three = bucket(10, SECOND, name="s"), bucket(500, MINUTE, name="m"), bucket(10_000, DAY, name="d")
    acme = caller(*three)
    assert acme.admitted(15) == 10

    acme.change(bucket(300, DAY, name="d"))
    assert acme.used("d") == 10
    assert acme.admitted(400) == 290
    acme.change(*three[:2])

    assert acme.admitted(15) == 10
    assert acme.used("m") == 10


@pytest.mark.parametrize("kind", [bucket, log, quota, counter])
def test_raising_a_rate_refuses_nobody(caller, kind):
    """C32."""
    acme = caller(kind(10, HOUR))
    acme.admit(7)

    acme.change(kind(100, HOUR))

    assert acme.admit(93).allowed
    assert acme.admit().refused


def test_a_raise_lifts_a_refusal_at_once(caller):
    """C33: no blocked-until is left behind."""
    acme = caller(quota(100))
    acme.admit(100)
    assert acme.admit().retry_after == 12 * HOUR

    acme.change(overridden(quota(100), quota(1000), until=NOON + timedelta(hours=1)))

    assert acme.admit(900).allowed


def test_an_unlimited_override_leaves_behind_what_the_tier_can_hold(caller, clock):
    """C35: when it ends nobody is locked out longer than the tier's full period."""
    limit = bucket(10, 10)
    acme = caller(overridden(limit, bucket(UNLIMITED, 10), until=NOON + timedelta(seconds=30)))
    assert acme.admitted(500) == 500

    clock.step(30)
    acme.change(limit)
    refused = acme.admit()

    assert refused.allowed or refused.retry_after <= 10


def test_use_of_every_kind_survives_that_limits_are_added_moved_and_removed(caller):
    """C32: mapped by the limits' ids, never misread."""
    rate, window, day, fuse, slots = bucket(50), log(50), quota(50), counter(50), cap(50)
    acme = caller(rate, window, day, fuse, slots)
    leases = [acme.hold(2)[1] for _ in range(3)]
    names = ("token_bucket", "sliding_log", "calendar_quota", "sliding_counter", "concurrency")
    before = {name: acme.used(name) for name in names}

    acme.change(
        slots, log(9, name="new-log"), day, bucket(9, name="new-rate"), window, cap(9, name="new-cap"),
        fuse, counter(9, name="new-fuse"), rate, quota(9, name="new-day"), bucket(9, lane="exports", name="elsewhere"),
    )  # fmt: skip

    acme.hold(1)
    after = {name: acme.used(name) for name in before}
    new = {name: acme.used(name) for name in ("new-log", "new-rate", "new-cap", "new-day", "new-fuse")}
    assert before == dict.fromkeys(names, 6) | {"concurrency": 3}
    assert after == dict.fromkeys(names, 7) | {"concurrency": 4}
    assert set(new.values()) == {1}
    acme.change(slots, window)
    assert [acme.release(lease) for lease in leases] == [True] * 3
    assert (acme.used("sliding_log"), acme.used("concurrency")) == (7, 1)


def test_a_limit_that_was_removed_and_comes_back_starts_unused(caller):
    acme = caller(bucket(5, DAY), quota(9))
    acme.admit(5)
    acme.change(quota(9))
    acme.admit(1)

    acme.change(bucket(5, DAY), quota(9))

    assert acme.used("token_bucket") == 0
    assert acme.used("calendar_quota") == 6


@pytest.mark.parametrize(
    "other",
    [make(9, name="l") for make in (log, quota, cap, counter)] + [bucket(9, name="l", layer=Layer.USER)],
    ids=str,
)
def test_a_limit_of_another_kind_or_layer_starts_unused(caller, other):
    """C32."""
    acme = caller(bucket(9, name="l"))
    acme.admit(5)

    acme.change(other)

    assert acme.used("l") == 0
    assert acme.hold(1)[0].allowed


def test_a_limit_that_moves_to_another_lane_keeps_its_use(caller):
    acme = caller(bucket(9, name="l"))
    acme.admit(5)

    acme.change(bucket(9, name="l", lane="exports"))

    assert acme.used("l", "exports") == 5


def test_a_refusal_under_a_new_shape_loses_nothing_either(caller):
    """R4, C32."""
    acme = caller(bucket(5, DAY), quota(50), cap(9))
    _, lease = acme.hold(5)
    acme.change(cap(9), quota(50), bucket(5, DAY), log(1))

    assert acme.admit(2).refused
    acme.change(bucket(5, DAY), quota(50), cap(9))

    assert [acme.used(name) for name in ("token_bucket", "calendar_quota", "concurrency")] == [5, 5, 1]
    assert acme.release(lease)


def test_a_longer_window_counts_what_is_still_known(caller, clock):
    """C32."""
    acme = caller(log(5, 10))
    acme.admit(3)
    clock.step(5)

    acme.change(log(5, MINUTE))
    clock.step(20)

    assert acme.used("sliding_log") == 3
    acme.change(log(5, 10))
    assert acme.used("sliding_log") == 0


def test_a_counter_of_shorter_windows_has_what_the_longer_one_counted_where_it_was_last_asked(caller, clock):
    """C32: an hour's use counts in the minute of the last of it, for nobody knows how much of it was in that minute."""
    acme = caller(counter(9, HOUR))
    acme.admit(5)
    clock.step(MINUTE)
    acme.admit(2)

    acme.change(counter(9, MINUTE))
    assert acme.used("sliding_counter") == 7
    refused = acme.admit(5)
    assert refused.retry_after == pytest.approx(MINUTE * (1 + 1 - 4 / 7), abs=1e-6)
    clock.step(refused.retry_after)

    assert acme.admit(5).allowed


def test_a_counter_of_longer_windows_has_what_the_shorter_ones_counted(caller, clock):
    """C32."""
    acme = caller(counter(9, MINUTE))
    clock.step(10)
    acme.admit(5)
    clock.step(MINUTE)
    acme.admit(2)

    acme.change(counter(9, HOUR))

    assert acme.used("sliding_counter") == 7
    clock.step(1.5 * HOUR - 70)
    assert acme.used("sliding_counter") == 3.5


@pytest.mark.parametrize("counts_usage", [True, False])
def test_without_any_limit_everything_is_admitted(caller, counts_usage):
    acme = caller(options={"counts_usage": counts_usage})

    assert acme.admit(10**12).allowed
    assert acme.peek().readings == ()
    assert acme.settle(acme.admit(), 5) is Status.ALLOWED
