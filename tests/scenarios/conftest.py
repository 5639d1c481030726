"""A site on real servers, on the run's database and store; the test writes its rows by the ORM, as staff would."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tenantlimits.models import Tier
from tests.scenarios import servers
from tests.scenarios.servers import Server, serving
from tests.scenarios.site import journal
from tests.scenarios.site.journal import Journal
from tests.scenarios.zones import Zones, zones_in


@dataclass(frozen=True, slots=True)
class Site:
    """How to serve it; `journal` is what its views say of themselves."""

    environment: Mapping[str, str]
    journal: Journal

    def gunicorn(self, **more: str) -> AbstractContextManager[Server]:
        """Four processes; `more` goes into their environment."""
        return serving(servers.gunicorn(), {**self.environment, **more})

    def uvicorn(self) -> AbstractContextManager[Server]:
        """One process with an event loop."""
        return serving(servers.uvicorn(), self.environment)


@pytest.fixture
def tenantlimits(settings: Any, key_prefix: str) -> dict[str, Any]:
    """TENANTLIMITS of the site, and of the test."""
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": "tests.scenarios.site.middleware.tenant_of",
        "DEFAULT_TIER": "free",
        "LANES": {"reads": {}, "uploads": {}, "exports": {}},
        "KEY_PREFIX": key_prefix,
        "LEASE_SECONDS": 2,
        "POLICY_BACKSTOP_SECONDS": 3600,
        # A busy machine is no outage.
        "CONNECT_TIMEOUT_SECONDS": 10,
        "STORE_TIMEOUT_SECONDS": 10,
    }
    return settings.TENANTLIMITS


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    """Time zones of the test's own, which the site knows too."""
    with zones_in(tmp_path / "zones") as zones:
        yield zones


@pytest.fixture
def site(transactional_db: None, tenantlimits: dict[str, Any], zones: Zones, redis_url: str, tmp_path: Path) -> Site:
    """The site, without rows of its own."""
    path = tmp_path / "journal"
    # The migration's own row, which the test before may have flushed away.
    Tier.objects.get_or_create(slug="anonymous", defaults={"name": "Anonymous", "mode": "observe"})
    database = {name: value for name, value in connection.settings_dict.items() if name != "TEST"}
    environment = zones.environment | {
        "DJANGO_SETTINGS_MODULE": "tests.scenarios.site.settings",
        "REDIS_URL": redis_url,
        "SITE_DATABASE": json.dumps(database, default=str),
        "SITE_TENANTLIMITS": json.dumps(tenantlimits),
        "SITE_LOG": str(tmp_path / "server.log"),
        journal.VARIABLE: str(path),
    }
    return Site(environment, Journal(path))
