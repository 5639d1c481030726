"""A pool in the store while processes crash and fall silent, the store forgets and its clock jumps (C7, C11, C67)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tenantlimits.domain.shares import Entry, PoolRules, Share
from tenantlimits.engine.keys import pool_keys
from tenantlimits.engine.pools import Member, PoolBeat, PoolEnter, PoolLeave, PoolShow, Sign, State
from tests.engine.builders import Clock, redis_engine

TENANTS = ("acme", "bolt", "cedar")
PROCESSES = (b"process1", b"process2", b"process3")
LEASE, PATIENCE = 15.0, 3.0
RULES = PoolRules(capacity=3, lendable=1.0, queue=20)
SHARE = Share(1)
_pools = itertools.count()


@dataclass
class Known:
    """What a process knows of an operation of its own; it runs until `until` on the process's clock, unless renewed."""

    tenant: str
    process: bytes
    runs: bool
    until: float


@dataclass
class Fleet:
    """Processes that go by what they are told. Their clock is not the store's."""

    engine: Any
    clock: Clock
    client: redis.Redis
    prefix: str
    pool: str = field(default_factory=lambda: f"pool{next(_pools)}")
    mine: float = 0.0
    known: dict[bytes, Known] = field(default_factory=dict)

    def member(self, process: bytes) -> Member:
        return Member(pool=self.pool, process=process, rules=RULES, lease_seconds=LEASE, patience_seconds=PATIENCE)

    def hear(self, ids: tuple[bytes, ...]) -> None:
        for id in ids:
            if id in self.known:
                self.known[id].runs = True

    def running(self) -> list[bytes]:
        return [id for id, one in self.known.items() if one.runs and self.mine < one.until]


class Chaos(RuleBasedStateMachine):
    """Never above the capacity by what the processes believe; and in the end all of it is free."""

    make: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.fleet: Fleet = self.make()
        self.fleet.engine.run(PoolShow(self.fleet.member(PROCESSES[0])))
        self.fleet.clock.step(LEASE + 1)
        self.number = itertools.count(1)
        self.jumped_at = -LEASE - 1

    @rule(tenant=st.sampled_from(TENANTS), process=st.sampled_from(PROCESSES), may_wait=st.booleans())
    def enter(self, tenant: str, process: bytes, may_wait: bool) -> None:
        fleet, id = self.fleet, next(self.number).to_bytes(8, "big")
        entered = fleet.engine.run(
            PoolEnter(member=fleet.member(process), id=id, tenant=tenant, share=SHARE, may_wait=may_wait)
        )
        if entered.entry is None or entered.entry is Entry.WAITS:
            runs = entered.entry is None
            fleet.known[id] = Known(tenant, process, runs, fleet.mine + (LEASE if runs else PATIENCE))
        fleet.hear(entered.granted)

    @precondition(lambda self: self.fleet.known)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.fleet.known)))
        process = self.fleet.known.pop(id).process
        self.fleet.hear(self.fleet.engine.run(PoolLeave(self.fleet.member(process), (id,))).granted)

    @rule(process=st.sampled_from(PROCESSES))
    def beat(self, process: bytes) -> None:
        fleet = self.fleet
        told = {id: one for id, one in fleet.known.items() if one.process == process}
        signs = tuple(
            Sign(id=id, tenant=one.tenant, share=SHARE, runs=one.runs, again=fleet.mine < one.until, age=1.0)
            for id, one in told.items()
        )
        beaten = fleet.engine.run(PoolBeat(fleet.member(process), signs))
        for (id, one), state in zip(told.items(), beaten.states, strict=True):
            if state is State.GONE:
                del fleet.known[id]
            else:
                one.runs = state is State.RUNS
                one.until = fleet.mine + (LEASE if one.runs else PATIENCE)
        fleet.hear(beaten.granted)

    @rule(process=st.sampled_from(PROCESSES))
    def crash(self, process: bytes) -> None:
        for id in [id for id, one in self.fleet.known.items() if one.process == process]:
            del self.fleet.known[id]

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 4.0, 10.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.fleet.clock.step(seconds)
        self.fleet.mine += seconds

    @precondition(lambda self: self.fleet.mine - self.jumped_at > LEASE)
    @rule(seconds=st.sampled_from([-3600, -5, 3600]))
    def the_clock_of_the_store_jumps(self, seconds: float) -> None:
        """Once in a lease: a second jump ends the learning that the first one began."""
        self.fleet.clock.step(seconds)
        self.jumped_at = self.fleet.mine

    @rule()
    def the_store_forgets(self) -> None:
        self.fleet.client.delete(*pool_keys(self.fleet.prefix, self.fleet.pool))

    @invariant()
    def never_above_the_capacity(self) -> None:
        assert len(self.fleet.running()) <= RULES.capacity

    def teardown(self) -> None:
        """All processes are gone: nothing is kept of what they had, and slots are given out again."""
        fleet = self.fleet
        for _ in range(2):
            fleet.engine.run(PoolShow(fleet.member(PROCESSES[0])))
            fleet.clock.step(LEASE + 1)
        assert fleet.engine.run(PoolShow(fleet.member(PROCESSES[0]))).standings == {}
        assert not fleet.client.exists(*pool_keys(fleet.prefix, fleet.pool)[1:])
        wish = PoolEnter(member=fleet.member(PROCESSES[0]), id=b"lastone!", tenant="acme", share=SHARE, may_wait=False)
        entered = fleet.engine.run(wish)
        assert entered.entry is None or entered.opens_in > 0


@pytest.fixture
def fleet(redis_url: str, redis_client: redis.Redis, key_prefix: str) -> Iterator[Any]:
    clock = Clock()
    engine = redis_engine(redis_url, key_prefix, clock)
    yield lambda: Fleet(engine, clock, redis_client, key_prefix)
    engine.close()


def test_never_more_than_the_capacity_run_whatever_happens(fleet) -> None:
    """C7: processes crash, fall silent and come back; the store loses its memory, and its clock jumps."""
    Chaos.make = staticmethod(fleet)
    run_state_machine_as_test(
        Chaos,
        settings=settings(
            max_examples=2500, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
