"""A host that has nothing but the admin, the cast on its tier, and staff: one who may all, one who may only look."""

from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Permission, User
from django.test import Client

from tenantlimits.models import Tenant, Tier
from tests import rows


@pytest.fixture(autouse=True)
def host(settings: LazySettings, key_prefix: str) -> dict[str, Any]:
    """The host's TENANTLIMITS, on this test's own keys of the run's store."""
    settings.ROOT_URLCONF = "tests.admin.urls"
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if not name.startswith("project.")]
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": lambda request: None,
        "DEFAULT_TIER": "free",
        "KEY_PREFIX": key_prefix,
        "LANES": {"reads": {}, "exports": {}},
    }
    return settings.TENANTLIMITS


@pytest.fixture
def staff(db: None) -> User:
    return User.objects.create_superuser("sam", password="sam")


@pytest.fixture
def browser(staff: User) -> Client:
    """The browser of staff who may do everything."""
    client = Client()
    client.force_login(staff)
    return client


@pytest.fixture
def viewer(db: None) -> Client:
    """The browser of staff who may only look."""
    user = User.objects.create_user("vera", password="vera", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="tenantlimits", codename__startswith="view_")
    )
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def pro(db: None) -> Tier:
    return rows.pro()


@pytest.fixture
def acme(pro: Tier) -> Tenant:
    return Tenant.objects.create(key="acme", name="Acme", tier=pro)
