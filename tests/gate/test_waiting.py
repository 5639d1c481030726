"""Waiting to be admitted: in line, for as long as the store says, and charged when admitted only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings

from tenantlimits.domain.decisions import Code
from tenantlimits.domain.errors import LimitExceeded
from tenantlimits.gate import ahold, hold
from tenantlimits.gate.policies import policies
from tenantlimits.gate.waiting import _lines
from tenantlimits.models import Limit, Tenant, Tier
from tests.gate.test_refusals import counted
from tests.polling import eventually
from tests.surfaces.conftest import SITE, settings_of
from tests.threads import Thread


@pytest.fixture
def acme(transactional_db: None, key_prefix: str) -> Iterator[Tenant]:
    """A tenant with two calls of the burst and one more each 20 ms, and one export at once."""
    with override_settings(**SITE, TENANTLIMITS=settings_of(key_prefix)):
        policies.forget()
        tier = Tier.objects.create(slug="pro", name="Pro")
        add = Limit.objects.create
        add(tier=tier, name="rate", lane="uploads", amount=50, period_seconds=1, burst=2)
        add(tier=tier, name="cap", lane="exports", kind="concurrency", amount=1)
        yield Tenant.objects.create(key="acme", tier=tier)


def in_line(lane: str = "uploads") -> int:
    """How many stand in line, the first included."""
    line = _lines._lines.get(("acme", lane))
    standing = line.standings().get("acme") if line else None
    return standing.running + standing.waiting if standing else 0


def test_who_waits_is_admitted_when_there_is_room(acme: Tenant) -> None:
    """R6."""
    started = time.monotonic()
    for _ in range(5):
        with hold(lane="uploads", cost=1, tenant="acme", wait=5):
            pass

    assert time.monotonic() - started >= 0.055  # three had to wait for 20 ms each
    assert in_line() == 0


async def test_a_task_waits_likewise(acme: Tenant) -> None:
    admitted = 0
    for _ in range(4):
        async with ahold(lane="uploads", cost=1, tenant="acme", wait=5):
            admitted += 1

    assert admitted == 4


def test_the_first_of_a_line_asks_for_all(acme: Tenant) -> None:
    """R6: a hundred that wait are no stampede."""

    async def one() -> None:
        async with ahold(lane="uploads", cost=1, tenant="acme", wait=10):
            pass

    async def crowd() -> None:
        await asyncio.gather(*(one() for _ in range(20)))

    async_to_sync(crowd)()  # the ORM stays on this thread, which leaves no connection behind

    # Without a line each of them would have asked as often as there were turns.
    assert counted("uploads").allowed == 20
    assert counted("uploads").refused <= 25


def test_those_who_wait_are_admitted_in_the_order_in_which_they_came(acme: Tenant) -> None:
    """R6: FIFO by process and tenant."""
    order: list[int] = []

    def one(number: int) -> None:
        with hold(lane="exports", tenant="acme", wait=5):
            order.append(number)

    with hold(lane="exports", tenant="acme"):
        threads = [Thread(target=one, args=(number,)) for number in range(3)]
        for number, thread in enumerate(threads, start=1):
            thread.start()
            assert eventually(lambda number=number: in_line("exports") == number)  # type: ignore[misc]
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2]


async def test_a_waiter_that_is_cancelled_takes_nothing(acme: Tenant) -> None:
    """R6."""

    async def one() -> None:
        async with ahold(lane="uploads", cost=2, tenant="acme", wait=5):
            pass

    await one()
    waiting = [asyncio.ensure_future(one()) for _ in range(3)]
    await asyncio.sleep(0.01)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert in_line() == 0
    assert counted("uploads").allowed == 1


@pytest.mark.parametrize(("cost", "code"), [(2, Code.RATE_LIMITED), (3, Code.COST_EXCEEDS_LIMIT)])
def test_what_will_not_be_admitted_in_time_is_refused_without_waiting(acme: Tenant, cost: float, code: Code) -> None:
    with hold(lane="uploads", cost=2, tenant="acme"):
        pass
    started = time.monotonic()

    with pytest.raises(LimitExceeded) as refused:
        hold(lane="uploads", cost=cost, tenant="acme", wait=0.01).__enter__()

    assert refused.value.decision.code is code
    assert time.monotonic() - started < 1
    assert in_line() == 0


@pytest.mark.parametrize("wait", [-1, float("nan")])
def test_a_wait_is_a_number_of_seconds(acme: Tenant, wait: Any) -> None:
    with pytest.raises(ValueError, match="at least 0 seconds"):
        hold(lane="uploads", tenant="acme", wait=wait)
