"""Several limits, lanes and layers at once, over both stores."""

import pytest

from tenantlimits.domain.decisions import Code
from tenantlimits.domain.limits import DAY, HOUR, MINUTE, SECOND, Layer, Mode
from tests.engine.builders import BOLT, NOBODY, Identity, bucket, cap, counter, log, quota

DAILY_AND_MINUTELY = (bucket(5, DAY, name="day"), bucket(2, MINUTE, name="minute"))


def test_what_one_limit_refuses_costs_nothing_in_the_others(caller, clock):
    """C39, R4: 5 a day and 2 a minute, five calls in each of three minutes."""
    acme, served, used = caller(*DAILY_AND_MINUTELY), [], []

    for _ in range(3):
        served.append(acme.admitted(5))
        used.append(round(acme.used("day"), 1))
        clock.step(MINUTE)

    assert served == [2, 2, 1]
    assert used == [2, 4, 5]


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_limits_changes_nothing(caller, order):
    """R4."""
    acme = caller(*DAILY_AND_MINUTELY[::order])

    acme.admitted(5)

    assert (acme.used("day"), acme.used("minute")) == (2, 2)


def test_each_limit_in_turn_is_named_with_its_own_wait(caller, clock):
    """C42: 10 a second, 500 a minute, 10,000 a day."""
    acme = caller(log(10, SECOND, name="second"), quota(500, HOUR, name="hour"), quota(10_000, name="day"))
    acme.admit(10)
    by_second = acme.admit()
    clock.step(1)
    for _ in range(49):
        acme.admit(10)
        clock.step(1)
    by_hour = acme.admit()

    assert ([one.limit.name for one in by_second.refusals], by_second.retry_after) == (["second"], 1)
    assert ([one.limit.name for one in by_hour.refusals], by_hour.retry_after) == (["hour"], HOUR - 50)
    assert (acme.used("day"), by_hour.code) == (500, Code.RATE_LIMITED)


def test_lane_all_counts_every_request_of_every_lane_as_one(caller):
    """K1."""
    acme = caller(bucket(3, lane="all", name="all"), bucket(100, name="r"), bucket(100, lane="exports", name="x"))

    answers = [acme.admit(20, lane) for lane in ("reads", "exports", "reads", "exports")]

    assert [one.allowed for one in answers] == [True, True, True, False]
    assert [one.limit.name for one in answers[3].refusals] == ["all"]
    assert (acme.used("r"), acme.used("x", "exports")) == (40, 20)


def test_a_lane_does_not_spend_anothers_limits(caller):
    """K3."""
    acme = caller(bucket(2, name="r"), bucket(2, lane="exports", name="x"))

    assert (acme.admitted(5), acme.admitted(5, lane="exports")) == (2, 2)


def test_one_user_over_its_limit_leaves_the_tenants_to_the_others(caller):
    """C40, K2: ann sends a thousand calls, bob one."""
    limits = bucket(5, layer=Layer.USER, name="user"), bucket(500, name="tenant")
    ann, bob = (caller(*limits, identity=Identity(tenant="acme", user=user)) for user in ("ann", "bob"))

    assert ann.admitted(1000) == 5
    assert bob.admit().allowed
    assert bob.used("tenant") == 6


def test_two_hundred_seats_share_the_tenants_limit(caller):
    """K2."""
    limits = bucket(5, layer=Layer.USER, name="user"), bucket(20, name="tenant")
    seats = [caller(*limits, identity=Identity(tenant="acme", user=f"user-{n}")) for n in range(200)]

    assert sum(seat.admitted(1) for seat in seats) == 20


def test_a_person_in_two_tenants_has_a_limit_in_each(caller):
    """C88."""
    limit = bucket(5, layer=Layer.USER)
    in_acme, in_bolt = (caller(limit, identity=Identity(tenant=tenant, user="alice")) for tenant in ("acme", "bolt"))

    assert in_acme.admitted(6) == 5
    assert in_bolt.admit().allowed


def test_new_keys_bring_no_new_quota(caller):
    """C89, K2."""
    limits = bucket(500, name="tenant"), bucket(100, layer=Layer.CREDENTIAL, name="key")
    keys = [caller(*limits, identity=Identity(tenant="acme", credential=f"key-{n}")) for n in range(11)]

    admitted = [key.admitted(120) for key in keys]

    assert admitted == [100] * 5 + [0] * 6
    assert keys[10].used("tenant") == 500


def test_a_user_and_a_credential_of_the_same_name_do_not_meet(caller):
    """C86."""
    acme = caller(
        bucket(1, layer=Layer.USER, name="l"), bucket(2, layer=Layer.CREDENTIAL, name="l"),
        identity=Identity(tenant="acme", user="x", credential="x"),
    )  # fmt: skip

    acme.admit()

    assert [one.used for one in acme.peek(0).readings] == [1, 1]


def test_anonymous_callers_are_limited_by_their_address(caller):
    """T3."""
    first = caller(bucket(2), identity=NOBODY)
    second = caller(bucket(2), identity=Identity(tenant="", user="192.0.2.8"))

    assert (first.admitted(5), second.admitted(5)) == (2, 2)


def test_a_refusal_by_the_user_leaves_the_tenants_slot_free(caller):
    """R4, R7: one subject refuses, the others keep what they had."""
    acme = caller(bucket(1, layer=Layer.USER, name="user"), cap(2), bucket(9, name="tenant"))
    first, _ = acme.hold()

    second, _ = acme.hold()

    assert (first.allowed, second.allowed) == (True, False)
    assert (acme.used("concurrency"), acme.used("tenant"), acme.used("user")) == (1, 1, 1)


def test_a_limit_that_observes_does_not_keep_the_others_from_counting(caller):
    acme = caller(bucket(1, name="seen", mode=Mode.OBSERVE), bucket(5, name="real"))

    assert acme.admitted(9) == 5
    assert (acme.used("seen"), acme.used("real")) == (1, 5)


def test_twenty_four_limits_in_three_layers_are_one_decision(caller):
    """P3: the most that a tier holds; also one full user refuses for all of them."""
    makers = [bucket, log, quota, cap]
    limits = [makers[n % 4](50, name=f"l{n}", layer=list(Layer)[n // 4 % 3]) for n in range(23)]
    acme = caller(*limits, bucket(3, layer=Layer.USER, name="tight"))

    answers = [acme.hold()[0] for _ in range(4)]

    assert [one.allowed for one in answers] == [True, True, True, False]
    assert [one.limit.name for one in answers[3].refusals] == ["tight"]
    assert {one.used for one in answers[3].readings} == {3}


def test_twenty_four_sliding_counters_in_three_layers_are_one_decision_too(caller):
    """R9: a counter has four numbers, twice as many as others, and a script has only so much room for them."""
    acme = caller(*(counter(50, name=f"l{n}", layer=list(Layer)[n // 8]) for n in range(24)))
    acme.begin()

    first, second = acme.admit(2), acme.admit(3)
    acme.settle(first, +1)

    assert second.allowed
    assert {one.used for one in acme.peek(0).readings} == {6}


def test_bolt_is_served_while_acme_is_refused(caller):
    """R1."""
    acme, bolt = caller(bucket(2, burst=10)), caller(bucket(100, burst=300), identity=BOLT)

    assert (acme.admitted(50), bolt.admitted(50)) == (10, 50)
