"""What must hold for every sequence of operations, over both stores. Every example is a tenant of its own."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tenantlimits.domain.limits import HOUR, MINUTE, Counts, Layer
from tenantlimits.domain.periods import US, to_us
from tenantlimits.engine.keys import Identity
from tests.engine.builders import LEASE_SECONDS, NOON, Caller, bucket, cap, counter, log, quota
from tests.engine.limit_strategies import TIERS

SOME = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
GAPS_US = st.sampled_from([0, 1, 1000, 300_000, US - 1, US, 2_500_000, 7 * US, MINUTE * US])
BACK_US = st.sampled_from([-1, -1000, -US, -MINUTE * US, -HOUR * US])
COSTS = st.integers(1, 4000).map(lambda thousandths: thousandths / 1000)
CALLS = st.lists(st.tuples(GAPS_US | GAPS_US | GAPS_US | BACK_US, COSTS), min_size=5, max_size=50)
_number = itertools.count()


def somebody_new(engine, clock, *limits):
    clock.now_us = to_us(NOON)
    return Caller(engine, clock, limits, identity=Identity(tenant=f"t{next(_number)}", user="u", credential="c"))


def admitted(acme, clock, calls):
    """`(time that has passed, units)` of every admitted call. Steps back are no time that has passed."""
    passed_us, found = 0, []
    for gap_us, cost in calls:
        clock.now_us += gap_us
        passed_us += max(gap_us, 0)
        if acme.admit(cost).allowed:
            found.append((passed_us, cost))
    return found


@SOME
@given(
    limit=st.builds(
        lambda amount, period, burst: bucket(amount, period, burst=burst),
        st.integers(1, 20), st.sampled_from([1, 3, MINUTE]), st.integers(1, 30) | st.none(),
    ),
    calls=CALLS,
)  # fmt: skip
def test_a_bucket_never_admits_more_than_its_burst_and_what_refilled(engine, clock, limit, calls):
    """R1, C10, C11, C15, C16: in every window, also when the clock steps back."""
    acme = somebody_new(engine, clock, limit)

    found = admitted(acme, clock, calls)

    for first, (start_us, _) in enumerate(found):
        units = 0.0
        for at_us, cost in found[first:]:
            units += cost
            assert units <= limit.capacity + limit.rate * (at_us - start_us) / US + 1e-6


@SOME
@given(amount=st.integers(1, 20), period=st.sampled_from([1, 3, MINUTE]), calls=CALLS)
def test_a_log_never_admits_more_than_its_amount_in_any_window(engine, clock, amount, period, calls):
    """R4, C10, C11: also when the clock steps back."""
    acme = somebody_new(engine, clock, log(amount, period))

    found = admitted(acme, clock, calls)

    for start_us, _ in found:
        in_window = sum(cost for at_us, cost in found if start_us <= at_us < start_us + period * US)
        assert in_window <= amount + 1e-9


@SOME
@given(amount=st.integers(1, 20), period=st.sampled_from([1, 3, MINUTE]), calls=st.lists(st.tuples(GAPS_US, COSTS)))
def test_a_log_refuses_nothing_that_would_fit(engine, clock, amount, period, calls):
    """R9: an exact limit is exact in both directions."""
    made = []
    acme = somebody_new(engine, clock, log(amount, period))

    for gap_us, cost in calls:
        clock.now_us += gap_us
        used = sum(one for at_us, one in made if at_us + period * US > clock.now_us)
        allowed = acme.admit(cost).allowed
        assert allowed == (round((used + cost) * 1000) <= amount * 1000)
        if allowed:
            made.append((clock.now_us, cost))


@SOME
@given(amount=st.integers(1, 20), period=st.sampled_from([1, 3, MINUTE]), calls=CALLS)
def test_a_counter_never_admits_twice_its_amount_in_any_window(engine, clock, amount, period, calls):
    """R9, C10, C11: nor more than the amount in one of its own; also when the clock steps back."""
    acme = somebody_new(engine, clock, counter(amount, period))

    found = admitted(acme, clock, calls)

    for start_us, _ in found:
        in_window = sum(cost for at_us, cost in found if start_us <= at_us < start_us + period * US)
        assert in_window < 2 * amount


def _rate(make, amount, period, layer, counts):
    return make(amount, HOUR if make is quota else period, layer=layer, counts=counts)


RATES = st.lists(
    st.builds(
        _rate, st.sampled_from([bucket, log, quota, counter]), st.integers(2, 5), st.sampled_from([1, 3, MINUTE]),
        st.sampled_from(Layer), st.sampled_from(Counts),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@SOME
@given(rates=RATES, calls=CALLS, cost=st.sampled_from([0.5, 1, 1.999, 2]))
def test_waiting_as_told_is_enough_and_not_too_long_whatever_limits_refuse(engine, clock, rates, calls, cost):
    """R2, R6, C13, C27: for the longest wait of all kinds together, when nobody else spends."""
    acme = somebody_new(engine, clock, *(replace(one, name=f"l{n}") for n, one in enumerate(rates)))
    admitted(acme, clock, calls)
    while acme.admit(cost).allowed:
        pass
    told_us = round(acme.peek(cost).retry_after * US)

    clock.now_us += max(0, told_us - 4)
    assert acme.peek(cost).refused
    clock.now_us += min(4, told_us)
    assert acme.admit(cost).allowed


EVENTS = st.lists(
    st.tuples(st.sampled_from(["hold", "hold", "hold", "release", "renew", "again", "wait"]), st.integers(0, 10**6)),
    max_size=60,
)


@SOME
@given(amount=st.integers(1, 5), events=EVENTS)
def test_in_flight_is_never_above_the_cap_and_every_lapsed_lease_comes_back(engine, clock, amount, events):
    """R7, C5, C7, C05, C63 to C70: a slot is given if, and only if, fewer than the cap hold one."""
    all_leases, ends_us = [], {}
    acme = somebody_new(engine, clock, cap(amount))

    for event, which in events:
        holding = {lease for lease, end_us in ends_us.items() if end_us > clock.now_us}
        lease = all_leases[which % len(all_leases)] if all_leases else acme.lease(b"nobody's")
        if event == "hold":
            decision, lease = acme.hold()
            all_leases.append(lease)
            taken = len(holding) < amount
            assert decision.allowed == taken
        elif event == "release":
            # One that has lapsed may still be in the store until somebody else asks; it frees nobody else's.
            assert acme.release(lease) or lease.id not in holding
            ends_us.pop(lease.id, None)
            continue
        elif event == "wait":
            clock.step(which % (LEASE_SECONDS + 1))
            continue
        else:
            (taken,) = acme.renew(lease, again=event == "again")
            assert taken == (lease.id in holding or (event == "again" and len(holding) < amount))
        if taken:
            ends_us[lease.id] = clock.now_us + LEASE_SECONDS * US

    clock.step(LEASE_SECONDS)
    assert [acme.hold()[0].allowed for _ in range(amount + 1)] == [True] * amount + [False]


@SOME
@given(tier=TIERS, calls=st.lists(COSTS, min_size=1, max_size=20))
def test_a_refusal_changes_no_limit(engine, clock, tier, calls):
    """R4: whatever the limits, what is left after a refusal is what was left before."""
    acme = somebody_new(engine, clock, *tier)

    for cost in calls:
        before = acme.peek(0, "x").states
        decision = acme.admit(cost, "x")
        if decision.refused:
            assert acme.peek(0, "x").states == before


@pytest.mark.parametrize("kind", ["bucket", "log", "counter"])
@SOME
@given(cost=COSTS, delta=st.integers(-5000, 5000).map(lambda thousandths: thousandths / 1000))
def test_settling_is_as_if_the_right_cost_had_been_known(engine, clock, kind, cost, delta):
    """K6: within one capacity of debt."""
    limit = {"bucket": bucket, "log": log, "counter": counter}[kind](10, MINUTE)
    known, settled = somebody_new(engine, clock, limit), somebody_new(engine, clock, limit)
    assume(0 <= cost + delta <= 10)

    known.admit(cost + delta)
    settled.settle(settled.admit(cost), delta)

    assert settled.used(limit.name) == pytest.approx(known.used(limit.name), abs=1e-6)
