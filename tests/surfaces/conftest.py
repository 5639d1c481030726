"""A site with views of every sort, two tenants on tiers of their own, and a store in which nothing was used yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client, override_settings

from tenantlimits.gate.store import stores
from tenantlimits.models import Limit, Tenant, Tier
from tests.surfaces import urls

LANES = {
    "reads": {},
    "uploads": {},
    "exports": {},
    "webhooks": {"counts_in_all": False},
    "open": {"on_store_failure": "allow"},
    "shut": {"on_store_failure": "refuse"},
}
SITE = {
    "ROOT_URLCONF": "tests.surfaces.urls",
    "MIDDLEWARE": ["tests.surfaces.urls.sign_in", "tenantlimits.middleware.TenantLimitsMiddleware"],
    "APPEND_SLASH": False,
}


def settings_of(prefix: str, **more: Any) -> dict[str, Any]:
    """TENANTLIMITS of the site, with keys of the test's own."""
    return {
        "TENANT_RESOLVER": "tests.surfaces.urls.tenant_of",
        "DEFAULT_TIER": "free",
        "LANES": LANES,
        "KEY_PREFIX": prefix,
        "STORE_TIMEOUT_SECONDS": 5,  # a busy machine is no outage
        **more,
    }


@pytest.fixture
def site(db: None, key_prefix: str) -> Iterator[None]:
    """The site in force."""
    urls.ran.clear()
    urls.closed.clear()
    urls.looked_up.clear()
    urls.revoked.clear()
    with override_settings(**SITE, TENANTLIMITS=settings_of(key_prefix)):
        yield


@pytest.fixture
def tier(site: None) -> Tier:
    """The tier of acme and bolt: 5 operations, uploads of 20, 1 export at once; cedar has the default tier, of 100."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    for name, lane, amount, options in (
        ("all-rate", "all", 5, {"counts": "requests", "period_seconds": 3600}),
        ("uploads-rate", "uploads", 20, {"period_seconds": 3600}),
        ("exports-cap", "exports", 1, {"kind": "concurrency"}),
    ):
        Limit.objects.create(tier=tier, name=name, lane=lane, amount=amount, **options)
    free = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=free, name="all-rate", amount=100, period_seconds=2_592_000, counts="requests")
    for key in ("acme", "bolt"):
        Tenant.objects.create(key=key, tier=tier)
    return tier


@pytest.fixture
def acme(tier: Tier) -> Client:
    """A browser in which ann of acme is signed in."""
    return Client(headers={"X-Session": "acme/ann"})


@pytest.fixture
def bolt(tier: Tier) -> Client:
    """A browser in which bob of bolt is signed in."""
    return Client(headers={"X-Session": "bolt/bob"})


@pytest.fixture(autouse=True)
def _connections_of_its_own() -> Iterator[None]:
    """No engine outlives the settings that it was built from."""
    yield
    stores.rebuild()
