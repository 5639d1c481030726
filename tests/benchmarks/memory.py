"""Many tenants: a decision among them, and the memory of each. P4."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace

from tenantlimits.domain.plans import Plan
from tenantlimits.engine.base import Admit, Status
from tenantlimits.engine.keys import SHARDS, Identity, keys_of, stamp_key
from tenantlimits.engine.redis import Call as Exchange
from tenantlimits.engine.resp import bulk, command
from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import Case, compare, running
from tests.benchmarks.rows import Row

ABOUT = "few tenants and a million"
FEW = 1000
BATCH = 1000


def rows(bench: Bench) -> Iterator[Row]:
    """A decision among many over one among few, each on a server of its own; a tenant's memory on the way there."""
    sizes = sorted({min(size, bench.tenants) for size in (FEW, 100_000, 1_000_000)})
    with running(bench.server.binary) as small, running(bench.server.binary) as large:
        among_few, among_many = Bench(small, small.tcp()), Bench(large, large.tcp())
        few, many = Population(among_few), Population(among_many)
        few.grow(FEW)
        for size in sizes:
            many.grow(size)
            yield Row("P4", f"memory of a tenant among {size:,}", 300, 240, many.bytes_each, unit="bytes")
        found = compare({"few": few.anyone(), "many": many.anyone()}, server=large, rounds=30)
        ratio = found["many"].over(found["few"])
        yield Row("P4", f"a decision among {many.size:,} tenants over {FEW:,}", 1.2, 1.1, ratio)


class Population:
    """Tenants that each have the state of four buckets, an hour of usage and a lease, as a decision leaves it."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.size = bench, 0
        first = Identity(tenant=_name(0))
        self.plan, keys = bench.plan(first), keys_of("tl", first)
        bench.engine.run(Admit(plan=self.plan, identity=first, cost=1000, lease=os.urandom(8)))
        state, stamp = (bench.client.get(key) for key in (keys.tenant, keys.stamp))
        assert isinstance(state, bytes)
        assert isinstance(stamp, bytes)
        self._state, self._ttl_ms = state, bench.client.pttl(keys.tenant)
        for shard in range(SHARDS):
            bench.client.set(stamp_key("tl", shard), stamp)
        self._empty = self._used()

    @property
    def bytes_each(self) -> float:
        """What a tenant takes of the server's memory, all that it needs for a key included."""
        return (self._used() - self._empty) / self.size

    def grow(self, size: int) -> None:
        """Add tenants until there are so many."""
        for start in range(self.size, size, BATCH):
            names = [keys_of("tl", Identity(tenant=_name(n))).tenant for n in range(start, min(start + BATCH, size))]
            sets = [[bulk(one) for one in ("SET", name, self._state, "PX", self._ttl_ms)] for name in names]
            self.bench.connections.exchange([command(one) for one in sets])
        self.size = max(size, self.size)

    def anyone(self) -> Case:
        """A decision for any of them; its plan is made beforehand, so that only the store's size differs."""
        bench, ready = self.bench, list[Exchange]()

        def prepare() -> None:
            identity = Identity(tenant=_name(random.randrange(self.size)))
            ask = Admit(plan=_plan_of(self.plan, identity), identity=identity, cost=1000, lease=os.urandom(8))
            ready[:] = [bench.engine.call(ask)]

        def call() -> None:
            commands, read, _ = ready[0]
            assert read(bench.connections.exchange(commands)).status is Status.ALLOWED

        return Case(call, prepare)

    def _used(self) -> int:
        used = self.bench.client.info("memory")["used_memory"]
        assert isinstance(used, int)
        return used


def _plan_of(plan: Plan, identity: Identity) -> Plan:
    return replace(plan, tenant=identity.tenant, compiled=None)


def _name(number: int) -> str:
    return f"tenant-{number}"
