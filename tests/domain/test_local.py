"""One process's part of every limit, for when it has to decide alone."""

from datetime import UTC, datetime

import pytest

from tenantlimits.domain.buckets import Bucket
from tenantlimits.domain.limits import UNLIMITED, Mode
from tenantlimits.domain.local import local_plan
from tenantlimits.domain.periods import to_us
from tenantlimits.domain.plans import Cap, Stamps
from tests.engine.builders import bucket, cap, log, plan_of, quota

NOON_US = to_us(datetime(2026, 11, 30, 12, tzinfo=UTC))


def part(limit, *, processes=4, cost=1, flushed=0.0):
    """The spec of the only limit of a plan, as one process has it."""
    plan = plan_of([limit], now_us=NOON_US)
    known = {plan.terms[0].id: flushed * 1000}
    return local_plan(plan, processes=processes, cost=round(cost * 1000), flushed=known).terms[0].spec


def test_rate_and_burst_are_divided_by_the_processes():
    """C105: together they let in what the limit does."""
    whole = plan_of([bucket(60, 60, burst=20)], now_us=NOON_US).terms[0].spec

    assert part(bucket(60, 60, burst=20)) == Bucket(whole.burst / 4, whole.per_us / 4)


@pytest.mark.parametrize(("limit", "amount"), [(log(100), 25_000), (quota(100), 25_000)])
def test_exact_limits_are_divided_too(limit, amount):
    assert part(limit).amount == amount


def test_an_operation_that_the_whole_limit_has_room_for_fits_one_part():
    """C105: else what costs more than a part would never be let in while the store is away."""
    assert part(bucket(100), cost=60).burst == 60_000
    assert part(log(100), cost=60).amount == 60_000


def test_what_the_whole_limit_never_holds_is_never_let_in():
    """The answer `never` is judged undivided."""
    assert part(bucket(100), cost=150).burst == 100_000
    assert part(bucket(0), cost=1).burst == 0


def test_a_calendar_quota_begins_with_what_the_rows_know():
    """Of 100 a day 80 are flushed: four processes share the other 20."""
    assert part(quota(100), flushed=80).amount == 5_000
    assert part(quota(100), flushed=200).amount == 0


def test_a_cap_is_divided_and_leaves_each_process_one_slot():
    assert [part(cap(amount)) for amount in (10, 3, 0, UNLIMITED)] == [Cap(2), Cap(1), Cap(0), Cap(UNLIMITED)]


def test_no_stamp_and_no_validity_of_the_store_binds_it():
    plan = plan_of([bucket(5, mode=Mode.OBSERVE)], now_us=NOON_US, stamps=Stamps(b"t" * 8, b"s" * 8))

    local = local_plan(plan, processes=2, cost=0, flushed={})

    assert local.stamps is None
    assert (local.valid_from_us, local.valid_until_us) == (0.0, UNLIMITED)
    assert local.asked[0].mode is Mode.OBSERVE
