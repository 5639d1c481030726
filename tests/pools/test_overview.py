"""What is seen of pools: this process as it is, the others as they told, the fleet's in the store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import override_settings

from tenantlimits.conf import conf
from tenantlimits.domain.shares import Share
from tenantlimits.domain.snapshots import Held, Why
from tenantlimits.engine.base import Announce, Reports
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.gate.keeper import Keeper
from tenantlimits.gate.refusals import Refusals
from tenantlimits.gate.store import engine_replaced, now_us
from tenantlimits.pools.fleet import FleetPool
from tenantlimits.pools.overview import fleet_pool, pools_now
from tenantlimits.pools.registry import pools
from tenantlimits.pools.reports import MOST_TENANTS, own_report, own_snapshots, snapshots_in
from tests.engine.builders import connections_to, redis_engine
from tests.polling import eventually
from tests.pools.test_fleet import known_for_long

POOLS = {
    "reports": {"capacity": 3, "lendable": 0},
    "exports": {"capacity": 10, "scope": "fleet"},
    "many": {"capacity": 1000},
}


@pytest.fixture
def engine(redis_url: str, key_prefix: str) -> Iterator[RedisEngine]:
    """The store of this test, by which everything here decides."""
    found = RedisEngine(connections_to(redis_url), prefix=key_prefix)
    site = {"TENANT_RESOLVER": lambda request: None, "DEFAULT_TIER": "pro", "KEY_PREFIX": key_prefix, "POOLS": POOLS}
    with override_settings(TENANTLIMITS=site), engine_replaced(found):
        yield found
    found.close()


@pytest.fixture
def fleet(engine: RedisEngine, redis_url: str, key_prefix: str) -> Iterator[FleetPool]:
    """The pool that all processes share."""
    known_for_long(redis_url, key_prefix)
    spec = conf.pool("exports")
    pool = FleetPool("exports", spec.rules, store=engine)
    pools._built["exports"] = (spec, pool)  # type: ignore[assignment]
    yield pool
    pool.end()


@pytest.fixture
def waiter() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def tells(engine: Any, **told: Any) -> None:
    """Another process says what its pools hold."""
    engine.run(Announce(os.urandom(8), json.dumps(told).encode()))


def acme_in(pool: str) -> Held | None:
    return pools_now()[pool].held_by("acme")


def test_what_this_process_holds_is_seen_at_once(engine: RedisEngine, waiter: ThreadPoolExecutor) -> None:
    """V4."""
    slots = [pools.of("reports").acquire("acme", Share(2)) for _ in range(2)]
    waits = waiter.submit(pools.of("reports").acquire, "acme", Share(2), wait=20)
    assert eventually(lambda: pools_now()["reports"].waiting == 1)

    pool, acme = pools_now()["reports"], acme_in("reports")

    assert (pool.running, pool.waiting, pool.is_known, pool.is_shared) == (2, 1, True, False)
    assert acme is not None
    assert (acme.share, acme.running, acme.waiting, acme.why) == (2, 2, 1, Why.SHARE_TOO_SMALL)
    assert 0 <= acme.oldest_wait < 10
    assert pool.held_by("bolt") == Held()
    for slot in slots:
        slot.release()
    waits.result().release()
    assert acme_in("reports") == Held()


def test_other_processes_are_seen_by_what_they_told(engine: RedisEngine) -> None:
    """V4: queues are summed, and what runs is compared with the share where most runs."""
    slot = pools.of("reports").acquire("acme", Share(2))
    tells(engine, reports=[3, 0, 1000, 3, 5, [["acme", 2, 2, 4, -8.0, 21.0], ["bolt", 1, 1, 1, -0.5, 1.0]]])
    tells(engine, other=[3, 0, 1000, 1, 0, [["acme", 2, 1, 0, None, 0.0]]])

    pool, acme = pools_now()["reports"], acme_in("reports")

    assert (pool.running, pool.waiting, pool.processes) == (4, 5, 2)
    assert acme is not None
    assert (acme.busiest.running, acme.running, acme.waiting, acme.estimate) == (2, 3, 4, 21.0)
    assert 8 <= acme.oldest_wait < 12
    slot.release()


@pytest.mark.parametrize(
    "held",
    [
        b"\xff", b"[]", b"{", b'{"reports": 7}', b'{"reports": [1]}', b'{"reports": [1, 0, 1, 1, 1, [["acme"]]]}',
        b'{"reports": [1, 0, 1, 1, 1, [["acme", "x", 1, 1, 1, 1]]]}', b"[" * 100_000,
        b'{"reports": [1, 0, 1, 1, 1, [["acme", 1, 1, 1, "late", 1]]]}', b'{"reports": [1e999, 0, 1, 1, 1, []]}',
        b'{"reports": [1, 0, 1, 1, 1, [["acme", 1, 1, 1, NaN, 1]]]}',
        b'{"reports": [1, 0, 1, 1, 1, [["acme", 1, 1, 1, -1, Infinity]]]}',
    ],
)  # fmt: skip
def test_a_report_that_cannot_be_read_is_passed_over(engine: RedisEngine, held: bytes) -> None:
    engine.run(Announce(b"stranger", held))

    assert acme_in("reports") == Held()


def test_a_process_tells_what_it_holds_until_it_ends(engine: RedisEngine) -> None:
    """V4: once a second, beside its name; a process that ends takes it along."""
    keeper = Keeper(engine, MemoryEngine(clock=now_us), Refusals())
    slot = pools.of("reports").acquire('acme "<b>" \ud800', Share(2))

    keeper.tick()
    [report] = engine.run(Reports()).reports
    [told] = snapshots_in(report.held, age=2)["reports"].standings.items()

    assert (report.process, told[0], told[1].running) == (keeper.id, 'acme "<b>" \ud800', 1)
    keeper.stop()
    assert engine.run(Reports()).reports == ()
    slot.release()
    assert own_report() == b""


def test_of_very_many_tenants_those_with_the_most_are_told_and_the_others_are_not_known(engine: RedisEngine) -> None:
    pool = pools.of("many")
    slots = [pool.acquire(f"tenant-{n}", Share(1)) for n in range(2 * MOST_TENANTS)]
    slots += [pool.acquire("acme", Share(1)) for _ in range(3)]

    seen = pools_now()["many"]

    assert (seen.running, len(seen.tenants), seen.is_cut) == (2 * MOST_TENANTS + 3, MOST_TENANTS, True)
    assert seen.tenants["acme"].running == 3
    assert seen.held_by("nobody-knows") is None
    assert len(own_report()) < 20_000
    for slot in slots:
        slot.release()
    assert own_snapshots() == {}


def test_the_fleets_pool_is_seen_in_the_store(
    engine: RedisEngine, fleet: FleetPool, waiter: ThreadPoolExecutor
) -> None:
    slots = [fleet.acquire("acme", Share(4)) for _ in range(6)] + [fleet.acquire("bolt", Share(4)) for _ in range(4)]
    waits = waiter.submit(fleet.acquire, "acme", Share(4), wait=20)
    assert eventually(lambda: pools_now()["exports"].waiting == 1)

    pool, acme = pools_now()["exports"], acme_in("exports")

    assert (pool.running, pool.is_shared, fleet_pool("exports"), fleet_pool("reports")) == (10, True, fleet, None)
    assert acme is not None
    assert (acme.share, acme.running, acme.borrowed, acme.waiting, acme.why) == (4, 6, 2, 1, Why.SHARE_USED)
    for slot in slots:
        slot.release()
    waits.result().release()


def test_without_the_store_nothing_is_known_but_what_this_process_holds(engine: RedisEngine, fleet: FleetPool) -> None:
    away = redis_engine("redis://127.0.0.1:1/0", "away")
    pools._built["exports"] = (conf.pool("exports"), FleetPool("exports", fleet.rules, store=away))  # type: ignore
    slot = pools.of("reports").acquire("acme", Share(2))

    with engine_replaced(away):
        seen = pools_now()

    assert [(name, one.is_known, one.held_by("acme")) for name, one in seen.items()] == [
        ("reports", False, None), ("exports", False, None), ("many", False, None),
    ]  # fmt: skip
    assert seen["reports"].running == 1
    slot.release()


def test_a_store_in_this_process_knows_this_process_alone(engine: RedisEngine) -> None:
    slot = pools.of("reports").acquire("acme", Share(2))

    with engine_replaced(MemoryEngine(clock=now_us)):
        seen = pools_now()["reports"]

    assert (seen.is_known, seen.processes, seen.running) == (True, 1, 1)
    slot.release()
