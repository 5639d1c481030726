"""Policies in memory: no decision asks the database unless something changed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tenantlimits.gate import admit, peek
from tenantlimits.gate.policies import policies
from tenantlimits.models import Limit, Override, Switch, Tenant, Tier
from tenantlimits.policy import grant_override, invalidate, revoke_override, set_tier
from tests.surfaces.conftest import SITE, settings_of


@pytest.fixture
def acme(transactional_db: None, memory_engine: Any, key_prefix: str) -> Any:
    """A tenant of 10 uploads an hour, with changes that are really committed."""
    with override_settings(**SITE, TENANTLIMITS=settings_of(key_prefix, POLICY_BACKSTOP_SECONDS=3600)):
        policies.forget()
        for slug, amount in (("pro", 10), ("free", 3)):
            tier, _ = Tier.objects.get_or_create(slug=slug, defaults={"name": slug})
            Limit.objects.create(tier=tier, name="rate", lane="uploads", amount=amount, period_seconds=3600)
        yield Tenant.objects.create(key="acme", tier=Tier.objects.get(slug="pro"))


def amount() -> float:
    """The amount in force for acme's uploads."""
    return peek(lane="uploads", tenant="acme").readings[0].limit.amount


def test_a_decision_asks_the_database_nothing_once_the_policy_is_known(acme: Tenant) -> None:
    """C124."""
    admit(lane="uploads", tenant="acme")

    with CaptureQueriesContext(connection) as queries:
        for _ in range(5):
            admit(lane="uploads", tenant="acme")

    assert len(queries) == 0


def test_anonymous_callers_of_all_addresses_ask_the_database_nothing_either(acme: Tenant) -> None:
    """C124: each shard has an anonymous tenant with stamps of its own."""
    client = Client()
    for n in range(40):
        client.get("/plain/", REMOTE_ADDR=f"192.0.2.{n}")

    with CaptureQueriesContext(connection) as queries:
        for n in range(40):
            client.get("/plain/", REMOTE_ADDR=f"192.0.2.{n}")

    assert len(queries) == 0


def _override(**values: Any) -> Override:
    end = timezone.now() + timedelta(days=1)
    return grant_override("acme", "rate", reason="import", expires_at=end, **values)


def test_overrides_up_down_and_revoked_are_in_force_on_the_next_decision(acme: Tenant) -> None:
    """R3, with a backstop of an hour."""
    seen = [amount()]
    seen.append((raised := _override(amount=40)) and amount())
    revoke_override(raised, reason="done")
    seen.append(amount())
    lowered = _override(amount=2)
    seen.append(amount())
    revoke_override(lowered, reason="done")
    seen.append(amount())

    assert seen == [10, 40, 10, 2, 10]


@pytest.mark.parametrize(
    "change",
    [
        lambda: Limit.objects.filter(tier__slug="pro").update(amount=77),
        lambda: _changed(10).delete() and _limit(77),
        lambda: Limit.objects.bulk_update([_changed(77)], ["amount"]),
        lambda: _changed(77).save(),
    ],
    ids=["update", "delete and create", "bulk_update", "save"],
)
def test_every_way_to_change_a_tier_is_in_force_on_the_next_decision(acme: Tenant, change: Any) -> None:
    """R3, C29: whatever way our managers write."""
    Limit.objects.create(tier=acme.tier, name="other", lane="exports", amount=1, period_seconds=60)
    assert amount() == 10

    change()

    assert amount() == 77


def _changed(value: int) -> Limit:
    limit = Limit.objects.get(tier__slug="pro", name="rate")
    limit.amount = value
    return limit


def _limit(value: int) -> Limit:
    return Limit.objects.create(
        tier=Tier.objects.get(slug="pro"), name="rate", lane="uploads", amount=value, period_seconds=3600
    )


def test_loaddata_is_in_force_on_the_next_decision(acme: Tenant, tmp_path: Any) -> None:
    """R3."""
    fixture = tmp_path / "limits.json"
    amount()
    call_command("dumpdata", "tenantlimits.limit", output=str(fixture))
    fixture.write_text(fixture.read_text().replace('"amount": 10,', '"amount": 55,'))

    call_command("loaddata", str(fixture), verbosity=0)

    assert amount() == 55


def test_a_new_tier_the_switch_and_invalidate_are_in_force_on_the_next_decision(acme: Tenant) -> None:
    """R3, C28: what was used stays used, what was refused was not."""
    for _ in range(4):
        admit(lane="uploads", tenant="acme")

    set_tier("acme", "free", reason="downgrade")
    downgraded = admit(lane="uploads", tenant="acme")
    switch = Switch.current()
    switch.mode, switch.reason = "observe", "incident"
    switch.save()
    observed = admit(lane="uploads", tenant="acme")
    invalidate("acme")

    assert (downgraded.allowed, downgraded.tier) == (False, "free")
    assert observed.allowed


def test_a_change_that_is_rolled_back_was_never_in_force(acme: Tenant) -> None:
    """R3: this transaction sees its own change, nobody else does, and nothing of it stays."""
    before = amount()

    with transaction.atomic():
        _changed(99).save()
        inside = amount()
        transaction.set_rollback(True)

    assert (before, inside, amount()) == (10, 99, 10)


def test_saving_an_unchanged_tier_refills_nothing(acme: Tenant) -> None:
    """C31."""
    for _ in range(10):
        admit(lane="uploads", tenant="acme")

    for _ in range(20):
        Limit.objects.get(tier__slug="pro", name="rate").save()
        assert admit(lane="uploads", tenant="acme").refused
