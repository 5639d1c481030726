"""The portal with its three customers, a store of the test's own, and no waiting in its views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from project.portal.seeding import Seeded, seed
from tenantlimits.domain.limits import MONTH
from tenantlimits.gate.store import stores
from tenantlimits.models import Limit
from tenantlimits.models.choices import Kind


@pytest.fixture
def portal(db: None, settings: Any, key_prefix: str) -> Iterator[Seeded]:
    """Nothing was used yet, and no bucket refills while the test runs."""
    settings.PORTAL_READ_SECONDS = settings.PORTAL_EXPORT_SECONDS = 0
    own = {"KEY_PREFIX": key_prefix, "STORE_TIMEOUT_SECONDS": 5}  # a busy machine is no outage
    settings.TENANTLIMITS = django_settings.TENANTLIMITS | own
    seeded = seed()
    Limit.objects.filter(kind=Kind.TOKEN_BUCKET).update(period_seconds=MONTH)
    yield seeded
    stores.rebuild()


@pytest.fixture
def api(portal: Seeded) -> Callable[[str], Client]:
    """`api("acme")` calls with acme's key."""
    return lambda slug: Client(headers={"Authorization": f"Bearer {portal.tokens[slug]}"})


@pytest.fixture
def browser(portal: Seeded) -> Callable[[str], Client]:
    """`browser("ada")` has logged in by the form."""

    def logged_in(username: str) -> Client:
        client = Client()
        response = client.post("/login/", {"username": username, "password": portal.password})
        assert response.status_code == 302
        return client

    return logged_in
