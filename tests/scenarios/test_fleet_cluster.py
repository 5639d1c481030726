"""A pool of the fleet in a real cluster: its keys are in one slot, and who waits is woken from whichever node."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest
import redis
from redis.crc import key_slot

from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.engine.cluster import ClusterConnections
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.keys import pool_keys, probe_key
from tenantlimits.engine.pools import Member, PoolEnter, PoolLeave, PoolShow
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.engine.resp import bulk, command
from tenantlimits.pools.fleet import FleetPool
from tests.scenarios.cluster import OWNERS, SLOTS, Node, cluster

NAMES = ("exports", "search", "thumbnails")
"""One at each of the nodes that own slots."""
ONE = Share(1)


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Node]]:
    with cluster() as nodes:
        yield nodes


def test_pools_are_spread_over_the_nodes_and_waiters_are_woken(nodes: list[Node], key_prefix: str) -> None:
    def engine_of(**options) -> RedisEngine:
        dial = Dial(redis.ConnectionPool.from_url(nodes[0].url), connect_seconds=5, answer_seconds=5)
        start = [("127.0.0.1", node.port) for node in nodes[:2]]
        probe = lambda shard: command([bulk(part) for part in ("SET", probe_key(key_prefix, shard), 1, "PX", 1000)])  # noqa: E731
        return RedisEngine(ClusterConnections(dial, start, probe=probe), prefix=key_prefix, **options)

    engine, long_ago = engine_of(), engine_of(clock=lambda: 0.0)
    rules = PoolRules(capacity=1)
    for name in NAMES:
        other = Member(pool=name, process=b"otherone", rules=rules, lease_seconds=15, patience_seconds=3)
        long_ago.run(PoolShow(other))
        held = os.urandom(8)
        engine.run(PoolEnter(member=other, id=held, tenant="bolt", share=ONE, may_wait=False))
        pool = FleetPool(name, rules, store=engine)
        ended_at: list[float] = []

        def wait(pool: FleetPool = pool, ended_at: list[float] = ended_at) -> None:
            slot = pool.acquire("acme", ONE, wait=10)
            ended_at.append(time.monotonic())
            assert slot.release()

        waiter = threading.Thread(target=wait)
        waiter.start()
        while pool.standings().get("acme") is None:
            time.sleep(0.01)
        time.sleep(0.3)  # until it listens, and the beat of one who begins to wait is over
        began = time.monotonic()
        engine.run(PoolLeave(other, (held,)))
        waiter.join()

        assert ended_at[0] - began < 0.5
        assert pool.standings() == {}
        pool.end()
    slots = [{key_slot(key.encode()) for key in pool_keys(key_prefix, name)} for name in NAMES]
    assert [len(each) for each in slots] == [1] * len(NAMES)
    assert len({min(each) * OWNERS // SLOTS for each in slots}) == OWNERS
    engine.close()
    long_ago.close()
