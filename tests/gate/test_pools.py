"""Lanes with a pool: a slot first, then the limits; and what happens to excess is the lane's to say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client, override_settings

from tenantlimits.domain.decisions import Code
from tenantlimits.domain.errors import LimitExceeded
from tenantlimits.gate import admit, ahold, hold
from tenantlimits.gate.policies import policies
from tenantlimits.gate.store import stores
from tenantlimits.models import Limit, Share, Tenant, Tier
from tenantlimits.pools import slot
from tenantlimits.pools.registry import pools
from tenantlimits.testing import memory_engine
from tests.gate.test_refusals import counted
from tests.polling import eventually
from tests.surfaces.conftest import SITE, settings_of
from tests.threads import Thread, elsewhere

ANN = {"X-Session": "acme/ann"}


@pytest.fixture
def acme(transactional_db: None, key_prefix: str) -> Iterator[Tenant]:
    """A tenant with one of two workers; uploads reject what is too much, exports wait for it."""
    lanes = {
        "uploads": {"pool": "workers"},
        "exports": {"pool": "workers", "excess": "wait", "wait_seconds": 5, "queue": 1},
        "reads": {},
    }
    pool = {"workers": {"capacity": 2, "lendable": 0}}
    with override_settings(**SITE, TENANTLIMITS=settings_of(key_prefix, LANES=lanes, POOLS=pool)):
        policies.forget()
        tier = Tier.objects.create(slug="pro", name="Pro")
        Share.objects.create(tier=tier, pool="workers", slots=1)
        Limit.objects.create(tier=tier, name="rate", lane="uploads", amount=5, period_seconds=3600)
        yield Tenant.objects.create(key="acme", tier=tier)


def running() -> int:
    found = pools.of("workers").standings().get("acme")
    return found.running if found else 0


def waits() -> int:
    """How many of acme's operations wait."""
    found = pools.of("workers").standings().get("acme")
    return found.waiting if found else 0


def refused(**asked: Any) -> Any:
    """The decision that refuses a hold."""
    with pytest.raises(LimitExceeded) as error:
        hold(tenant="acme", **asked).__enter__()
    return error.value.decision


def test_a_held_operation_has_a_slot_of_its_lanes_pool(acme: Tenant) -> None:
    """R7: until it ends."""
    with hold(lane="uploads", tenant="acme") as admission:
        assert running() == 1
        assert admission.holds_slot

    assert running() == 0


def test_an_operation_that_is_not_held_takes_none(acme: Tenant) -> None:
    assert admit(lane="uploads", tenant="acme").allowed
    assert running() == 0


def test_too_much_is_rejected_at_once_and_says_whose_share_is_in_use(acme: Tenant) -> None:
    """C4, http.md: 429 with an estimate."""
    with hold(lane="uploads", tenant="acme"):
        decision = elsewhere(lambda: refused(lane="uploads"))

    assert decision.code is Code.CONCURRENCY_LIMITED
    assert (decision.by_pool.name, decision.by_pool.share, decision.by_pool.running) == ("workers-share", 1, 1)
    assert decision.retry_after_seconds >= 1
    assert "pool workers" in decision.summary()


def test_a_full_pool_is_not_the_tenants_fault(acme: Tenant) -> None:
    """http.md: capacity_full, 503."""
    for key in ("bolt", "cedar"):
        Tenant.objects.create(key=key, tier=acme.tier)
    with slot("workers", tenant="bolt"), slot("workers", tenant="cedar"):
        assert refused(lane="uploads").code is Code.CAPACITY_FULL


def test_a_slot_refused_charges_no_limit_and_limits_refused_take_no_slot(acme: Tenant) -> None:
    """Slot first, then rates; if the rates refuse, the slot goes back."""
    with hold(lane="uploads", tenant="acme"):
        elsewhere(lambda: refused(lane="uploads"))
    for _ in range(4):
        with hold(lane="uploads", tenant="acme"):
            pass

    assert refused(lane="uploads").code is Code.RATE_LIMITED
    assert running() == 0


def test_what_a_pool_refused_is_counted_as_refused(acme: Tenant) -> None:
    """V3."""
    with hold(lane="uploads", tenant="acme"):
        for _ in range(3):
            elsewhere(lambda: refused(lane="uploads"))
    stores.settle()

    assert (counted("uploads").allowed, counted("uploads").refused) == (1, 3)


def test_a_lane_that_waits_runs_when_its_turn_has_come_and_turns_away_beyond_its_queue(acme: Tenant) -> None:
    """C4: bounded in length."""
    done: list[str] = []

    def export() -> None:
        with hold(lane="exports", tenant="acme"):
            done.append("exported")

    with hold(lane="exports", tenant="acme"):
        waiting = Thread(target=export)
        waiting.start()
        assert eventually(waits)
        assert elsewhere(lambda: refused(lane="exports")).code is Code.QUEUE_FULL
        assert done == []
    waiting.join()

    assert done == ["exported"]


def test_who_waited_too_long_is_told_so(acme: Tenant, settings: Any) -> None:
    """http.md: queue_timeout."""
    lanes = settings.TENANTLIMITS["LANES"] | {"exports": {"pool": "workers", "excess": "wait", "wait_seconds": 0.01}}
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"LANES": lanes}
    with hold(lane="exports", tenant="acme"):
        assert elsewhere(lambda: refused(lane="exports")).code is Code.QUEUE_TIMEOUT


def test_an_operation_inside_another_of_the_same_pool_runs_in_its_slot(acme: Tenant) -> None:
    with hold(lane="uploads", tenant="acme"), hold(lane="exports", tenant="acme"):
        assert running() == 1


def test_a_request_holds_its_slot_until_its_response_is_closed(acme: Tenant) -> None:
    """Plain views, over the middleware."""
    client = Client(headers=ANN)
    with slot("workers", tenant="acme"):
        response = elsewhere(lambda: client.get("/upload/"))

    body = response.json()
    assert (response.status_code, body["code"], body["violated-policies"]) == (
        429, "concurrency_limited", ["workers-share"],
    )  # fmt: skip
    assert body["limit"]["amount"] == 1
    assert response["RateLimit"] == '"workers-share";r=0'
    assert response["RateLimit-Policy"] == '"workers-share";q=1;qu="concurrent-requests"'
    assert int(response["Retry-After"]) >= 1
    assert client.get("/upload/").status_code == 200
    assert running() == 0


@pytest.mark.parametrize("path", ["/function/", "/export/", "/stream/"], ids=["DRF", "plain", "stream"])
def test_requests_of_every_sort_wait_for_their_turn(acme: Tenant, path: str) -> None:
    """C4: an export waits while another one runs, and gives its slot to the next when it has been sent."""
    client, held = Client(headers=ANN), hold(lane="exports", tenant="acme")
    held.__enter__()
    statuses: list[int] = []

    def export() -> None:
        response = client.get(path)
        assert running() == (1 if response.streaming else 0)
        b"".join(response)
        response.close()
        statuses.append(response.status_code)

    waiting = Thread(target=export)
    waiting.start()
    assert eventually(waits)
    held.__exit__(None, None, None)
    waiting.join()

    assert statuses == [200]
    assert running() == 0


async def test_an_awaited_request_waits_without_holding_up_its_loop(acme: Tenant) -> None:
    """C4, under ASGI: other requests of the loop go on meanwhile."""
    client = AsyncClient()
    await client.get("/awaited/", headers=ANN)  # its policy is known
    async with ahold(lane="exports", tenant="acme"):
        export = asyncio.ensure_future(client.get("/awaited-export/", headers=ANN))
        assert await sync_to_async(eventually, thread_sensitive=False)(waits)
        other = await client.get("/awaited/", headers=ANN)
        assert not export.done()

    assert ((await export).status_code, other.status_code) == (200, 200)
    assert running() == 0


async def test_an_awaited_request_that_is_cancelled_while_it_waits_takes_nothing(acme: Tenant) -> None:
    """C65, C72."""
    client = AsyncClient()
    await client.get("/awaited/", headers=ANN)
    async with ahold(lane="exports", tenant="acme"):
        export = asyncio.ensure_future(client.get("/awaited-export/", headers=ANN))
        assert await sync_to_async(eventually, thread_sensitive=False)(waits)
        export.cancel()
        await asyncio.gather(export, return_exceptions=True)
        assert pools.of("workers").standings()["acme"].waiting == 0

    assert running() == 0


def test_a_store_in_memory_counts_what_a_pool_refused_at_once(acme: Tenant) -> None:
    with memory_engine(), hold(lane="uploads", tenant="acme"):
        elsewhere(lambda: refused(lane="uploads"))

        assert counted("uploads").refused == 1
    assert not stores.refusals.uncounted()
