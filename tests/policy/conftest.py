"""The cast on its tier."""

import pytest

from tenantlimits.models import Tenant, Tier
from tests import rows


@pytest.fixture
def pro() -> Tier:
    return rows.pro()


@pytest.fixture
def acme(pro: Tier) -> Tenant:
    return Tenant.objects.create(key="acme", name="Acme", tier=pro)


@pytest.fixture
def bolt(pro: Tier) -> Tenant:
    return Tenant.objects.create(key="bolt", tier=pro)
