"""A pool of the fleet as its users meet it: by name, in lanes and blocks, from threads and event loops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.test import override_settings

from tenantlimits.domain.decisions import Code
from tenantlimits.domain.errors import LimitExceeded, SlotRefused
from tenantlimits.domain.shares import Share as Slots
from tenantlimits.gate import ahold, hold
from tenantlimits.gate.policies import policies
from tenantlimits.gate.store import stores
from tenantlimits.models import Share, Tenant, Tier
from tenantlimits.pools import aslot, slot
from tenantlimits.pools.fleet import FleetPool
from tenantlimits.pools.registry import pools
from tests.gate.stores import paused
from tests.polling import eventually
from tests.surfaces.conftest import SITE, settings_of
from tests.threads import elsewhere

LEASE_SECONDS = 1


@pytest.fixture
def acme(transactional_db: None, own_store: redis.Redis, key_prefix: str) -> Iterator[Tenant]:
    """A tenant with one of two exports of the fleet, none of which are lent; the store has learnt what it had to."""
    lanes = {
        "exports": {"pool": "exports"},
        "imports": {"pool": "exports", "on_store_failure": "refuse"},
        "uploads": {"pool": "exports", "on_store_failure": "allow"},
    }
    pool = {"exports": {"scope": "fleet", "capacity": 2, "lendable": 0, "lease_seconds": LEASE_SECONDS}}
    site = settings_of(key_prefix, LANES=lanes, POOLS=pool, STORE_TIMEOUT_SECONDS=0.2)
    with override_settings(**SITE, TENANTLIMITS=site):
        policies.forget()
        tier = Tier.objects.create(slug="pro", name="Pro")
        Share.objects.create(tier=tier, pool="exports", slots=1)
        Tenant.objects.create(key="bolt", tier=tier)
        tenant = Tenant.objects.create(key="acme", tier=tier)
        pools.prepare()
        time.sleep(LEASE_SECONDS)
        with slot("exports", tenant="acme"):
            pass
        yield tenant
        eventually(lambda: not stores.health.is_degraded)


def running(tenant: str = "acme") -> int:
    found = pools.of("exports").standings().get(tenant)
    return found.running if found else 0


def refused(lane: str) -> Any:
    with pytest.raises(LimitExceeded) as error:
        hold(lane=lane, tenant="acme").__enter__()
    return error.value.decision


def test_the_scope_of_the_setting_makes_it_the_fleets(acme: Tenant) -> None:
    assert isinstance(pools.of("exports"), FleetPool)


def test_a_block_and_a_lane_have_slots_of_the_same_pool(acme: Tenant) -> None:
    """R7, C1: one share, whoever asks."""
    with slot("exports", tenant="acme"):
        assert running() == 1
        assert elsewhere(lambda: refused("exports")).code is Code.CONCURRENCY_LIMITED
        with slot("exports", tenant="bolt", wait=0):
            assert running("bolt") == 1
    with hold(lane="exports", tenant="acme"):
        assert running() == 1

    assert (running(), running("bolt")) == (0, 0)


async def test_from_an_event_loop_too(acme: Tenant) -> None:
    async with aslot("exports", tenant="acme"), ahold(lane="exports", tenant="bolt"):
        pass
    with pytest.raises(SlotRefused):
        async with aslot("exports", tenant="acme"), aslot("exports", tenant="bolt"):
            await pools.of("exports").aacquire("acme", Slots(1), wait=0)


def test_without_the_store_each_lane_does_what_it_declares(acme: Tenant, own_valkey: str) -> None:
    """V6: nothing is raised, and no slot is lost."""
    with paused(own_valkey):
        with hold(lane="exports", tenant="acme") as alone:
            assert alone.decision.degraded
        with hold(lane="uploads", tenant="acme") as allowed:
            assert allowed.decision.degraded
        assert refused("imports").code is Code.STORE_UNAVAILABLE

    assert eventually(lambda: not stores.health.is_degraded)
    with slot("exports", tenant="acme"):
        assert running() == 1
