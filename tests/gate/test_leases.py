"""The heartbeat of a process's leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import override_settings

from tenantlimits.engine.base import Command, Engine, Renew
from tenantlimits.gate import admit, hold
from tenantlimits.gate.leases import heartbeat
from tenantlimits.gate.policies import policies
from tenantlimits.gate.store import engine_replaced, stores
from tenantlimits.models import Limit, Tenant, Tier
from tests.surfaces.conftest import SITE, settings_of


class Overtaken:
    """A store at which something else arrives before each renewal."""

    def __init__(self, engine: Engine, before: Callable[[], object]) -> None:
        self._engine, self._before = engine, before

    def run(self, command: Command[Any]) -> Any:
        if isinstance(command, Renew):
            self._before()
        return self._engine.run(command)

    def post(self, command: Command[Any]) -> None:
        self._engine.post(command)

    async def arun(self, command: Command[Any]) -> Any:
        return self.run(command)


@pytest.fixture
def acme(transactional_db: None, key_prefix: str) -> Iterator[None]:
    """A tenant with one export at once."""
    with override_settings(**SITE, TENANTLIMITS=settings_of(key_prefix)):
        policies.forget()
        tier = Tier.objects.create(slug="pro", name="Pro")
        Limit.objects.create(tier=tier, name="cap", lane="exports", kind="concurrency", amount=1)
        Tenant.objects.create(key="acme", tier=tier)
        yield


def test_a_renewal_that_comes_after_the_end_takes_no_slot_again(acme: None) -> None:
    """C7: an operation may end while its lease is being renewed; the renewal must not outlive it."""
    held = hold(lane="exports", tenant="acme")
    engine = stores.engine

    def ends() -> None:
        held.__exit__(None, None, None)
        assert admit(lane="exports", tenant="acme").allowed

    with engine_replaced(Overtaken(engine, ends)):
        held.__enter__()
        with heartbeat._lock:
            mine = [one for one in heartbeat._held.values() if one.lane == "exports"]
        heartbeat._renew(mine)

    assert admit(lane="exports", tenant="acme").allowed
