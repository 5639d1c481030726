"""A pool that processes share: the verbs of a process's pool, over a real store; what the store forgets or loses."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from tenantlimits.domain.errors import QueueFull, QueueTimeout, SlotRefused
from tenantlimits.domain.lanes import OnStoreFailure
from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.engine.keys import pool_keys
from tenantlimits.engine.pools import Member, PoolBeat, PoolEnter, PoolLeave, PoolShow, StoreError
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.pools.beats import beats
from tenantlimits.pools.fleet import FleetPool
from tenantlimits.pools.operations import Stage
from tests.engine.builders import connections_to
from tests.engine.workers import Place, in_processes
from tests.gate.stores import paused
from tests.polling import eventually
from tests.pools.workers import CAPACITY, SHARE, flood

ONE = Share(1)
NAME = "exports"


def known_for_long(url: str, prefix: str, name: str = NAME) -> None:
    """Let the store know the pool since 1970: it has learnt what there is to learn."""
    engine = RedisEngine(connections_to(url), prefix=prefix, clock=lambda: 0.0)
    member = Member(pool=name, process=b"historic", rules=PoolRules(capacity=1), lease_seconds=1, patience_seconds=1)
    engine.run(PoolShow(member))
    engine.close()


class Other:
    """Another process, of which this test is the hands."""

    def __init__(self, pool: FleetPool) -> None:
        self.engine = pool.store
        self.member = Member(
            pool=pool.name, process=b"otherone", rules=pool.rules, lease_seconds=15, patience_seconds=3
        )
        self.id = os.urandom(8)

    def takes(self, tenant: str = "bolt", share: int = 1) -> None:
        wish = PoolEnter(member=self.member, id=self.id, tenant=tenant, share=Share(share), may_wait=False)
        assert self.engine.run(wish).entry is None

    def ends(self) -> None:
        assert self.engine.run(PoolLeave(self.member, (self.id,))).was_there == (True,)


@pytest.fixture
def make(redis_url: str, key_prefix: str) -> Iterator[Any]:
    """`make(capacity=2, ...)`: the pool of this process, which the store has known for long."""
    known_for_long(redis_url, key_prefix)
    engine = RedisEngine(connections_to(redis_url), prefix=key_prefix)
    pools: list[FleetPool] = []

    def made(**rules: Any) -> FleetPool:
        lease = rules.pop("lease", 15.0)
        all_rules = PoolRules(**{"capacity": 2, "queue": 1000, **rules})
        pools.append(FleetPool(NAME, all_rules, store=engine, lease_seconds=lease, processes=lambda: 4))
        return pools[-1]

    yield made
    for pool in pools:
        pool.end()
    engine.close()


def waiting(pool: FleetPool) -> int:
    return sum(one.waiting for one in pool.standings().values())


def waits(pool: FleetPool, executor: ThreadPoolExecutor, tenant: str, share: Share = ONE, seconds: float = 10) -> Any:
    """A thread that waits for a slot, as soon as it does."""
    before = waiting(pool)
    future = executor.submit(pool.acquire, tenant, share, wait=seconds)
    assert eventually(lambda: waiting(pool) > before)
    return future


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as executor:
        yield executor


def test_a_slot_is_given_back_once(make) -> None:
    """C70: by another pool never."""
    pool, other = make(), make()
    slot = pool.acquire("acme", ONE)

    assert other.release(slot) is False
    assert [slot.release(), slot.release()] == [True, False]
    assert pool.standings() == {}


def test_who_does_not_wait_is_told_why(make) -> None:
    """C4."""
    pool = make(capacity=1)
    slot = pool.acquire("acme", ONE)

    with pytest.raises(SlotRefused, match=r"pool exports for tenant acme: its share is in use \(running 1, share 1\)"):
        pool.acquire("acme", ONE)
    with pytest.raises(SlotRefused, match="the whole pool is in use"):
        pool.acquire("bolt", ONE)
    slot.release()


def test_queues_are_bounded_in_length_and_time(make, executor) -> None:
    """C4."""
    pool = make(capacity=1, queue=1)
    slot = pool.acquire("acme", ONE)
    waiter = waits(pool, executor, "acme")

    with pytest.raises(QueueFull, match="1 operations of tenant acme wait"):
        pool.acquire("acme", ONE, wait=1)
    slot.release()
    waiter.result(5)
    began = time.monotonic()
    with pytest.raises(QueueTimeout, match=r"within 0\.05 s"):
        pool.acquire("acme", ONE, wait=0.05)

    assert 0.05 <= time.monotonic() - began < 1
    assert eventually(lambda: waiting(pool) == 0)
    assert waiter.result().release()


def test_nobody_slips_in_while_a_slot_is_handed_over(make, executor) -> None:
    """C06: a newcomer that asks in the moment of the hand-over is served after who was parked."""
    pool, both = make(), Share(2)
    together = threading.Barrier(2)

    def newcomes() -> Any:
        together.wait()
        return pool.acquire("acme", both, wait=10)

    for _ in range(50):
        one, other = pool.acquire("acme", both), pool.acquire("acme", both)
        parked = waits(pool, executor, "acme", both)
        newcomer = executor.submit(newcomes)
        together.wait()
        one.release()
        served = parked.result(5)
        assert not newcomer.done()
        assert pool.standings()["acme"].running == 2
        for slot in (other, served):
            slot.release()
        newcomer.result(5).release()

    assert pool.standings() == {}


def test_threads_and_tasks_wait_in_one_queue(make, executor) -> None:
    """C2: first come, first served, each woken by the end before it."""
    pool = make(capacity=1)
    slot = pool.acquire("acme", ONE)
    thread = waits(pool, executor, "acme")
    served = []

    async def scenario() -> None:
        task = asyncio.create_task(pool.aacquire("acme", ONE, wait=10))
        assert await asyncio.to_thread(eventually, lambda: waiting(pool) == 2)
        await slot.arelease()
        one = await asyncio.wrap_future(thread)
        served.append("thread")
        await asyncio.sleep(0.05)
        assert not task.done()
        await one.arelease()
        two = await task
        served.append("task")
        await two.arelease()

    asyncio.run(scenario())

    assert served == ["thread", "task"]
    assert pool.standings() == {}


def test_a_slot_that_another_process_gives_on_is_heard_of_at_once(make, executor) -> None:
    """C2: long before the next beat, for a waiter that nobody listened for yet, and for the next."""
    pool = make(capacity=1)
    for _ in range(2):
        other = Other(pool)
        other.takes()
        waiter = waits(pool, executor, "acme")
        time.sleep(0.2)  # the beat of the one that began to wait is over

        other.ends()
        began = time.monotonic()
        waiter.result(5).release()

        assert time.monotonic() - began < 0.3


def test_a_message_that_is_lost_costs_no_more_than_a_beat(make, executor, monkeypatch) -> None:
    pool = make(capacity=1, lease=1.5)
    other = Other(pool)
    other.takes()
    waiter = waits(pool, executor, "acme")
    monkeypatch.setattr(pool, "hear", lambda id: None)

    other.ends()

    assert waiter.result(2).release()


@pytest.mark.parametrize("has_slot", [False, True])
def test_a_cancelled_task_loses_no_slot(make, has_slot) -> None:
    """C72: while it waits, and when it was given one in that moment."""
    pool = make(capacity=1)

    async def scenario() -> None:
        slot = await pool.aacquire("acme", ONE)
        task = asyncio.create_task(pool.aacquire("bolt", ONE, wait=10))
        assert await asyncio.to_thread(eventually, lambda: waiting(pool) == 1)
        if has_slot:
            slot.release()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await slot.arelease()

    asyncio.run(scenario())

    assert eventually(lambda: pool.standings() == {})


def test_a_task_that_is_cancelled_while_the_store_answers_loses_no_slot(make) -> None:
    """C72: at each turn of the loop."""
    pool = make(capacity=1, lease=0.6)

    async def taking(turns: int) -> None:
        task = asyncio.create_task(pool.aacquire("acme", ONE, wait=5))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await (await task).arelease()

    async def giving_back(turns: int) -> None:
        task = asyncio.create_task((await pool.aacquire("acme", ONE, wait=5)).arelease())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def scenario() -> None:
        for turns in range(12):
            await giving_back(turns)
            await taking(turns)
        assert await (await pool.aacquire("bolt", ONE, wait=5)).arelease()

    asyncio.run(scenario())

    assert eventually(lambda: pool.standings() == {})


def test_a_slot_that_is_dropped_comes_back_with_the_next_beat(make) -> None:
    pool = make(capacity=1, lease=1.0)

    pool.acquire("acme", ONE)
    gc.collect()

    assert pool.acquire("acme", ONE, wait=5).release()


def test_a_slot_that_is_held_for_long_is_kept(make) -> None:
    """C7: renewed three times in a lease."""
    pool = make(capacity=1, lease=0.6)
    slot = pool.acquire("acme", ONE)

    with pytest.raises(QueueTimeout):
        pool.acquire("bolt", ONE, wait=1.5)

    assert not slot.lost
    assert slot.release()


def test_who_holds_a_slot_for_longer_than_it_may_loses_it(make, caplog) -> None:
    """C68."""
    pool = make(capacity=1, lease=1.0)
    slot = pool.acquire("acme", ONE, max_hold=0.3)

    assert pool.acquire("bolt", ONE, wait=5).release()
    assert slot.lost
    assert slot.release() is False
    assert "has held it for longer than it may: it runs on without its slot" in caplog.text


def test_a_slot_that_staff_free_is_lost_to_its_holder(make, caplog) -> None:
    pool = make(capacity=1, lease=1.0)
    slot = pool.acquire("acme", ONE)

    assert pool.free("acme")
    assert not pool.free("acme")
    assert pool.acquire("bolt", ONE).release()

    assert eventually(lambda: slot.lost)
    assert slot.release() is False


def test_a_raised_capacity_and_a_raised_share_are_used_by_those_who_wait(make, executor) -> None:
    pool = make(capacity=2, lendable=0)
    slots = [pool.acquire("acme", Share(1))]
    waiter = waits(pool, executor, "acme")

    pool.change_share("acme", Share(2))
    slots.append(waiter.result(5))
    waiter = waits(pool, executor, "acme", Share(3))
    pool.change_rules(PoolRules(capacity=3, lendable=0))
    slots.append(waiter.result(5))

    assert [slot.release() for slot in slots] == [True] * 3


def test_a_store_that_lost_its_memory_learns_for_a_lease_who_has_what(
    make, executor, redis_client, key_prefix, caplog
) -> None:
    """Holders keep their slots, waiters their places; a newcomer waits until it is known what is free."""
    pool = make(capacity=2, lease=1.2)
    slots = [pool.acquire("acme", Share(2)) for _ in range(2)]
    waiter = waits(pool, executor, "acme", Share(2))

    redis_client.delete(*pool_keys(key_prefix, NAME))
    began = time.monotonic()
    newcomer = executor.submit(pool.acquire, "bolt", ONE, wait=10)
    assert eventually(lambda: pool.standings().get("acme") and pool.standings()["acme"].running == 2)
    assert slots[0].release()
    winner = newcomer.result(5)
    slots.append(winner)

    assert time.monotonic() - began > 1.1
    assert "The store knows nothing of pool exports yet: no new slots for 1.2 s." in caplog.text
    assert slots[1].release()
    assert waiter.result(5).release()
    assert not any(slot.lost for slot in slots)
    assert winner.release()


@pytest.fixture
def failing(own_valkey: str, key_prefix: str) -> Iterator[FleetPool]:
    """A pool of 8 for four processes, of a server that may be paused; this one's part is 2."""
    known_for_long(own_valkey, key_prefix)
    engine = RedisEngine(connections_to(own_valkey, answer_seconds=0.1), prefix=key_prefix)
    pool = FleetPool(NAME, PoolRules(capacity=8), store=engine, lease_seconds=1.0, processes=lambda: 4)
    yield pool
    assert eventually(lambda: not engine._connections.breaker.outage)
    pool.end()
    engine.close()


def test_without_the_store_each_process_has_its_part(failing, own_valkey) -> None:
    """Capacity and shares divided by the processes, never less than a slot."""
    with paused(own_valkey):
        slots = [failing.acquire("acme", Share(1)), failing.acquire("acme", Share(1))]
        with pytest.raises(SlotRefused):
            failing.acquire("bolt", Share(8))
        with pytest.raises(QueueTimeout):
            failing.acquire("bolt", Share(8), wait=0.05)

        assert [slot.release() for slot in slots] == [True, True]
        assert [slot.release() for slot in slots] == [False, False]
        assert failing.acquire("bolt", Share(8)).release()


def test_without_the_store_others_refuse_or_let_everybody_in(failing, own_valkey) -> None:
    with paused(own_valkey):
        with pytest.raises(StoreError):
            failing.acquire("acme", ONE, on_store_failure=OnStoreFailure.REFUSE)
        slots = [failing.acquire("acme", ONE, on_store_failure=OnStoreFailure.ALLOW) for _ in range(20)]

        assert not any(slot.lost for slot in slots)
        assert not any(slot.release() for slot in slots)


def test_event_loops_do_the_same_without_the_store(failing, own_valkey) -> None:
    async def scenario() -> list[bool]:
        slots = [await failing.aacquire("acme", ONE), await failing.aacquire("acme", ONE)]
        with pytest.raises(SlotRefused):
            await failing.aacquire("acme", ONE)
        with pytest.raises(StoreError):
            await failing.aacquire("acme", ONE, on_store_failure=OnStoreFailure.REFUSE)
        return [await slot.arelease() for slot in slots]

    with paused(own_valkey):
        assert asyncio.run(scenario()) == [True, True]


def test_who_waits_when_the_store_fails_goes_on_without_it(failing, own_valkey, executor) -> None:
    """Nobody waits for a store that is away; and what could not be renewed for a lease is lost."""
    slots = [failing.acquire("acme", Share(8)) for _ in range(8)]
    waiter = waits(failing, executor, "acme", Share(8))

    with paused(own_valkey):
        began = time.monotonic()
        assert waiter.result(5).release()

        assert time.monotonic() - began < 2
        assert eventually(lambda: all(slot.lost for slot in slots))
        assert [slot.release() for slot in slots] == [False] * 8


def test_a_slot_that_could_not_be_given_back_is_given_back_later(failing, own_valkey) -> None:
    slot = failing.acquire("acme", Share(8))
    with paused(own_valkey):
        assert slot.release()

    assert eventually(lambda: not failing.store._connections.breaker.outage)
    assert eventually(lambda: failing.standings() == {}, 0.9)


def test_a_long_outage_leaves_nothing_behind(failing, own_valkey) -> None:
    """C8: neither what was asked in vain, nor what is owed to a store that has forgotten it by itself."""
    with paused(own_valkey):
        for _ in range(1000):
            failing.acquire("acme", ONE).release()

        assert eventually(lambda: not failing._operations._owed)
        assert failing._operations._all == {}


def test_a_fork_starts_empty(make) -> None:
    """What its parent holds is not its own, to give back or to keep alive."""
    pool = make(capacity=2)
    slot = pool.acquire("acme", ONE)
    parent = beats.process
    read, write = os.pipe()

    child = os.fork()
    if not child:
        try:
            mine = pool.acquire("bolt", ONE)
            said = [slot.release(), mine.release(), beats.process != parent, pool.due_at < float("inf")]
            os.write(write, repr(said).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 100) == b"[False, True, True, True]"
    os.close(read)
    os.close(write)
    assert slot.release()


def test_threads_end_when_there_is_nothing_left_to_do(make) -> None:
    pool = make(capacity=1, lease=1.0)
    pool.acquire("acme", ONE).release()

    assert eventually(lambda: "tenantlimits-fleet" not in {one.name for one in threading.enumerate()})


def test_thousands_who_wait_are_served_in_turn_and_none_is_kept(make, executor) -> None:
    """C2, C8: one loop, many tasks; never above the capacity."""
    pool = make(capacity=5, lease=5.0)
    running = most = 0

    async def work(number: int) -> None:
        nonlocal running, most
        slot = await pool.aacquire(f"t{number % 7}", ONE, wait=30)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        await slot.arelease()

    async def scenario() -> None:
        await asyncio.gather(*(work(number) for number in range(500)))

    asyncio.run(scenario())

    assert most == 5
    assert pool.standings() == {}


def test_processes_never_run_more_than_the_capacity_and_serve_everybody(redis_url, key_prefix, make) -> None:
    """C1, C6: four processes, each with threads and an event loop."""
    results = in_processes(4, flood, Place(redis_url, key_prefix), "acme", 25)

    intervals = [interval for found, _ in results for interval in found]
    assert len(intervals) == 4 * 25 * 8
    assert sum(lost for _, lost in results) == 0
    # An end before a beginning at the same instant: the one made room for the other.
    events = sorted([(began, 1) for began, _ in intervals] + [(ended, -1) for _, ended in intervals])
    # How many there are at most between two looks is the machine's doing; more than a share is the pool's.
    assert SHARE.slots < max(itertools.accumulate(change for _, change in events)) <= CAPACITY
    assert make().standings() == {}


def test_a_slot_that_ends_while_its_process_says_that_it_lives_stays_ended(make, monkeypatch) -> None:
    """What was said of it before its end arrives after it: that restores nothing for long."""
    pool = make(capacity=1)
    slot = pool.acquire("acme", ONE)
    run = pool.store.run

    def late(command: Any) -> Any:
        if isinstance(command, PoolBeat) and slot.operation.stage is not Stage.ENDED:
            assert slot.release()
        return run(command)

    monkeypatch.setattr(pool.store, "run", late)
    pool.beat()
    assert pool.standings()["acme"].running == 1
    pool.beat()

    assert pool.standings() == {}


def test_standings_say_who_runs_who_waits_and_since_when(make, executor) -> None:
    """V4: of all processes, on this one's clock."""
    pool = make(capacity=2)
    other = Other(pool)
    other.takes("bolt")
    slots = [pool.acquire("acme", ONE)]
    before = time.monotonic()
    waiter = waits(pool, executor, "acme")

    standings = pool.standings()

    acme, bolt = standings["acme"], standings["bolt"]
    assert (acme.share, acme.running, acme.borrowed, acme.waiting) == (1, 1, 0, 1)
    assert acme.since is not None
    assert before - 0.1 < acme.since < time.monotonic()
    assert (bolt.running, bolt.waiting, bolt.since) == (1, 0, None)
    assert acme.estimate > 0
    other.ends()
    slots.append(waiter.result(5))
    assert [slot.release() for slot in slots] == [True, True]


def test_nothing_is_kept_of_tenants_that_came_once(make) -> None:
    """C8: neither here nor there, but for what the pool itself knows."""
    pool = make(capacity=2)
    for number in range(300):
        pool.acquire(f"t{number}", ONE).release()

    pool.beat()

    kept = pool._operations
    assert (kept._all, kept._shares, kept._owed, kept.due_at) == ({}, {}, {}, float("inf"))
    assert pool.standings() == {}
