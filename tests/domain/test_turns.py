"""Turns between tenants: by start tags, charged by how long operations really took."""

import pytest

from tenantlimits.domain.turns import Account, Turns


def test_the_first_of_all_starts_now():
    turns, acme = Turns(), Account()

    charged = turns.begin(acme, 1, arrived=turns.now)

    assert (turns.now, acme.ends_at) == (0, charged)


def test_what_an_operation_really_took_is_charged_when_it_ends():
    turns, acme = Turns(), Account()
    charged = turns.begin(acme, 1, arrived=turns.now)

    turns.end(acme, 1, charged=charged, seconds=5)

    assert acme.ends_at == pytest.approx(5)


def test_who_has_twice_the_share_is_charged_half():
    turns, acme, bolt = Turns(), Account(), Account()
    for account, weight in ((acme, 1), (bolt, 2)):
        turns.end(account, weight, charged=turns.begin(account, weight, arrived=turns.now), seconds=4)

    assert acme.ends_at == pytest.approx(2 * bolt.ends_at, rel=0.01)


def test_idleness_earns_no_credit():
    turns, acme, bolt = Turns(), Account(), Account()
    for _ in range(10):
        turns.end(acme, 1, charged=turns.begin(acme, 1, arrived=turns.now), seconds=1)

    turns.begin(bolt, 1, arrived=turns.now)

    assert bolt.ends_at > turns.now >= 8
