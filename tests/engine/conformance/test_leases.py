"""Slots that are held and come back, over both stores."""

import os

import pytest

from tenantlimits.domain.decisions import Code
from tenantlimits.domain.limits import Layer, Mode
from tenantlimits.engine.base import Admit, Release, Renew
from tests.engine.builders import ACME, BOLT, LEASE_SECONDS, bucket, cap, log, quota


def test_no_more_than_the_cap_are_in_flight_and_one_release_frees_one(caller):
    """C05, C1: twenty leases within one microsecond."""
    acme = caller(cap(20))
    leases = [acme.hold()[1] for _ in range(20)]

    refused, _ = acme.hold()
    freed = acme.release(leases[7])

    assert len({lease.id for lease in leases}) == 20
    assert refused.code is Code.CONCURRENCY_LIMITED
    assert freed
    assert [acme.hold()[0].allowed for _ in range(2)] == [True, False]


def test_releasing_twice_frees_nothing_twice(caller):
    """C70, C7."""
    acme = caller(cap(2))
    lease, other = (acme.hold()[1] for _ in range(2))

    answers = [acme.release(lease) for _ in range(3)]

    assert answers == [True, False, False]
    assert acme.used("concurrency") == 1
    assert acme.release(other)
    assert acme.used("concurrency") == 0


def test_a_strangers_lease_frees_nothing(caller):
    """C70: an unknown one, and one of another tenant."""
    acme, bolt = caller(cap(2)), caller(cap(2), identity=BOLT)
    _, held = acme.hold()
    _, of_bolt = bolt.hold()

    unknown = acme.release(acme.lease(b"whatever"))
    with_the_id_of_bolt = acme.release(acme.lease(of_bolt.id))
    at_bolt = bolt.release(bolt.lease(held.id))

    assert (unknown, with_the_id_of_bolt, at_bolt) == (False, False, False)
    assert (acme.used("concurrency"), bolt.used("concurrency")) == (1, 1)


def test_a_release_needs_no_policy(caller, engine):
    """C71: the tier may be gone between taking and giving back."""
    acme = caller(cap(2), bucket(9), log(9), quota(9))
    acme.admit(3)
    _, lease = acme.hold(2)
    acme.limits = ()

    assert engine.run(Release(lease))

    acme.change(cap(2), bucket(9), log(9), quota(9))
    assert [one.used for one in acme.peek(0).readings] == [0, 5, 5, 5]


def test_a_lost_holders_slot_comes_back_after_one_lease_though_others_go_on(caller, clock):
    """C63, C66: traffic does not keep it alive."""
    acme = caller(cap(1), cap(9, name="wide"))
    acme.hold()

    for _ in range(LEASE_SECONDS - 1):
        clock.step(1)
        assert acme.hold()[0].refused
    clock.step(1)

    assert acme.hold()[0].allowed


def test_a_renewed_lease_outlives_its_length(caller, clock):
    """C68: eight renewals, and nobody else gets in."""
    acme = caller(cap(1))
    _, lease = acme.hold()

    for _ in range(8):
        clock.step(LEASE_SECONDS - 1)
        assert acme.renew(lease) == (True,)
        assert acme.hold()[0].refused
    clock.step(LEASE_SECONDS)

    assert acme.hold()[0].allowed


def test_a_lapsed_lease_is_not_renewed_and_its_release_frees_nobody_else(caller, clock):
    """C69: the paused holder's heartbeat fails, and its release does not free the new holder's slot."""
    acme = caller(cap(1))
    _, paused = acme.hold()
    clock.step(LEASE_SECONDS)
    _, new = acme.hold()

    assert acme.renew(paused, again=False) == (False,)
    assert acme.renew(paused, again=True) == (False,)
    assert not acme.release(paused)
    assert acme.used("concurrency") == 1
    assert acme.renew(new) == (True,)


def test_a_lapsed_lease_may_be_taken_again_where_a_slot_is_free(caller, clock):
    acme = caller(cap(1))
    _, lease = acme.hold()
    clock.step(LEASE_SECONDS)

    assert acme.renew(lease, again=False) == (False,)
    assert acme.renew(lease, again=True) == (True,)
    assert acme.hold()[0].refused


def test_many_leases_of_many_tenants_are_renewed_at_once(caller, engine, clock):
    """C7."""
    callers = [caller(cap(3), cap(2, layer=Layer.USER, name="user"), identity=who) for who in (ACME, BOLT)]
    leases = [one.hold()[1] for one in callers for _ in range(2)]
    callers[1].release(leases[3])
    clock.step(LEASE_SECONDS - 1)

    held = engine.run(Renew(tuple(leases), (False,) * 4))
    clock.step(LEASE_SECONDS - 1)

    assert held == (True, True, True, False)
    assert [one.used("concurrency") for one in callers] == [2, 1]
    assert [one.used("user") for one in callers] == [2, 1]


def test_renewing_nothing_is_nothing(engine):
    assert engine.run(Renew((), ())) == ()


@pytest.mark.parametrize("asked_in_between", [False, True])
def test_after_the_store_has_lost_everything_leases_come_back_at_their_next_renewal(caller, forget, asked_in_between):
    """C11, C108: also where a policy was begun, or somebody asked in another lane, before the renewal came."""
    acme = caller(cap(2))
    leases = [acme.hold()[1] for _ in range(2)]
    forget()
    if asked_in_between:
        acme.begin()
        caller(bucket(5, lane="exports")).admit(lane="exports")

    renewed = acme.renew(*leases, again=True)

    assert renewed == (True, True)
    assert acme.used("concurrency") == 2
    assert acme.hold()[0].refused


def test_after_the_store_has_lost_everything_nobody_holds_what_he_may_not_take_again(caller, forget):
    """C69, C108."""
    acme = caller(cap(2))
    _, lease = acme.hold()
    forget()
    assert acme.renew(lease, again=False) == (False,)

    acme.begin()

    assert acme.renew(lease, again=False) == (False,)
    assert not acme.release(lease)
    assert acme.used("concurrency") == 0


def test_after_the_store_has_lost_everything_no_more_than_the_cap_come_back(caller, forget):
    """C108: two new ones came first."""
    acme = caller(cap(3))
    old = [acme.hold()[1] for _ in range(3)]
    forget()
    acme.hold()
    acme.hold()

    renewed = acme.renew(*old, again=True)

    assert sorted(renewed) == [False, False, True]
    assert acme.used("concurrency") == 3


def test_a_lowered_cap_ends_nobody_and_lets_nobody_in_until_enough_have_ended(caller, clock):
    """C29: from ten to four with eight in flight."""
    acme = caller(cap(10))
    leases = [acme.hold()[1] for _ in range(8)]
    acme.change(cap(4))

    assert acme.renew(*leases) == (True,) * 8
    for lease in leases[:4]:
        assert acme.hold()[0].refused
        acme.release(lease)
    assert acme.hold()[0].refused
    acme.release(leases[4])

    assert acme.hold()[0].allowed


def test_the_slot_and_the_rates_are_one_decision(caller):
    """R7: who is refused by a rate holds no slot, and who gets no slot is charged nothing."""
    acme = caller(cap(2), bucket(3), log(9))
    acme.hold(2)
    by_rate, _ = acme.hold(2)
    acme.hold(1)
    by_slot, _ = acme.hold(0.001)

    assert [one.limit.kind.value for one in by_rate.refusals] == ["token_bucket"]
    assert "concurrency" in [one.limit.kind.value for one in by_slot.refusals]
    assert [one.used for one in acme.peek(0).readings] == [2, 3, 3]


def test_a_slot_costs_one_whatever_the_operation_costs(caller):
    """K1: an operation of cost 0 still runs."""
    acme = caller(cap(2))

    first, second, third = acme.hold(50)[0], acme.hold(0)[0], acme.hold(0)[0]

    assert (first.allowed, second.allowed, third.allowed) == (True, True, False)


def test_asking_without_a_lease_takes_no_slot(caller):
    acme = caller(cap(1))

    assert acme.admitted(5) == 5
    assert acme.used("concurrency") == 0


def test_an_operation_counts_in_every_cap_that_it_is_under(caller):
    """C7, K2."""
    acme = caller(cap(5, lane="all", name="all"), cap(3), cap(2, layer=Layer.USER, name="user"))
    leases = [acme.hold()[1] for _ in range(2)]

    refused, _ = acme.hold()

    assert [one.limit.name for one in refused.refusals] == ["user"]
    assert [acme.used(name) for name in ("all", "concurrency", "user")] == [2, 2, 2]
    assert acme.release(leases[0])
    assert [acme.used(name) for name in ("all", "concurrency", "user")] == [1, 1, 1]


def test_a_cap_that_observes_counts_above_its_amount(caller):
    acme = caller(cap(1, mode=Mode.OBSERVE))

    leases = [acme.hold()[1] for _ in range(3)]

    assert acme.used("concurrency") == 3
    assert acme.renew(*leases) == (True,) * 3
    assert [acme.release(lease) for lease in leases] == [True] * 3


def test_a_cap_that_is_off_is_no_part_of_a_lease(caller):
    """C68: a heartbeat must not report a slot as lost that nobody ever took."""
    acme = caller(cap(3), cap(3, name="off", mode=Mode.OFF))
    _, lease = acme.hold()

    assert acme.renew(lease) == (True,)
    assert (acme.used("concurrency"), acme.used("off")) == (1, 0)


def test_a_cap_of_zero_lets_nothing_run(caller):
    """C188."""
    assert caller(cap(0)).hold()[0].code is Code.BLOCKED


def test_a_cap_of_hundreds_is_still_exact(caller):
    """C05: far above the number of leases that fit the fast path of a small one."""
    acme = caller(cap(300), bucket(10**6))
    leases = [acme.hold()[1] for _ in range(300)]

    assert acme.hold()[0].refused
    assert all(acme.release(lease) for lease in leases[::2])
    assert acme.used("concurrency") == 150
    assert acme.renew(*leases[1::2]) == (True,) * 150


def test_a_lease_id_that_looks_like_other_bytes_of_the_state_frees_only_itself(caller, engine):
    """C70: ids are random bytes; one may occur by chance in a shape, a field or another id's neighbourhood."""
    acme = caller(cap(5), bucket(9), log(9))
    tricky = [b"\0" * 7 + b"\1", b"\1" * 8, b"\x01\x00\x00\x00\x00\x00\x00\x00", os.urandom(8)]
    for lease in tricky:
        assert engine.run(Admit(plan=acme.plan(), identity=ACME, cost=1000, lease=lease)).status == 1

    assert acme.release(acme.lease(b"\0" * 7 + b"\2")) is False
    assert [acme.release(acme.lease(lease)) for lease in tricky] == [True] * 4
    assert [one.used for one in acme.peek(0).readings] == [0, 4, 4]
