"""While the store is away each lane does what it declares, and when it is back nothing that was counted is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.test import override_settings
from django.utils import timezone

from tenantlimits.domain.decisions import Code
from tenantlimits.engine.base import Announce
from tenantlimits.gate import aadmit, admit, hold
from tenantlimits.gate.policies import policies
from tenantlimits.gate.store import stores
from tenantlimits.models import Limit, Tenant, Tier, UsageHour
from tenantlimits.signals import store_degraded, store_recovered
from tenantlimits.usage import flush
from tests.gate.stores import paused
from tests.polling import eventually
from tests.surfaces.conftest import SITE, settings_of


@pytest.fixture
def acme(transactional_db: None, own_store: redis.Redis, key_prefix: str) -> Iterator[Tenant]:
    """A tenant with limits of each kind, whose store is known and has answered once."""
    site = settings_of(key_prefix, STORE_TIMEOUT_SECONDS=0.1, REFUSAL_CACHE_SECONDS=0)
    with override_settings(**SITE, TENANTLIMITS=site):
        policies.forget()
        tier = Tier.objects.create(slug="pro", name="pro")
        add = Limit.objects.create
        add(tier=tier, name="rate", lane="uploads", amount=100, period_seconds=3600)
        add(tier=tier, name="day", lane="reads", kind="calendar_quota", amount=100, period_seconds=86_400)
        add(tier=tier, name="cap", lane="exports", kind="concurrency", amount=8)
        acme = Tenant.objects.create(key="acme", tier=tier)
        assert admit(lane="uploads", cost=1, tenant="acme").allowed
        yield acme
        eventually(lambda: not stores.health.is_degraded)


def beside(others: int) -> None:
    """So many processes more decide by the store."""
    for n in range(others):
        stores.engine.run(Announce(f"other-{n}".encode()))
    assert stores._keeper is not None
    stores._keeper.tick()
    assert stores.processes == others + 1


def admitted(calls: int, lane: str, cost: float = 1) -> int:
    return sum(admit(lane=lane, cost=cost, tenant="acme").allowed for _ in range(calls))


def test_each_process_lets_in_its_part(acme: Tenant, own_valkey: str) -> None:
    """C105: four processes together let in one limit, and the answers say that they are degraded."""
    beside(3)

    with paused(own_valkey):
        assert admitted(60, "uploads") == 25
        decision = admit(lane="uploads", cost=1, tenant="acme")

    assert decision.degraded
    assert decision.code is Code.RATE_LIMITED
    assert decision.retry_after is not None
    assert decision.retry_after > 100  # a unit every 36 s, of which this process has a quarter


def test_what_the_limit_holds_is_let_in_though_the_part_does_not(acme: Tenant, own_valkey: str) -> None:
    """C105: the answer `never` is judged undivided."""
    beside(3)

    with paused(own_valkey):
        assert admit(lane="uploads", cost=80, tenant="acme").allowed
        assert not admit(lane="uploads", cost=80, tenant="acme").never
        assert admit(lane="uploads", cost=101, tenant="acme").never


def test_a_calendar_quota_goes_on_from_the_rows(acme: Tenant, own_valkey: str) -> None:
    """80 of 100 were used today and flushed: two processes share the other 20, each with its own ten."""
    admitted(80, "reads")
    flush()
    beside(1)

    with paused(own_valkey):
        assert admitted(30, "reads") == 10


def test_slots_are_divided_too_and_given_back(acme: Tenant, own_valkey: str) -> None:
    """C7."""
    beside(3)

    with paused(own_valkey):
        with hold(lane="exports", tenant="acme"), hold(lane="exports", tenant="acme"):
            assert admit(lane="exports", tenant="acme").refused
        assert admit(lane="exports", tenant="acme").allowed


async def test_event_loops_decide_the_same(acme: Tenant, own_valkey: str) -> None:
    with paused(own_valkey):
        decisions = [await aadmit(lane="uploads", cost=1, tenant="acme") for _ in range(5)]

    assert all(one.allowed and one.degraded for one in decisions)


def test_what_was_decided_without_the_store_is_counted_when_it_is_back(acme: Tenant, own_valkey: str) -> None:
    """V3: by any process that flushes, once."""
    with paused(own_valkey):
        local = [admit(lane="uploads", cost=2, tenant="acme") for _ in range(5)]
        assert all(one.degraded for one in local)
    assert eventually(lambda: not stores.health.is_degraded)

    for _ in range(2):
        assert stores._keeper is not None
        stores._keeper.tick()
        flush()

    rows = UsageHour.objects.filter(tenant=acme, lane="uploads")
    assert (sum(row.allowed for row in rows), sum(row.cost for row in rows)) == (6, 11)


def test_decisions_are_shared_again_when_the_store_is_back(acme: Tenant, own_valkey: str) -> None:
    """R5."""
    with paused(own_valkey):
        assert admit(lane="uploads", cost=1, tenant="acme").degraded

    assert eventually(lambda: not admit(lane="uploads", cost=0, tenant="acme").degraded, seconds=2)


def test_a_change_made_meanwhile_is_in_force_after_the_backstop(acme: Tenant, own_valkey: str, key_prefix: str) -> None:
    """R3: nobody can say that the policy in memory is stale, so it is not used for longer than that."""
    with paused(own_valkey):
        assert admit(lane="uploads", cost=50, tenant="acme").allowed
        Limit.objects.filter(name="rate").update(amount=10)
        assert not admit(lane="uploads", cost=50, tenant="acme").never

        policies._is_old = lambda read_at: True  # type: ignore[method-assign]  # an hour later
        try:
            assert admit(lane="uploads", cost=50, tenant="acme").never
        finally:
            del policies._is_old


def test_an_override_that_ends_meanwhile_ends(acme: Tenant, own_valkey: str, time_machine: Any) -> None:
    """C35."""
    acme.overrides.create(
        target="rate", amount=500, reason="a migration",
        starts_at=timezone.now() - timedelta(hours=1), expires_at=timezone.now() + timedelta(hours=1),
    )  # fmt: skip
    assert admit(lane="uploads", cost=0, tenant="acme").readings[0].limit.amount == 500

    with paused(own_valkey):
        assert admit(lane="uploads", cost=0, tenant="acme").readings[0].limit.amount == 500
        time_machine.move_to(timezone.now() + timedelta(hours=2))
        assert admit(lane="uploads", cost=0, tenant="acme").readings[0].limit.amount == 100


def test_both_ends_of_an_outage_are_told_once(acme: Tenant, own_valkey: str, caplog: Any) -> None:
    """V6: it is visible, and not as a record for each request."""
    heard: list[str] = []
    degraded = lambda error, **_: heard.append(f"degraded {type(error).__name__}")  # noqa: E731
    recovered = lambda seconds, **_: heard.append(f"recovered {seconds > 0}")  # noqa: E731
    store_degraded.connect(degraded)
    store_recovered.connect(recovered)

    with caplog.at_level(logging.WARNING, logger="tenantlimits"), paused(own_valkey):
        admitted(20, "uploads")
        assert stores.health.is_degraded
    assert eventually(lambda: len(heard) == 2)

    assert heard == ["degraded TimeoutError", "recovered True"]
    assert stores.health.errors == {"TimeoutError": 1, "StoreAway": 19}
    assert stores.health.openings == 1
    assert len([one for one in caplog.records if one.name.startswith("tenantlimits")]) == 3
    store_degraded.disconnect(degraded)
    store_recovered.disconnect(recovered)
