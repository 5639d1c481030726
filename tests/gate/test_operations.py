"""The verbs that code calls outside of requests."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from django.test import override_settings

from tenantlimits.domain.errors import InvalidCost, InvalidTenant, LimitExceeded, TenantLimitsError, UnknownLane
from tenantlimits.engine.keys import Identity
from tenantlimits.gate import aadmit, admit, ahold, apeek, asettle, hold, peek, settle
from tenantlimits.gate.overview import overview
from tenantlimits.gate.store import stores
from tenantlimits.models import Limit, Tenant, Tier
from tenantlimits.tenancy import current_tenant, tenant_context


@pytest.fixture
def acme(db: None, memory_engine: Any, settings: Any) -> Tenant:
    """A tenant with uploads of 10 and 1 export at once, in a store of the test's own."""
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": "tests.surfaces.urls.tenant_of",
        "DEFAULT_TIER": "free",
        "LANES": {"uploads": {"cost": 2}, "exports": {}},
    }
    tier = Tier.objects.create(slug="pro", name="Pro")
    Limit.objects.create(tier=tier, name="all-rate", lane="all", amount=100, period_seconds=3600, counts="requests")
    Limit.objects.create(tier=tier, name="uploads-rate", lane="uploads", amount=10, period_seconds=3600)
    Limit.objects.create(tier=tier, name="exports-cap", lane="exports", kind="concurrency", amount=1)
    return Tenant.objects.create(key="acme", tier=tier)


def used(limit: str, tenant: str = "acme") -> float:
    """Units used of a limit."""
    return next(round(one.used, 1) for one in overview(Identity(tenant=tenant)).readings if one.limit.name == limit)


def test_a_decision_says_by_what_and_until_when(acme: Tenant) -> None:
    """R2, R6: an answer, never a bool."""
    assert admit(lane="uploads", cost=9, tenant="acme").allowed

    decision = admit(lane="uploads", cost=2, tenant="acme")

    assert decision.refused
    assert decision.binding is not None
    assert decision.binding.limit.name == "uploads-rate"
    assert decision.retry_after == pytest.approx(360, abs=5)


def test_an_operation_that_names_no_cost_has_its_lanes(acme: Tenant) -> None:
    """C55: an unset cost is the lane's."""
    admit(lane="uploads", tenant="acme")

    assert used("uploads-rate") == 2


def test_peeking_charges_and_counts_nothing(acme: Tenant) -> None:
    """C55."""
    assert peek(lane="uploads", cost=10, tenant="acme").allowed
    assert peek(lane="uploads", cost=11, tenant="acme").never

    assert used("uploads-rate") == 0


def test_a_hold_keeps_its_slot_until_the_block_ends_however_it_ends(acme: Tenant) -> None:
    """R7, C7."""
    during = []

    def work() -> None:
        with hold(lane="exports", tenant="acme"):
            during.append(used("exports-cap"))
            with pytest.raises(LimitExceeded, match="exports-cap"):
                hold(lane="exports", tenant="acme").__enter__()
            raise RuntimeError("the work fails")

    with pytest.raises(RuntimeError):
        work()

    assert (during, used("exports-cap")) == ([1], 0)


def test_settling_is_once(acme: Tenant) -> None:
    """K6, C54: a second correction changes nothing."""
    with hold(lane="uploads", cost=5, tenant="acme") as admission:
        admission.settle(cost=3)
        admission.settle(cost=0)

    assert used("uploads-rate") == 3


def test_what_is_under_way_is_settled_by_the_function(acme: Tenant) -> None:
    """K6."""
    with hold(lane="uploads", cost=5, tenant="acme"):
        settle(cost=8)
    with tenant_context("acme"):
        admit(lane="uploads", cost=1)
        settle(cost=0)

    assert used("uploads-rate") == 8


def test_work_for_a_tenant_outside_its_requests_needs_no_request(acme: Tenant) -> None:
    """T1."""
    with tenant_context("acme"):
        assert current_tenant() == "acme"
        admit(lane="uploads", cost=1)

    assert current_tenant() is None
    assert used("uploads-rate") == 1


def test_a_hold_for_another_tenant_is_all_of_that_tenants(acme: Tenant) -> None:
    """C88: staff at work for a customer spend that customer's."""
    Tenant.objects.create(key="bolt", tier=acme.tier)
    with hold(lane="exports", tenant="acme"), hold(lane="uploads", cost=1, tenant="bolt"):
        pass

    assert (used("all-rate"), used("all-rate", "bolt")) == (1, 1)


def test_outside_of_everything_somebody_has_to_be_named(acme: Tenant) -> None:
    """T3: nobody is unlimited by accident."""
    with pytest.raises(TenantLimitsError, match="tenant_context"):
        admit(lane="uploads")
    with pytest.raises(TenantLimitsError, match="Nothing is under way"):
        settle(cost=1)


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), "5", None, True, 10**13])
def test_what_is_no_cost_is_an_error_before_the_store_is_asked(acme: Tenant, cost: Any) -> None:
    """C53, Bad input."""
    with pytest.raises(InvalidCost) if cost is not None else pytest.raises(UnknownLane):
        admit(lane="uploads" if cost is not None else "upload", cost=cost, tenant="acme")

    assert used("uploads-rate") == 0


def test_an_unknown_lane_says_which_there_are(acme: Tenant) -> None:
    """C45, Bad input."""
    with pytest.raises(UnknownLane, match=r"'export'.*Did you mean 'exports'"):
        hold(lane="export", tenant="acme")


@pytest.mark.parametrize("tenant", ["", "x" * 256])
def test_what_is_no_tenant_is_an_error(acme: Tenant, tenant: str) -> None:
    """C86."""
    with pytest.raises(InvalidTenant):
        admit(lane="uploads", tenant=tenant)


async def test_the_async_twins_do_the_same(acme: Tenant) -> None:
    """One rule, two ways to call it."""
    assert (await aadmit(lane="uploads", cost=4, tenant="acme")).allowed
    assert (await apeek(lane="uploads", cost=7, tenant="acme")).refused
    async with ahold(lane="uploads", cost=6, tenant="acme"):
        await asettle(cost=1)
    assert (await apeek(lane="uploads", cost=5, tenant="acme")).allowed


def test_a_tier_that_has_no_row_limits_nobody_and_is_loud(
    acme: Tenant, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3: installing the app takes no site down, and nobody overlooks it."""
    monkeypatch.setattr("tenantlimits.gate.policies._reported.at", -math.inf)  # as if nobody had said so this minute

    decisions = [admit(lane="uploads", cost=100, tenant="newcomer") for _ in range(3)]

    assert all(decision.allowed for decision in decisions)
    assert [r.message for r in caplog.records if "'free' has no row" in r.message][1:] == []
    assert any("'free' has no row" in record.message for record in caplog.records)


def test_an_outage_is_an_answer_by_the_lane_and_a_log_record_a_minute(
    acme: Tenant, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """V6, C102, C106: no exception reaches the caller, and a slot that cannot be given back is only logged."""
    dead = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
    with override_settings(CACHES=dead):
        stores.decide_by(None)
        started = time.monotonic()
        with hold(lane="exports", tenant="acme") as admission:
            degraded = admission.decision.degraded

    assert degraded
    assert time.monotonic() - started < 5
