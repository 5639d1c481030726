"""What one test or one transaction does stays its own, and what was counted stays counted."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client, override_settings

from tenantlimits.models import Tier
from tests.surfaces.conftest import settings_of
from tests.surfaces.test_middleware import used


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_begins_with_nothing_used(tier: Tier, memory_engine: Any, turn: int) -> None:
    """C120: whichever runs first, the fixture gives each test a store of its own."""
    client = Client(headers={"X-Session": "acme/ann"})

    assert [client.get("/plain/").status_code for _ in range(6)] == [200] * 5 + [429]


def test_a_changed_setting_is_in_force_at_once(acme: Client, memory_engine: Any, key_prefix: str) -> None:
    """C120: nothing is read at import, and a store that a test decides by survives its settings."""
    acme.get("/plain/")

    dearer = settings_of(key_prefix, DEFAULT_LANE="uploads", LANES={"uploads": {"cost": 7}})
    with override_settings(TENANTLIMITS=dearer):
        acme.get("/plain/")

    assert (used("acme", "all-rate"), used("acme", "uploads-rate")) == (2, 7)


def test_use_is_counted_though_the_requests_transaction_is_rolled_back(
    acme: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C122."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    acme.raise_request_exception = False

    assert acme.get("/special/error/").status_code == 500

    assert used("acme", "all-rate") == 1
