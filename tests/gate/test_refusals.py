"""Refusals repeated from memory: they take a flood off the store, never let anybody in, and are counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import override_settings

from tenantlimits.domain.plans import lane_tag
from tenantlimits.engine.base import Collect, LaneCount, Member
from tenantlimits.engine.keys import Identity, shard_of
from tenantlimits.gate import aadmit, admit, hold, settle
from tenantlimits.gate import refusals as module
from tenantlimits.gate.policies import policies
from tenantlimits.gate.store import stores
from tenantlimits.models import Limit, Tenant, Tier
from tenantlimits.policy import set_tier
from tenantlimits.tenancy import tenant_context
from tests.surfaces.conftest import SITE, settings_of
from tests.threads import Thread

MINUTES = 3600


def settings(key_prefix: str, **settings: Any) -> dict[str, Any]:
    """Settings under which a refusal is repeated for as long as a test takes."""
    return settings_of(key_prefix, **{"REFUSAL_CACHE_SECONDS": 5, **settings})


@pytest.fixture
def acme(transactional_db: None, key_prefix: str) -> Iterator[Tenant]:
    """A tenant of three uploads of the burst, and one export at once."""
    with override_settings(**SITE, TENANTLIMITS=settings(key_prefix)):
        policies.forget()
        for slug, amount in (("pro", 3), ("big", 1000)):
            tier = Tier.objects.create(slug=slug, name=slug)
            Limit.objects.create(tier=tier, name="rate", lane="uploads", amount=amount, period_seconds=MINUTES)
            Limit.objects.create(tier=tier, name="cap", lane="exports", kind="concurrency", amount=1)
        yield Tenant.objects.create(key="acme", tier=Tier.objects.get(slug="pro"))


def spend(times: int = 3, lane: str = "uploads") -> None:
    for _ in range(times):
        assert admit(lane=lane, cost=1, tenant="acme").allowed


def scripts_run(client: redis.Redis) -> int:
    """How many scripts the server has run."""
    return int(client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


def counted(lane: str = "uploads") -> LaneCount:
    """What the store has counted for acme."""
    member = Member(shard_of(Identity(tenant="acme")), "acme")
    hours = stores.engine.run(Collect(member))
    assert hours.running is not None
    return hours.running.lanes[lane_tag(lane)]


def test_a_refusal_is_repeated_without_asking_the_store(acme: Tenant, own_store: redis.Redis) -> None:
    """P9: a flood of one tenant takes nothing from the store that all the others share."""
    spend()
    first = admit(lane="uploads", cost=1, tenant="acme")
    before = scripts_run(own_store)

    repeated = [admit(lane="uploads", cost=cost, tenant="acme") for cost in (1, 2, 1)]

    assert all(one is first for one in repeated)
    assert first.refused
    assert scripts_run(own_store) == before


async def test_it_is_repeated_to_event_loops_too(acme: Tenant) -> None:
    for _ in range(3):
        await aadmit(lane="uploads", cost=1, tenant="acme")
    first = await aadmit(lane="uploads", cost=1, tenant="acme")

    assert await aadmit(lane="uploads", cost=1, tenant="acme") is first


@pytest.mark.parametrize(
    "asked",
    [
        {"lane": "uploads", "cost": 0.5, "tenant": "acme"},
        {"lane": "reads", "cost": 1, "tenant": "acme"},
        {"lane": "uploads", "cost": 1, "tenant": "bolt"},
    ],
    ids=["a smaller cost", "another lane", "another tenant"],
)
def test_another_question_is_asked(acme: Tenant, asked: dict[str, Any]) -> None:
    Tenant.objects.create(key="bolt", tier=acme.tier)
    spend()
    first = admit(lane="uploads", cost=1, tenant="acme")

    assert admit(**asked) is not first


def test_it_is_never_repeated_beyond_its_own_wait(acme: Tenant) -> None:
    """R2: waiting as told is enough."""
    Limit.objects.filter(name="rate").update(amount=36_000, burst=1)  # a unit every 0.1 s
    policies.forget()
    spend(1)
    assert admit(lane="uploads", cost=1, tenant="acme").refused

    time.sleep(0.11)

    assert admit(lane="uploads", cost=1, tenant="acme").allowed


def test_a_full_cap_is_asked_every_time(acme: Tenant) -> None:
    """A slot may come free at any moment."""
    with hold(lane="exports", tenant="acme"):
        assert admit(lane="exports", tenant="acme").refused

    assert admit(lane="exports", tenant="acme").allowed


def test_repeated_refusals_are_counted_with_all_the_others(acme: Tenant) -> None:
    """V3: by whichever thread they were repeated."""
    spend()
    threads = [
        Thread(target=lambda: [admit(lane="uploads", cost=1, tenant="acme") for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    stores.settle()

    assert counted() == LaneCount(allowed=3, refused=200, cost=3_000)


def test_a_change_in_this_process_is_in_force_at_once(acme: Tenant) -> None:
    """R3: other processes see it within REFUSAL_CACHE_SECONDS."""
    spend()
    assert admit(lane="uploads", cost=1, tenant="acme").refused

    set_tier("acme", "big", reason="they paid")

    assert admit(lane="uploads", cost=1, tenant="acme").allowed


def test_with_the_setting_at_zero_the_store_is_asked_each_time(acme: Tenant, key_prefix: str) -> None:
    with override_settings(TENANTLIMITS=settings(key_prefix, REFUSAL_CACHE_SECONDS=0)):
        spend()
        first = admit(lane="uploads", cost=1, tenant="acme")

        assert admit(lane="uploads", cost=1, tenant="acme") is not first


def test_what_was_given_back_is_seen_when_the_repetition_ends(acme: Tenant, key_prefix: str) -> None:
    """K6."""
    with override_settings(TENANTLIMITS=settings(key_prefix, REFUSAL_CACHE_SECONDS=0.05)), tenant_context("acme"):
        admit(lane="uploads", cost=3)
        assert admit(lane="uploads", cost=1).refused
        settle(cost=1)

        time.sleep(0.06)

        assert admit(lane="uploads", cost=1).allowed


def test_memory_is_bounded_and_nothing_that_is_dropped_goes_uncounted(
    acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C8: a flood by ever new callers."""
    monkeypatch.setattr(module, "MOST_KEPT", 2)
    Limit.objects.filter(tier=acme.tier, name="rate").update(amount=0)
    for n in range(5):
        Tenant.objects.create(key=f"t{n}", tier=acme.tier)

    for n in range(5):
        for _ in range(3):
            assert admit(lane="uploads", cost=1, tenant=f"t{n}").refused

    assert len(stores.refusals._kept) == 2
    assert sum(tally.times for tally in stores.refusals.uncounted()) == 10
    assert stores.refusals.uncounted() == []
