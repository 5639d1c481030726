"""One slot of a pool, for any shared dependency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenantlimits.domain import shares as domain
from tenantlimits.domain.errors import InvalidTenant, QueueTimeout, SlotRefused, TenantLimitsError, UnknownPool
from tenantlimits.gate.policies import policies
from tenantlimits.models import Share, Tenant, Tier
from tenantlimits.pools import aslot, slot
from tenantlimits.pools.process import ProcessPool
from tenantlimits.pools.registry import pools
from tenantlimits.tenancy import tenant_context
from tests.polling import eventually
from tests.threads import Thread


@pytest.fixture
def acme(transactional_db: None, memory_engine: Any, settings: Any) -> Iterator[Tenant]:
    """A tenant with two of the four slots of the reports database, none of which are lent."""
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": "tests.surfaces.urls.tenant_of",
        "DEFAULT_TIER": "free",
        "POOLS": {"reports-db": {"capacity": 4, "lendable": 0}, "mail": {"capacity": 1}},
    }
    policies.forget()
    tier = Tier.objects.create(slug="pro", name="Pro")
    Share.objects.create(tier=tier, pool="reports-db", slots=2)
    Tenant.objects.create(key="bolt", tier=tier)
    yield Tenant.objects.create(key="acme", tier=tier)
    policies.forget()


def running(tenant: str = "acme", pool: str = "reports-db") -> int:
    found = pools.of(pool).standings().get(tenant)
    return found.running if found else 0


def test_a_slot_is_held_for_as_long_as_the_block_runs(acme: Tenant) -> None:
    """C6."""
    with tenant_context("acme"), slot("reports-db"):
        assert running() == 1

    assert running() == 0


async def test_a_task_holds_one_likewise(acme: Tenant) -> None:
    async with aslot("reports-db", tenant="acme"), aslot("reports-db", tenant="bolt"):
        assert (running("acme"), running("bolt")) == (1, 1)

    assert (running("acme"), running("bolt")) == (0, 0)


def test_a_tenant_has_its_share_and_no_more(acme: Tenant) -> None:
    """C6: another tenant's is untouched."""
    other = pools.of("reports-db").acquire("acme", domain.Share(2))
    with slot("reports-db", tenant="acme"), slot("reports-db", tenant="bolt"):
        _thread_is_refused("acme")
    other.release()

    with slot("reports-db", tenant="acme", wait=0):
        pass


def _refused(tenant: str) -> None:
    with pytest.raises(SlotRefused), slot("reports-db", tenant=tenant, wait=0):
        raise AssertionError


def test_a_block_inside_another_one_runs_in_the_same_slot(acme: Tenant) -> None:
    """With a share of one it would wait for itself."""
    with tenant_context("acme"), slot("mail"):
        with slot("mail", wait=0), slot("reports-db"):
            assert (running(pool="mail"), running()) == (1, 1)
        assert (running(pool="mail"), running()) == (1, 0)


def test_the_slot_comes_back_however_the_block_ends(acme: Tenant) -> None:
    """C7."""
    with pytest.raises(RuntimeError), slot("mail", tenant="acme"):
        raise RuntimeError

    assert running(pool="mail") == 0


def test_who_waits_runs_when_its_turn_has_come(acme: Tenant) -> None:
    order: list[str] = []

    def late() -> None:
        with slot("mail", tenant="bolt", wait=5):
            order.append("bolt")

    with slot("mail", tenant="acme"):
        thread = Thread(target=late)
        thread.start()
        assert eventually(lambda: "bolt" in pools.of("mail").standings())
        order.append("acme")
    thread.join()

    assert order == ["acme", "bolt"]


def test_a_changed_share_is_in_force_with_the_next_policy(acme: Tenant) -> None:
    Share.objects.filter(pool="reports-db").update(slots=1)
    policies.forget()

    with slot("reports-db", tenant="acme"):
        _thread_is_refused("acme")


def _thread_is_refused(tenant: str) -> None:
    thread = Thread(target=_refused, args=(tenant,))
    thread.start()
    thread.join()


def test_another_capacity_is_in_force_at_once_and_stops_nothing(acme: Tenant, settings: Any) -> None:
    built = pools.of("mail")
    assert isinstance(built, ProcessPool)

    settings.TENANTLIMITS["POOLS"]["mail"] = {"capacity": 3}
    settings.TENANTLIMITS = dict(settings.TENANTLIMITS)

    assert pools.of("mail")._pool.rules.capacity == 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"pool": "report-db", "tenant": "acme"}, UnknownPool, "reports-db"),
        ({"pool": "mail"}, TenantLimitsError, r"pass tenant=\.\.\."),
        ({"pool": "mail", "tenant": ""}, InvalidTenant, "1 to 255"),
        ({"pool": "mail", "tenant": "acme", "wait": -1}, ValueError, "at least 0 seconds"),
        ({"pool": "mail", "tenant": "acme", "wait": float("nan")}, ValueError, "at least 0 seconds"),
    ],
    ids=["a pool that no setting names", "nobody", "no tenant", "a negative wait", "no number"],
)
def test_what_cannot_be_is_said_at_once(acme: Tenant, arguments: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words), slot(**arguments):
        raise AssertionError


def test_a_time_that_is_up_is_said_with_the_pool(acme: Tenant) -> None:
    with slot("mail", tenant="acme"):
        thread = Thread(target=_timed_out)
        thread.start()
        thread.join()


def _timed_out() -> None:
    with pytest.raises(QueueTimeout, match=r"No slot of pool mail for tenant bolt within 0.01 s"):
        slot("mail", tenant="bolt", wait=0.01).__enter__()
