"""A pool in the store: the rules of the domain made atomic, over operations that lapse with their process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tenantlimits.domain.shares import Entry, Grant, Pool, PoolRules, Share
from tenantlimits.engine.keys import pool_keys
from tenantlimits.engine.pools import (
    Entered,
    Member,
    PoolBeat,
    PoolEnter,
    PoolFree,
    PoolLeave,
    PoolShow,
    Sign,
    State,
)
from tenantlimits.engine.redis import RedisEngine
from tests.engine.builders import Clock, connections_to, redis_engine

TENANTS = ("acme", "bolt", "cedar", "{s00}:\0\n\ud800")
PROCESSES = (b"process1", b"process2")
AGES = 1e6
WAITS, RUNS, FREED = 1, 2, 3


class Fleet:
    """Processes that share a pool of a store, which has known it for long; operations are numbers."""

    def __init__(self, engine: RedisEngine, client: redis.Redis, clock: Clock, pool: str, **rules: Any) -> None:
        self.engine, self.client, self.clock = engine, client, clock
        self.lease = rules.pop("lease", 15.0)
        self.patience = rules.pop("patience", 3.0)
        is_old = rules.pop("is_old", True)
        self.rules = PoolRules(**{"capacity": 2, "queue": 100, **rules})
        self.keys = pool_keys(engine._prefix, pool)
        self.pool = pool
        self.number = itertools.count(1)
        self.shares: dict[int, tuple[str, Share]] = {}
        self.processes: dict[int, bytes] = {}
        if is_old:
            engine.run(PoolShow(self.member()))
            clock.step(self.lease + 1)

    def member(self, process: bytes = PROCESSES[0]) -> Member:
        return Member(
            pool=self.pool, process=process, rules=self.rules, lease_seconds=self.lease, patience_seconds=self.patience
        )

    def enter(self, tenant: str, share: int | Share = 1, process: bytes = PROCESSES[0], *, may_wait=True) -> Entered:
        """The operation is the last number."""
        number = next(self.number)
        slots = share if isinstance(share, Share) else Share(share)
        self.shares[number], self.processes[number] = (tenant, slots), process
        command = PoolEnter(
            member=self.member(process), id=number.to_bytes(8, "big"), tenant=tenant, share=slots, may_wait=may_wait
        )
        self.last = number
        return self.engine.run(command)

    def leave(self, *numbers: int, process: bytes | None = None) -> tuple[bool, ...]:
        asking = self.processes[numbers[0]] if process is None else process
        ids = tuple(number.to_bytes(8, "big") for number in numbers)
        return self.engine.run(PoolLeave(self.member(asking), ids)).was_there

    def beat(self, process: bytes, *signs: tuple[int, bool], again: bool = True) -> tuple[State, ...]:
        """Signs of operations (number, whether it runs)."""
        made = [
            Sign(
                id=number.to_bytes(8, "big"), tenant=self.shares[number][0], share=self.shares[number][1],
                runs=runs, again=again, age=1.0,
            )
            for number, runs in signs
        ]  # fmt: skip
        return self.engine.run(PoolBeat(self.member(process), tuple(made))).states

    def show(self) -> dict[str, tuple[int, int]]:
        """How many run and wait of each tenant."""
        shown = self.engine.run(PoolShow(self.member()))
        return {name: (one.running, one.waiting) for name, one in shown.standings.items()}

    def having(self, status: int) -> set[int]:
        """The operations that wait, or run."""
        kept: dict[bytes, bytes] = self.client.hgetall(self.keys[2])
        return {int.from_bytes(id, "big") for id, packed in kept.items() if packed[0] == status}

    def forget(self) -> None:
        """The store loses its memory."""
        self.client.delete(*self.client.keys(f"{self.engine._prefix}*"))

    def holds_nothing(self) -> bool:
        return not self.client.exists(*self.keys[1:])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fleet(redis_url: str, redis_client: redis.Redis, key_prefix: str, clock: Clock) -> Iterator[Any]:
    """`fleet(capacity=2, ...)`: a pool of that name and rules."""
    engine = redis_engine(redis_url, key_prefix, clock)
    number = itertools.count()
    yield lambda **rules: Fleet(engine, redis_client, clock, f"exports{next(number)}", **rules)
    engine.close()


class Agreement(RuleBasedStateMachine):
    """Two processes and the pure rules, by the same clock: the same operations run, and the same wait."""

    make: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.fleet: Fleet = self.make(capacity=3, queue=8, lease=AGES, patience=AGES)
        self.clock = self.fleet.clock
        self.pool: Pool[int] = Pool(self.fleet.rules)
        self.running: dict[int, tuple[Grant[int], float]] = {}
        self.waiting: dict[int, str] = {}
        self.slots = {tenant: Share(n) for n, tenant in enumerate(TENANTS)}
        self.most = 3

    def grant(self, grants: list[Grant[int]]) -> None:
        for grant in grants:
            self.waiting.pop(grant.waiter)
            self.running[grant.waiter] = grant, self.clock.now_us

    @rule(
        tenant=st.sampled_from(TENANTS), process=st.sampled_from(PROCESSES), may_wait=st.booleans(),
        times=st.integers(1, 3),
    )  # fmt: skip
    def enter(self, tenant: str, process: bytes, may_wait: bool, times: int) -> None:
        for _ in range(times):
            entered = self.fleet.enter(tenant, self.slots[tenant], process, may_wait=may_wait)
            number = self.fleet.last
            expected = self.pool.enter(tenant, self.slots[tenant], number, self.clock.now_us, may_wait=may_wait)
            if isinstance(expected, Grant):
                self.running[number] = expected, self.clock.now_us
                assert entered.entry is None
            else:
                if expected is Entry.WAITS:
                    self.waiting[number] = tenant
                assert entered.entry is expected
            standing = self.pool.standing(tenant, self.slots[tenant])
            assert entered.standing == replace(standing, since=None, estimate=entered.standing.estimate)
            assert entered.standing.estimate == pytest.approx(standing.estimate, abs=1e-5)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 0.001, 0.5, 1.0, 2.0]))
    def leave(self, data: st.DataObject, seconds: float) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        self.clock.step(seconds)
        grant, since_us = self.running.pop(number)
        self.grant(self.pool.leave(grant.tenant, grant.charged, (self.clock.now_us - since_us) / 1e6))
        assert self.fleet.leave(number) == (True,)
        assert self.fleet.leave(number) == (False,)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.waiting)))
        self.pool.withdraw(self.waiting.pop(number), number)
        assert self.fleet.leave(number) == (True,)

    @rule(tenant=st.sampled_from(TENANTS), slots=st.integers(0, 5))
    def change_share(self, tenant: str, slots: int) -> None:
        self.slots[tenant] = Share(slots)
        mine = [number for number in {*self.running, *self.waiting} if self.fleet.shares[number][0] == tenant]
        if mine:
            self.fleet.shares[mine[0]] = tenant, Share(slots)
            self.fleet.beat(self.fleet.processes[mine[0]], (mine[0], mine[0] in self.running))
        self.grant(self.pool.change_share(tenant, Share(slots)))

    @rule(capacity=st.integers(1, 6), lendable=st.sampled_from([0.0, 0.5, 1.0]))
    def change_rules(self, capacity: int, lendable: float) -> None:
        self.fleet.rules = PoolRules(capacity=capacity, lendable=lendable, queue=8)
        self.most = max(capacity, len(self.running))
        self.grant(self.pool.change_rules(self.fleet.rules))
        self.fleet.show()

    @invariant()
    def the_same_run_and_the_same_wait(self) -> None:
        assert self.fleet.having(RUNS) == set(self.running)
        assert self.fleet.having(WAITS) == set(self.waiting)

    @invariant()
    def never_above_capacity(self) -> None:
        assert len(self.running) <= max(self.fleet.rules.capacity, self.most)
        if len(self.running) <= self.fleet.rules.capacity:
            self.most = self.fleet.rules.capacity

    def teardown(self) -> None:
        """What is counted is what there is; slots return to zero, and nothing is kept."""
        shown = self.fleet.show()
        expected = {name: (one.running, one.waiting) for name, one in self.pool.standings().items()}
        assert shown == expected
        for number in {*self.running, *self.waiting}:
            self.fleet.leave(number)
        for number in self.fleet.having(RUNS):
            self.fleet.leave(number)
        assert self.fleet.holds_nothing()


def test_the_store_gives_the_same_slots_as_the_rules(fleet) -> None:
    """C1, C2, C4: whatever comes, leaves, gives up or changes."""
    Agreement.make = staticmethod(fleet)
    run_state_machine_as_test(
        Agreement,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_who_comes_while_others_wait_above_their_share_stands_beside_them(fleet) -> None:
    """C2: with nothing saved up, so that those who were there before it have their turn first."""
    pool = fleet(capacity=3)
    for _ in range(4):
        pool.enter("acme", 0)
    pool.shares[1] = "acme", Share(3)
    pool.beat(PROCESSES[0], (1, True))
    pool.enter("bolt", 1)

    pool.leave(1)

    assert pool.having(RUNS) == {2, 3, 4}


def test_what_a_lost_process_had_comes_back_with_its_last_sign_of_life(fleet, clock) -> None:
    """C7, C67: its slots, its places in the queue, and the slots that it was given after it was lost."""
    pool = fleet(capacity=2)
    lost, alive = PROCESSES
    pool.enter("acme", 1, alive)
    mine = pool.last
    pool.enter("acme", 1, lost)
    pool.enter("bolt", 1, lost)
    waiting_of_the_lost = pool.last
    pool.enter("acme", 1, alive)

    clock.step(2)
    assert pool.leave(mine) == (True,)
    assert waiting_of_the_lost in pool.having(RUNS)
    clock.step(1.1)
    pool.beat(alive, (pool.last, False))

    assert pool.last in pool.having(RUNS)
    clock.step(13)
    pool.beat(alive, (pool.last, True))
    assert pool.show() == {"acme": (1, 0)}


def test_the_places_of_a_lost_process_let_others_borrow_again(fleet, clock) -> None:
    """C2: whoever waits within its share keeps others from borrowing, but not for longer than it lives."""
    pool = fleet(capacity=3, lendable=0.4)
    lost, alive = PROCESSES
    for _ in range(3):
        pool.enter("bolt", 3, alive)
    pool.enter("bolt", 3, lost)
    pool.enter("acme", 0, alive)
    waits = pool.last
    first, *others = sorted(pool.having(RUNS))
    clock.step(3.1)

    pool.beat(alive, (waits, False), *((number, True) for number in (first, *others)))
    pool.leave(first)

    assert waits in pool.having(RUNS)


def test_a_sign_of_life_renews_all_that_a_process_has(fleet, clock) -> None:
    """C7: for as long as it gives them."""
    pool = fleet(capacity=1)
    pool.enter("acme")
    runs = pool.last
    pool.enter("acme")
    waits = pool.last

    for _ in range(20):
        clock.step(2)
        assert pool.beat(PROCESSES[0], (runs, True), (waits, False)) == (State.RUNS, State.WAITS)
    pool.enter("bolt", 1, PROCESSES[1], may_wait=False)

    assert pool.show() == {"acme": (1, 1)}


def test_a_stranger_ends_and_renews_nothing(fleet, clock) -> None:
    """C70."""
    pool = fleet(capacity=1)
    pool.enter("acme")

    assert pool.leave(pool.last, process=PROCESSES[1]) == (False,)
    assert pool.leave(pool.last + 1, pool.last, pool.last, process=PROCESSES[0]) == (False, True, False)


def test_a_store_that_lost_its_memory_gives_nothing_new_for_a_lease(fleet, clock) -> None:
    """What is known is renewed, never above the capacity; then the others have their turn."""
    pool = fleet(capacity=2)
    for _ in range(2):
        pool.enter("acme", 2)
    pool.enter("acme", 2)
    pool.forget()

    entered = pool.enter("bolt", 2, PROCESSES[1])
    newcomer = pool.last
    assert (entered.entry, entered.opens_in, entered.standing.estimate) == (Entry.WAITS, 15, 15)
    assert pool.enter("bolt", 2, PROCESSES[1], may_wait=False).entry is Entry.CAPACITY_FULL
    assert pool.beat(PROCESSES[0], (1, True), (2, True), (3, False)) == (State.RUNS, State.RUNS, State.WAITS)
    assert pool.leave(1) == (True,)
    for _ in range(7):
        clock.step(2)
        pool.beat(PROCESSES[0], (2, True), (3, False))
        pool.beat(PROCESSES[1], (newcomer, False))
    assert pool.having(RUNS) == {2}
    clock.step(2)

    pool.beat(PROCESSES[1], (newcomer, False))
    assert pool.having(RUNS) == {2, newcomer}


def test_who_cannot_have_its_slot_again_is_told(fleet) -> None:
    """Above the capacity nothing is restored, nor to a holder that was silent for a whole lease."""
    pool = fleet(capacity=2)
    pool.rules = replace(pool.rules, capacity=3)
    for _ in range(3):
        pool.enter("acme", 3)
    pool.rules = replace(pool.rules, capacity=2)
    pool.forget()

    assert pool.beat(PROCESSES[0], (1, True), again=False) == (State.GONE,)
    assert pool.beat(PROCESSES[0], (1, True), (2, True), (3, True)) == (State.RUNS, State.RUNS, State.GONE)


def test_a_pool_of_which_a_part_was_lost_begins_anew(fleet) -> None:
    """Half a pool would count what is not there."""
    for part in range(1, 5):
        pool = fleet(capacity=2)
        for _ in range(4):
            pool.enter("acme", 2)
        pool.client.delete(pool.keys[part])

        assert pool.enter("bolt", 2).opens_in > 0


def test_a_clock_that_jumps_doubles_no_load(fleet, clock) -> None:
    """C11: an hour ahead, all leases have lapsed; their holders have them back before anybody else has any."""
    pool = fleet(capacity=2)
    for _ in range(2):
        pool.enter("acme", 2)
    clock.step(3600)

    assert pool.enter("bolt", 2, PROCESSES[1]).entry is Entry.WAITS
    assert pool.beat(PROCESSES[0], (1, True), (2, True)) == (State.RUNS, State.RUNS)
    assert pool.having(RUNS) == {1, 2}


def test_a_clock_that_steps_back_keeps_no_slot_longer_than_a_lease(fleet, clock) -> None:
    """C10."""
    pool = fleet(capacity=1)
    pool.enter("acme")
    clock.step(-3600)
    pool.enter("bolt", 1, PROCESSES[1])
    for _ in range(7):
        clock.step(2.2)
        pool.beat(PROCESSES[1], (pool.last, False))

    assert pool.having(RUNS) == {pool.last}


def test_staff_free_one_slot_and_its_holder_does_not_get_it_back(fleet, clock) -> None:
    """V4: the oldest of the tenant, and whoever is next has it."""
    pool = fleet(capacity=2)
    pool.enter("acme", 2)
    clock.step(1)
    pool.enter("acme", 2)
    pool.enter("bolt", 1)

    freed = pool.engine.run(PoolFree(pool.member(), "acme"))

    assert freed.was_there == (True,)
    assert pool.having(RUNS) == {2, 3}
    assert pool.beat(PROCESSES[0], (1, True), (2, True), (3, True)) == (State.GONE, State.RUNS, State.RUNS)
    assert pool.leave(1) == (False,)
    assert pool.engine.run(PoolFree(pool.member(), "cedar")).was_there == (False,)


def test_nothing_is_kept_of_tenants_that_came_once(fleet, clock) -> None:
    """C8: while others wait, only of those that had more than their turn; and every key ends."""
    pool = fleet(capacity=2, queue=1000)
    pool.enter("noisy", 1)
    for _ in range(50):
        pool.enter("noisy", 1)
    for number in range(500):
        pool.enter(f"t{number}", 1)
        one = pool.last
        clock.step(0.01)
        pool.leave(min(pool.having(RUNS) - {one}))
        if one in pool.having(RUNS):
            pool.leave(one)
        pool.enter("noisy", 1)
    assert pool.client.hlen(pool.keys[1]) < 50
    assert {key: pool.client.pttl(key) > 0 for key in pool.keys} == dict.fromkeys(pool.keys, True)

    for number in sorted(pool.having(RUNS) | pool.having(WAITS)):
        pool.leave(number)
    for number in pool.having(RUNS):
        pool.leave(number)

    assert pool.holds_nothing()
    names = pool.client.keys(f"{pool.engine._prefix}*")
    assert names == [pool.keys[0].encode()]


def test_what_a_process_is_given_by_others_is_published_to_it_alone(fleet, redis_url) -> None:
    """C2: the chosen one is woken and nobody else."""
    pool = fleet(capacity=1)
    pool.enter("acme", 1, PROCESSES[0])
    holder = pool.last
    pool.enter("bolt", 1, PROCESSES[1])
    chosen = pool.last
    pool.enter("cedar", 1, PROCESSES[0])
    listening = [pool.engine.wakeups(process) for process in PROCESSES]

    pool.leave(holder)

    assert listening[1].read(5) == [chosen.to_bytes(8, "big")]
    assert listening[0].read(0.01) == []
    for one in listening:
        one.close()


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xff" * 72, b"\0" * 72], ids=["empty", "short", "nan", "zeros"])
def test_garbage_under_a_key_of_a_pool_locks_nobody_out(fleet, part, garbage) -> None:
    """The pool begins anew, and learns; never above the capacity."""
    pool = fleet(capacity=2)
    for _ in range(4):
        pool.enter("acme", 2)
    pool.client.set(pool.keys[part], garbage, px=60_000)

    with suppress(redis.ResponseError):
        pool.enter("bolt", 2)
    entered = pool.enter("bolt", 2)
    assert entered.entry is Entry.WAITS
    for _ in range(8):
        pool.clock.step(2)
        pool.beat(PROCESSES[0], (pool.last, False))

    assert pool.having(RUNS) == {pool.last}


def test_records_that_are_garbage_lock_nobody_out(fleet) -> None:
    for number, key in enumerate((1, 2)):
        pool = fleet(capacity=2)
        pool.enter("acme", 2)
        for field in pool.client.hkeys(pool.keys[key]):
            pool.client.hset(pool.keys[key], field, b"garbage")

        answers = []
        for _ in range(3):
            try:
                answers.append(pool.enter("acme", 2).entry)
                answers.append(pool.leave(1))
            except redis.ResponseError:
                continue

        assert answers, number


def test_an_account_that_may_do_nothing_else_is_enough(own_valkey, key_prefix, clock) -> None:
    """C111: the commands and channels of the documentation."""
    documented = Path("docs/operations.md").read_text()
    rights = next(line for line in documented.splitlines() if line.startswith("~tl:* ")).replace(
        "tl:*", f"{key_prefix}:*"
    )
    with redis.Redis.from_url(own_valkey) as client:
        client.execute_command("ACL", "SETUSER", "pooled", "reset", "on", ">secret", *rights.split())
        client.script_flush()
        engine = RedisEngine(
            connections_to(own_valkey, username="pooled", password="secret"), prefix=key_prefix, clock=clock
        )
        pool = Fleet(engine, client, clock, "exports", capacity=1)
        listening = engine.wakeups(PROCESSES[1])
        pool.enter("acme", 1)
        pool.enter("bolt", 1, PROCESSES[1])

        assert pool.beat(PROCESSES[1], (2, False)) == (State.WAITS,)
        assert engine.run(PoolFree(pool.member(), "acme")).was_there == (True,)

        assert listening.read(5) == [pool.last.to_bytes(8, "big")]
        assert pool.leave(2) == (True,)
        listening.close()
        engine.close()


def test_a_wakeup_that_the_account_may_not_hear_is_an_error(own_valkey, key_prefix) -> None:
    with redis.Redis.from_url(own_valkey) as client:
        client.execute_command("ACL", "SETUSER", "deaf", "reset", "on", ">secret", "~*", "+@all", "resetchannels")
    engine = RedisEngine(connections_to(own_valkey, username="deaf", password="secret"), prefix=key_prefix)

    with pytest.raises(redis.ResponseError):
        engine.wakeups(PROCESSES[0])
    engine.close()
