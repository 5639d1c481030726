"""A tenant's slow queries never have more than its share of the connections, asked of PostgreSQL itself (C6).

Each of bolt's queries sleeps 50 ms in the server, so that what a busy machine adds to them weighs little.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from tenantlimits import databases
from tenantlimits.databases import limit_database
from tenantlimits.gate.policies import policies
from tenantlimits.models import Share, Tenant, Tier
from tenantlimits.pools import slot
from tenantlimits.tenancy import tenant_context
from tests.servers import require_service

pytestmark = pytest.mark.services

SHARE = 3
FLOOD = 12
SLOW_SECONDS, QUICK_SECONDS = 0.3, 0.05


@pytest.fixture
def limited(transactional_db: None, memory_engine: Any, settings: Any) -> Iterator[None]:
    """acme and bolt have three of six slots each, and nothing is lent."""
    require_service("postgres")
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": "tests.surfaces.urls.tenant_of",
        "DEFAULT_TIER": "free",
        "POOLS": {"db": {"capacity": 2 * SHARE, "lendable": 0}},
    }
    policies.forget()
    tier = Tier.objects.create(slug="pro", name="Pro")
    Share.objects.create(tier=tier, pool="db", slots=SHARE)
    for key in ("acme", "bolt"):
        Tenant.objects.create(key=key, tier=tier)
        with slot("db", tenant=key):
            pass
    yield
    databases._limits.clear()
    policies.forget()


def query(tenant: str, seconds: float) -> None:
    """A query that the server can tell as the tenant's."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_sleep({seconds}) /* of {tenant} */")


class Flood:
    """Threads of acme that ask slow queries, one after another, every third in a transaction."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(FLOOD)]

    def __enter__(self) -> Flood:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int) -> None:
        with tenant_context("acme"):
            while not self._ended.is_set():
                if number % 3:
                    query("acme", SLOW_SECONDS)
                else:
                    with transaction.atomic():
                        query("acme", SLOW_SECONDS / 2)
                        query("acme", SLOW_SECONDS / 2)
        connection.close()


def seen_by_the_server() -> int:
    """How many connections are at work for acme, or in one of its transactions."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%%/* of acme */%%' "
            "AND state <> 'idle'"
        )
        return int(cursor.fetchone()[0])


def p95_of_bolt() -> float:
    """Seconds that one in twenty of bolt's queries takes at least."""
    took = []
    with tenant_context("bolt"):
        for _ in range(20):
            started = time.monotonic()
            query("bolt", QUICK_SECONDS)
            took.append(time.monotonic() - started)
    return statistics.quantiles(took, n=20)[-1]


def test_slow_queries_keep_to_their_share_and_nobody_else_feels_them(limited: None) -> None:
    """C6: twelve threads at once, a share of three; another tenant's p95 stays within 1.5 of its quiet value."""
    limit_database("default", pool="db", wait=30)
    quiet, seen = p95_of_bolt(), []
    ended = threading.Event()

    with Flood(ended):
        flooded = p95_of_bolt()
        for _ in range(20):
            seen.append(seen_by_the_server())
            time.sleep(0.02)

    assert max(seen) == SHARE
    assert flooded <= 1.5 * quiet
