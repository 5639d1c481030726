"""What a decision costs a client and a server: P1, P1b, P14, P3 and P5."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tenantlimits.engine.base import Admit, Lease, Release, lease_caps
from tenantlimits.engine.keys import Identity
from tenantlimits.engine.resp import bulk, command
from tests.benchmarks.bench import AMOUNT, LEASE_US, PERIODS, Bench, lua
from tests.benchmarks.harness import Call, Case, compare, crowd_us, median_ratio, script_us
from tests.benchmarks.rows import Row

ABOUT = "a decision over a script that does nothing"
CROWD = 50


def rows(bench: Bench) -> Iterator[Row]:
    """P1, P1b, P14, P3 and P5."""
    yield from latency(bench)
    yield release(bench)
    yield from limits(bench)
    yield from throughput(bench)


def latency(bench: Bench) -> Iterator[Row]:
    """P1, P1b: a whole decision over a script that does nothing."""
    found = compare(
        {
            "noop": Case(bench.noop),
            "held": Case(bench.held_noop),
            "tenant": Case(bench.asking("acme")),
            "three": Case(bench.asking("bolt", user="u")),
        },
        server=bench.server,
        rounds=120,
    )
    noop = found["noop"]
    yield Row("P1", "a decision over redis-py's no-op: tenant", 0.90, 0.75, found["tenant"].over(noop))
    yield Row("P1", "the same: tenant, user and credential", 1.00, 0.85, found["three"].over(noop))
    yield Row("P1b", "a decision over a no-op on a held connection", 2.0, 1.6, found["tenant"].over(found["held"]))


def release(bench: Bench) -> Row:
    """P14: a slot given back, over a script that does nothing."""
    identity = Identity(tenant="cedar")
    plan = bench.plan(identity)
    plan.lease_us = 60_000_000
    lease = Lease(id=os.urandom(8), identity=identity, caps=lease_caps(plan), length_us=plan.lease_us)
    taken = Admit(plan=plan, identity=identity, cost=1000, lease=lease.id)

    def released() -> None:
        bench.engine.post(Release(lease))  # its reply is read with the next decision's

    # Both after a decision, as in life: it leaves neither side's caches as a loop of no-ops does.
    before = bench.asking("cedar-before")
    cases = {"noop": Case(bench.noop, before), "release": Case(released, lambda: bench.engine.run(taken))}
    found = compare(cases, server=bench.server, rounds=80)
    return Row("P14", "giving a slot back over redis-py's no-op", 0.60, 0.50, found["release"].over(found["noop"]))


def limits(bench: Bench) -> Iterator[Row]:
    """P3: the server's time by the number of limits, and over a design with a key for every bucket."""
    cases: dict[str, Call] = {f"{n}": bench.asking(f"flat-{n}", periods=PERIODS[:n]) for n in (1, 4, 8)}
    found = script_us({**cases, "keys": key_per_bucket(bench, 4)}, bench.client)
    flat, over_keys = median_ratio(found["8"], found["1"]), median_ratio(found["4"], found["keys"])
    yield Row("P3", "server time at 8 limits over 1", 1.25, 1.15, flat)
    yield Row("P3", "server time at 4 limits over a key per bucket", 0.45, 0.36, over_keys)


def key_per_bucket(bench: Bench, number: int) -> Call:
    """The usual design: a hash for each bucket, a sorted set of leases, a hash of counters."""
    sha = bench.client.script_load(lua("key_per_bucket"))
    keys = [bulk(f"other:{name}") for name in ("leases", "usage", *range(number))]
    numbers = [bulk(str(one)) for period in PERIODS[:number] for one in (AMOUNT, AMOUNT / period / 1e6)]
    head = [bulk("EVALSHA"), bulk(sha), bulk(len(keys)), *keys, bulk(1000), bulk(LEASE_US), bulk(AMOUNT)]
    return lambda: bench.connections.exchange([command([*head, bulk(os.urandom(8)), *numbers])])


def throughput(bench: Bench) -> Iterator[Row]:
    """P5: what one core of the server decides, as part of what it does of no-ops and of a common one-bucket script."""
    gcra = bench.client.script_load(lua("gcra"))
    numbers = [bulk(one) for one in (10**6, 10**6, 60, 1)]
    cases = {
        "noop": [bench.packed_noop] * CROWD,
        "gcra": [command([bulk("EVALSHA"), bulk(gcra), bulk(1), bulk(f"gcra:{n}"), *numbers]) for n in range(CROWD)],
        "decision": [bench.asking(f"crowd-{n}").packed() for n in range(CROWD)],
    }
    found = crowd_us(cases, bench.server)
    of_noops, of_gcra = (median_ratio(found[name], found["decision"]) for name in ("noop", "gcra"))
    yield Row("P5", "decisions of one server core over its no-ops", 0.45, 0.60, of_noops, more_is_better=True)
    yield Row("P5", "the same over a one-bucket GCRA script", 0.95, 1.1, of_gcra, more_is_better=True)
