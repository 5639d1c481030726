"""What is counted by tenant, lane and hour, over both stores."""

from tenantlimits.domain.limits import HOUR, Counts, LimitInForce, Mode
from tenantlimits.domain.plans import lane_tag, state_id
from tenantlimits.engine.base import (
    Acknowledge,
    Collect,
    Deposit,
    LaneCount,
    Pending,
    RefusalCount,
    Tally,
)
from tenantlimits.engine.memory import MemoryEngine
from tests.engine.builders import BOLT, NOBODY, NOON, Caller, Identity, bucket, cap, log, quota

NOON_S = int(NOON.timestamp())


def lane(count, name="reads"):
    return count.lanes[lane_tag(name)]


def refusals(count, limit, name="reads"):
    return count.refusals[lane_tag(name), state_id(LimitInForce(limit=limit, tier_limit=limit))]


def test_requests_cost_and_refusals_are_three_figures(caller, usage):
    """C136: ten calls of cost 5, of which three are refused."""
    acme = caller(bucket(35))

    acme.admitted(10, cost=5)

    hour = usage("acme").running
    assert hour.start_s == NOON_S
    assert lane(hour) == LaneCount(allowed=7, refused=3, peak=0, cost=35_000)
    assert refusals(hour, bucket(35)) == RefusalCount(refused=3)


def test_every_limit_that_refused_is_counted_and_those_that_only_observe_apart(caller, usage):
    """K3, R8."""
    limits = bucket(1, name="a"), log(1, name="b"), quota(9, name="c"), bucket(1, name="d", mode=Mode.OBSERVE)
    acme = caller(*limits)

    acme.admitted(3)

    hour = usage("acme").running
    assert [refusals(hour, one) for one in (limits[0], limits[1], limits[3])] == [
        RefusalCount(refused=2), RefusalCount(refused=2), RefusalCount(observed=2),
    ]  # fmt: skip
    assert len(hour.refusals) == 3


def test_what_a_limit_would_have_refused_is_counted_of_allowed_calls_too(caller, usage):
    seen = bucket(1, mode=Mode.OBSERVE)
    acme = caller(seen)

    acme.admitted(5)

    assert lane(usage("acme").running) == LaneCount(allowed=5, cost=5_000)
    assert refusals(usage("acme").running, seen) == RefusalCount(observed=4)


def test_lanes_are_counted_apart_and_all_is_none_of_them(caller, usage):
    acme = caller(bucket(99, lane="all", name="all"), bucket(2, name="r"))

    acme.admitted(3, lane="reads")
    acme.admitted(4, cost=2.5, lane="exports")

    hour = usage("acme").running
    assert set(hour.lanes) == {lane_tag("reads"), lane_tag("exports")}
    assert lane(hour) == LaneCount(allowed=2, refused=1, cost=2_000)
    assert lane(hour, "exports") == LaneCount(allowed=4, cost=10_000)


def test_the_peak_in_flight_is_kept(caller, usage):
    """V4."""
    acme = caller(cap(3))
    leases = [acme.hold()[1] for _ in range(3)]
    acme.hold()
    for lease in leases:
        acme.release(lease)
    acme.hold()

    assert lane(usage("acme").running) == LaneCount(allowed=4, refused=1, peak=3, cost=4_000)


def test_a_cost_of_nothing_and_peeks_are_not_counted_but_a_slot_is(caller, usage):
    """C55."""
    acme = caller(bucket(5), cap(5))

    acme.admit(0)
    acme.peek(3)
    assert usage("acme").running is None
    acme.hold(0)

    assert lane(usage("acme").running) == LaneCount(allowed=1, peak=1)


def test_a_lane_without_any_limit_is_counted(caller, usage):
    """V3."""
    acme = caller()

    acme.admitted(2, cost=3)

    assert lane(usage("acme").running) == LaneCount(allowed=2, cost=6_000)


def test_settled_costs_are_counted(caller, usage):
    """K6, V3."""
    acme = caller(bucket(50))
    one = acme.admit(10)

    acme.settle(one, +2.5)
    acme.settle(one, -4)

    assert lane(usage("acme").running) == LaneCount(allowed=1, cost=8_500)


def test_users_and_credentials_count_for_their_tenant(caller, usage):
    """K2."""
    for user, key in (("ann", "k1"), ("bob", "k2"), (None, "k3")):
        caller(bucket(9), identity=Identity(tenant="acme", user=user, credential=key)).admit()

    assert lane(usage("acme").running).allowed == 3


def test_nobody_is_counted_for_somebody_else(caller, usage):
    """V2, T3."""
    caller(bucket(9)).admit()
    caller(bucket(9), identity=BOLT).admitted(2)
    caller(bucket(9), identity=NOBODY).admitted(3)

    counted = [lane(usage(tenant).running).allowed for tenant in ("acme", "bolt", "")]
    assert counted == [1, 2, 3]
    assert usage("cedar").running is None


def test_a_plan_that_counts_no_usage_leaves_none(caller, usage, engine):
    caller(bucket(9), options={"counts_usage": False}).admit()

    assert usage("acme").running is None
    assert engine.run(Pending()) == ()


def test_an_hour_closes_when_the_next_begins(caller, usage, clock):
    acme = caller(bucket(99))
    clock.step(HOUR - 0.000001)
    acme.admit(2)
    clock.step(0.000001)
    acme.admit(3)

    counted = usage("acme")

    assert [(one.start_s, lane(one).cost) for one in counted.closed] == [(NOON_S, 2_000)]
    assert (counted.running.start_s, lane(counted.running).cost) == (NOON_S + HOUR, 3_000)


def test_hours_follow_the_tenants_zone(caller, usage, clock):
    """V3: India's hours begin at half past."""
    acme = caller(bucket(99), options={"hour_offset_us": 1800 * 1e6})
    acme.admit()
    clock.step(1800)
    acme.admit()

    counted = usage("acme")

    assert [one.start_s for one in counted.closed] == [NOON_S - 1800]
    assert counted.running.start_s == NOON_S + 1800


def test_a_clock_that_goes_back_counts_on_in_the_hour_that_runs(caller, usage, clock):
    """C11: a closed hour is never opened again, so that what was flushed only grows."""
    acme = caller(bucket(99))
    acme.admit()
    clock.step(HOUR)
    acme.admit()
    clock.step(-HOUR)
    acme.admit()

    counted = usage("acme")

    assert [lane(one).allowed for one in counted.closed] == [1]
    assert lane(counted.running).allowed == 2


def test_a_tenant_is_pending_until_everything_was_flushed(caller, engine, usage, member):
    """C132, C133."""
    acme = caller(bucket(99))
    acme.admit()
    caller(bucket(99), identity=NOBODY).admit()
    assert engine.run(Pending()) == tuple(sorted([member("acme"), member("")]))

    done = engine.run(Acknowledge(member("acme"), usage("acme")))

    assert done
    assert engine.run(Pending()) == (member(""),)
    acme.admit()
    assert member("acme") in engine.run(Pending())


def test_reading_changes_nothing(caller, usage):
    """C133: a flush that dies between reading and writing is repeated."""
    caller(bucket(99)).admit(7)

    assert usage("acme") == usage("acme")
    assert lane(usage("acme").running).cost == 7_000


def test_values_are_absolute_and_only_grow(caller, engine, usage, member, clock):
    """C133: also after they were flushed, so that flushing twice counts nothing twice."""
    acme = caller(bucket(99))
    acme.admit()
    first = usage("acme").running
    engine.run(Acknowledge(member("acme"), usage("acme")))
    clock.step(60)
    acme.admit()

    second = usage("acme").running

    assert (second.start_s, second.source) == (first.start_s, first.source)
    assert lane(second).allowed == 2


def test_what_was_counted_after_the_reading_is_not_acknowledged(caller, engine, usage, member):
    """C134."""
    acme = caller(bucket(99))
    acme.admit()
    read = usage("acme")
    acme.admit()

    assert not engine.run(Acknowledge(member("acme"), read))

    assert engine.run(Pending()) == (member("acme"),)
    assert lane(usage("acme").running).allowed == 2


def test_an_hour_that_closes_between_reading_and_acknowledging_is_kept(caller, engine, usage, member, clock):
    """C134: also where nothing was counted in it since, for its row is not known to be complete."""
    acme = caller(bucket(99))
    acme.admit()
    clock.step(HOUR)
    acme.admit()
    read = usage("acme")
    clock.step(HOUR)
    acme.admit()

    assert not engine.run(Acknowledge(member("acme"), read))

    left = usage("acme")
    assert [one.start_s for one in left.closed] == [NOON_S + HOUR]
    assert engine.run(Acknowledge(member("acme"), left))
    assert usage("acme").closed == ()


def test_acknowledging_twice_is_a_success_and_takes_nothing_away(caller, engine, usage, member, clock):
    """C133: two flushes at once, or one that is repeated."""
    acme = caller(bucket(99))
    acme.admit()
    clock.step(HOUR)
    acme.admit()
    read = usage("acme")

    answers = [engine.run(Acknowledge(member("acme"), read)) for _ in range(2)]

    assert answers == [True, True]
    assert engine.run(Pending()) == ()
    assert usage("acme").closed == ()
    assert lane(usage("acme").running).allowed == 1


def test_an_old_acknowledgement_does_not_undo_a_newer_one(caller, engine, usage, member):
    """C133, C134."""
    acme = caller(bucket(99))
    acme.admit()
    old = usage("acme")
    acme.admit()
    engine.run(Acknowledge(member("acme"), usage("acme")))

    assert engine.run(Acknowledge(member("acme"), old))

    assert engine.run(Pending()) == ()
    acme.admit()
    assert not engine.run(Acknowledge(member("acme"), old))
    assert engine.run(Pending()) == (member("acme"),)


def test_an_hour_that_was_flushed_is_not_collected_again_when_the_next_begins(caller, engine, usage, member, clock):
    """C133."""
    acme = caller(bucket(99))
    acme.admit()
    engine.run(Acknowledge(member("acme"), usage("acme")))
    clock.step(HOUR)
    acme.admit()

    counted = usage("acme")

    assert counted.closed == ()
    assert counted.running.start_s == NOON_S + HOUR


def test_acknowledging_somebody_who_counted_nothing_is_a_success(engine, usage, member):
    assert engine.run(Acknowledge(member("cedar"), usage("cedar")))


def test_after_a_loss_in_mid_hour_the_count_goes_on_under_another_source(caller, usage, clock, forget):
    """C139: 600 were flushed, 10 came after the loss; the rows are summed."""
    acme = caller(bucket(1000))
    acme.admitted(3)
    before = usage("acme").running

    forget()
    clock.step(0.001)
    acme.admitted(2)

    after = usage("acme").running
    assert after.start_s == before.start_s
    assert after.source != before.source
    assert (lane(before).allowed, lane(after).allowed) == (3, 2)


def test_all_lanes_and_refusals_of_a_busy_hour_are_kept_apart(caller, usage):
    """C135: many lanes and limits in one hour, each with its own figures."""
    limits = [bucket(n + 1, name=f"l{n}", lane=f"lane{n}", counts=Counts.REQUESTS) for n in range(20)]
    acme = caller(*limits)

    for n in range(20):
        acme.admitted(25, cost=n + 1, lane=f"lane{n}")

    hour = usage("acme").running
    for n, limit in enumerate(limits):
        name = f"lane{n}"
        assert lane(hour, name) == LaneCount(allowed=n + 1, refused=24 - n, cost=1_000 * (n + 1) ** 2)
        assert refusals(hour, limit, name) == RefusalCount(refused=24 - n)


def test_refusals_from_memory_are_counted_as_if_each_had_been_asked(caller, usage, engine, member):
    """V3: by limit, by lane, in the running hour, beside what is counted already; no limit's state changes."""
    limit, seen = bucket(1), bucket(0, name="seen", mode=Mode.OBSERVE)
    acme = caller(limit, seen)
    acme.admitted(3)
    used = acme.used(limit.name)

    plan = acme.plan()
    fits = tuple(term.in_force.limit.name not in {limit.name, "seen"} for term in plan.asked)
    engine.run(Tally(plan=plan, identity=acme.identity, fits=fits, times=7))

    hour = usage("acme").running
    assert lane(hour) == LaneCount(allowed=1, refused=9, cost=1_000)
    assert refusals(hour, limit) == RefusalCount(refused=9)
    assert refusals(hour, seen) == RefusalCount(observed=10)
    assert acme.used(limit.name) == used
    assert engine.run(Pending()) == (member("acme"),)


def test_refusals_from_memory_are_counted_where_the_store_knows_nothing(caller, usage, engine):
    """After a loss of the store's memory, and for callers without a tenant."""
    for identity, key in ((Identity(tenant="acme"), "acme"), (NOBODY, "")):
        somebody = caller(bucket(0), identity=identity)
        plan = somebody.plan()

        engine.run(Tally(plan=plan, identity=identity, fits=(False,), times=2))

        assert lane(usage(key).running) == LaneCount(refused=2)


def test_hours_that_another_store_counted_are_taken_over_once(caller, usage, engine, member, clock):
    """V3: what was decided without the store is handed over when it is back; doing that again changes nothing."""
    caller(bucket(35)).admitted(10, cost=5)
    there = MemoryEngine(clock=clock)
    elsewhere = Caller(there, clock, [bucket(3)])
    elsewhere.admitted(5)

    for _ in range(2):
        counted = there.run(Collect(member("acme")))
        engine.run(Deposit(member("acme"), (counted.running,)))

    found = usage("acme")
    assert lane(found.running).allowed == 7
    assert [(hour.source, lane(hour)) for hour in found.closed] == [
        (counted.running.source, LaneCount(allowed=3, refused=2, cost=3_000))
    ]
    assert refusals(found.closed[0], bucket(3)) == RefusalCount(refused=2)
    assert engine.run(Acknowledge(member("acme"), found))
    assert usage("acme").closed == ()


def test_an_hour_that_grew_after_it_was_taken_over_is_not_forgotten(usage, engine, member, clock):
    there = MemoryEngine(clock=clock)
    elsewhere = Caller(there, clock, [bucket(9)])

    elsewhere.admitted(1)
    engine.run(Deposit(member("acme"), (there.run(Collect(member("acme"))).running,)))
    seen = usage("acme")
    elsewhere.admitted(1)
    engine.run(Deposit(member("acme"), (there.run(Collect(member("acme"))).running,)))

    assert not engine.run(Acknowledge(member("acme"), seen))
    assert [lane(hour).allowed for hour in usage("acme").closed] == [2]
    assert engine.run(Pending()) == (member("acme"),)
