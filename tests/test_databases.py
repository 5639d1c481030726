"""A tenant's queries on an alias take slots of a pool: one each, and one for a whole transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from tenantlimits import databases
from tenantlimits.databases import limit_database
from tenantlimits.domain.errors import QueueTimeout, TenantLimitsError, UnknownPool
from tenantlimits.domain.shares import Share as Slots
from tenantlimits.gate.policies import policies
from tenantlimits.models import Share, Tenant, Tier
from tenantlimits.pools import slot
from tenantlimits.pools.registry import pools
from tenantlimits.tenancy import tenant_context

seen: list[int] = []
"""How many slots acme had while its queries ran."""


def running() -> int:
    found = pools.of("db").standings().get("acme")
    return found.running if found else 0


def spy(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Notes the slots at each query; it stands inside of the bulkhead."""
    seen.append(running())
    return execute(sql, params, many, context)


@pytest.fixture
def acme(transactional_db: None, memory_engine: Any, settings: Any) -> Iterator[Tenant]:
    """A tenant with one of two slots, none of which are lent; its database is limited."""
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": "tests.surfaces.urls.tenant_of",
        "DEFAULT_TIER": "free",
        "POOLS": {"db": {"capacity": 2, "lendable": 0}},
    }
    policies.forget()
    tier = Tier.objects.create(slug="pro", name="Pro")
    Share.objects.create(tier=tier, pool="db", slots=1)
    tenant = Tenant.objects.create(key="acme", tier=tier)
    with slot("db", tenant="acme"):
        pass  # its policy is known, so that no query of ours is among those that are watched
    autocommit, close = connection.set_autocommit, connection.close
    limit_database("default", pool="db", wait=0.05)
    connection.execute_wrappers.append(spy)
    seen.clear()
    yield tenant
    connection.execute_wrappers.clear()
    connection.set_autocommit, connection.close = autocommit, close
    databases._limits.clear()
    policies.forget()


def query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def test_a_query_has_a_slot_while_it_runs(acme: Tenant) -> None:
    """C6."""
    with tenant_context("acme"):
        query()
        Tenant.objects.count()

    assert seen == [1, 1]
    assert running() == 0


def test_work_that_is_nobodys_takes_none(acme: Tenant) -> None:
    query()

    assert seen == [0]


def test_a_transaction_has_one_slot_for_all_of_its_queries(acme: Tenant) -> None:
    """C6: however deep it is nested, and also where it is rolled back."""
    with tenant_context("acme"):
        with transaction.atomic():
            query()
            with transaction.atomic():
                query()
            assert running() == 1
        assert running() == 0
        with pytest.raises(RuntimeError):
            _rolled_back()

    assert set(seen) == {1}
    assert running() == 0


def _rolled_back() -> None:
    with transaction.atomic():
        query()
        raise RuntimeError


def test_a_connection_that_is_closed_gives_its_slot_back(acme: Tenant) -> None:
    with tenant_context("acme"):
        with transaction.atomic():
            query()
            connection.close()
            assert running() == 0
        with transaction.atomic():
            query()
        assert running() == 0


def test_a_query_inside_a_slot_of_the_pool_runs_in_that(acme: Tenant) -> None:
    with tenant_context("acme"), slot("db"), transaction.atomic():
        query()

    assert seen[-1] == 1


def test_a_query_beyond_the_share_waits_and_then_fails(acme: Tenant) -> None:
    """C6: it never runs above the share."""
    held = pools.of("db").acquire("acme", Slots(1))
    with tenant_context("acme"), pytest.raises(QueueTimeout, match="pool db"):
        query()
    held.release()

    with tenant_context("acme"):
        query()
    assert seen == [1]


def test_every_thread_has_a_connection_that_is_limited(acme: Tenant) -> None:
    found: list[int] = []

    def elsewhere() -> None:
        with tenant_context("acme"):
            connection.ensure_connection()
            connection.execute_wrappers.append(spy)
            query()
            found.extend(seen)
            connection.close()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert found == [1]


@pytest.mark.parametrize(
    ("alias", "pool", "error", "words"),
    [("defualt", "db", TenantLimitsError, "Did you mean 'default'"), ("default", "bd", UnknownPool, "known are db")],
)
def test_what_is_not_there_is_said_at_start(acme: Tenant, alias: str, pool: str, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        limit_database(alias, pool=pool)
