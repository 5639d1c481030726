"""A pool of this process: threads and tasks at once, and no slot is lost wherever one of them stops."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenantlimits.domain.errors import QueueFull, QueueTimeout, SlotRefused
from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.pools.process import ProcessPool, Slot
from tests.polling import eventually
from tests.pools import virtual

ONE = Share(1)


def pool_of(capacity: int = 2, **rules: float) -> ProcessPool:
    return ProcessPool("workers", PoolRules(**{"capacity": capacity, "lendable": 1.0, "queue": 10_000, **rules}))  # type: ignore[arg-type]


def is_idle(pool: ProcessPool) -> bool:
    """Nothing runs, nothing waits and nothing is kept."""
    return not pool.standings() and not pool._pool._tenants and pool._pool.running == 0


def waiting(pool: ProcessPool) -> int:
    return sum(one.waiting for one in pool.standings().values())


@pytest.fixture
def full() -> Iterator[tuple[ProcessPool, Slot]]:
    """A pool of one slot, which acme holds."""
    pool = pool_of(1)
    slot = pool.acquire("acme", ONE)
    yield pool, slot
    slot.release()
    assert eventually(lambda: is_idle(pool))


def test_a_slot_is_given_back_once(full: tuple[ProcessPool, Slot]) -> None:
    """C70: by a stranger never."""
    pool, slot = full

    assert pool_of().release(slot) is False
    assert [slot.release(), slot.release()] == [True, False]
    assert is_idle(pool)


def test_who_does_not_wait_is_told_why(full: tuple[ProcessPool, Slot]) -> None:
    """C4: at once, with the pool and the tenant."""
    pool, _ = full

    with pytest.raises(SlotRefused, match=r"pool workers for tenant acme: its share is in use \(running 1, share 1\)"):
        pool.acquire("acme", ONE)
    with pytest.raises(SlotRefused, match="the whole pool is in use"):
        pool.acquire("bolt", ONE)


def test_who_waits_is_woken_and_nobody_else(full: tuple[ProcessPool, Slot]) -> None:
    pool, slot = full
    order: list[int] = []

    def one(number: int) -> None:
        mine = pool.acquire("bolt", ONE, wait=5)
        order.append(number)
        mine.release()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        assert eventually(lambda number=number: waiting(pool) == number)  # type: ignore[misc]

    slot.release()
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2]


def test_nobody_slips_in_while_a_slot_is_handed_over() -> None:
    """C06: a newcomer that asks in the moment of the hand-over is served after who was parked."""
    pool, both = pool_of(2), Share(2)
    together = threading.Barrier(2)

    def newcomes() -> Slot:
        together.wait()
        return pool.acquire("acme", both, wait=5)

    with ThreadPoolExecutor(2) as executor:
        for _ in range(500):
            one, other = pool.acquire("acme", both), pool.acquire("acme", both)
            parked = executor.submit(pool.acquire, "acme", both, wait=5)
            assert eventually(lambda: waiting(pool) == 1)
            newcomer = executor.submit(newcomes)
            together.wait()
            one.release()
            served = parked.result(5)
            assert not newcomer.done()
            assert pool._pool.running == 2
            for slot in (other, served):
                slot.release()
            newcomer.result(5).release()

    assert is_idle(pool)


def test_who_waited_too_long_leaves_its_place(full: tuple[ProcessPool, Slot]) -> None:
    """C72: capacity is whole afterwards."""
    pool, slot = full

    with pytest.raises(QueueTimeout, match=r"within 0.01 s"):
        pool.acquire("bolt", ONE, wait=0.01)

    assert waiting(pool) == 0
    slot.release()
    pool.acquire("bolt", ONE).release()


def test_a_full_queue_turns_away(full: tuple[ProcessPool, Slot]) -> None:
    """C4: bounded in length."""
    pool, _ = full

    with pytest.raises(QueueFull, match="No room to wait for pool workers"):
        pool.acquire("bolt", Share(1, queue=0), wait=1)


def test_an_interrupted_thread_loses_no_slot(full: tuple[ProcessPool, Slot], monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's timeout may raise while it waits; in the same moment it may be granted."""
    pool, slot = full

    def interrupted(waiter: object, seconds: float) -> None:
        slot.release()
        raise KeyboardInterrupt

    monkeypatch.setattr("tenantlimits.pools.waiters.ThreadWaiter.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.acquire("bolt", ONE, wait=5)

    assert is_idle(pool)


async def test_a_cancelled_task_loses_no_slot_before_it_is_granted_nor_after() -> None:
    """C65."""
    pool = pool_of(1)
    slot = await pool.aacquire("acme", ONE)
    before = asyncio.ensure_future(pool.aacquire("bolt", ONE, wait=5))
    after = asyncio.ensure_future(pool.aacquire("bolt", ONE, wait=5))
    await asyncio.sleep(0)

    before.cancel()
    await asyncio.sleep(0)
    slot.release()  # to `after`, which is cancelled before it can run
    after.cancel()
    await asyncio.gather(before, after, return_exceptions=True)

    assert is_idle(pool)


def test_threads_and_tasks_wait_in_one_line(full: tuple[ProcessPool, Slot]) -> None:
    """ASGI runs sync views in threads, beside the loop."""
    pool, slot = full
    order: list[str] = []

    def by_thread() -> None:
        mine = pool.acquire("bolt", ONE, wait=5)
        order.append("thread")
        mine.release()

    async def by_task() -> None:
        mine = await pool.aacquire("bolt", ONE, wait=5)
        order.append("task")
        mine.release()

    first = threading.Thread(target=by_thread)
    first.start()
    assert eventually(lambda: waiting(pool) == 1)
    second = threading.Thread(target=lambda: asyncio.run(by_task()))
    second.start()
    assert eventually(lambda: waiting(pool) == 2)
    slot.release()
    first.join()
    second.join()

    assert order == ["thread", "task"]


def test_a_slot_for_a_task_whose_loop_has_ended_goes_on_to_the_next(full: tuple[ProcessPool, Slot]) -> None:
    pool, slot = full
    loop = asyncio.new_event_loop()
    task = loop.create_task(pool.aacquire("bolt", ONE, wait=60))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # its loop ends without it, on purpose
    loop.close()
    assert waiting(pool) == 1

    slot.release()

    assert pool.acquire("cedar", ONE).release()
    del task
    gc.collect()


def test_shares_and_capacity_change_without_stopping_anything() -> None:
    pool = pool_of(4)
    slots = [pool.acquire("acme", Share(4)) for _ in range(4)]
    waiters = ThreadPoolExecutor(4)
    granted = [waiters.submit(pool.acquire, "bolt", Share(2), wait=5) for _ in range(4)]
    assert eventually(lambda: waiting(pool) == 4)

    pool.change_share("acme", Share(1))
    pool.change_rules(PoolRules(capacity=6))

    assert eventually(lambda: pool.standings()["bolt"].running == 2)
    assert pool.standings()["acme"].running == 4
    for slot in slots:
        slot.release()
    for one in granted:
        one.result(5).release()
    assert is_idle(pool)
    waiters.shutdown()


class Crowd:
    """Threads and tasks that take slots of a pool, and give up at any moment."""

    def __init__(self, pool: ProcessPool) -> None:
        self.pool, self.most, self._running = pool, 0, 0
        self._lock = threading.Lock()

    def _begin(self) -> None:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)

    def _end(self, slot: Slot) -> None:
        with self._lock:
            self._running -= 1
        slot.release()

    def by_thread(self, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(30):
            try:
                slot = self.pool.acquire(f"t{seed % 3}", Share(2), wait=chance.choice([0.0, 0.001, 0.05]))
            except SlotRefused:
                continue
            self._begin()
            time.sleep(chance.random() / 1000)
            self._end(slot)

    def by_tasks(self, seed: int) -> None:
        asyncio.run(self._tasks(random.Random(seed)))

    async def _tasks(self, chance: random.Random) -> None:
        for _ in range(30):
            tasks = [asyncio.ensure_future(self._task(f"t{n % 3}", chance.random() / 20)) for n in range(10)]
            await asyncio.sleep(0.001)
            for task in chance.sample(tasks, 4):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _task(self, tenant: str, wait: float) -> None:
        try:
            slot = await self.pool.aacquire(tenant, Share(2), wait=wait)
        except SlotRefused:
            return
        self._begin()
        try:
            await asyncio.sleep(wait / 20)
        finally:
            self._end(slot)


def test_who_comes_with_a_larger_share_wakes_those_who_wait_first() -> None:
    pool = pool_of(3, lendable=0)
    first = pool.acquire("acme", Share(1))
    waiters = ThreadPoolExecutor(2)
    second = waiters.submit(pool.acquire, "acme", Share(1), wait=5)
    assert eventually(lambda: waiting(pool) == 1)

    third = waiters.submit(pool.acquire, "acme", Share(2), wait=0.05)

    assert second.result(5).release()
    third.result(5).release()
    first.release()
    assert is_idle(pool)
    waiters.shutdown()


def test_many_threads_and_tasks_that_stop_anywhere_leave_nothing_behind() -> None:
    """Never above the capacity, and slots return to zero."""
    pool, chance = pool_of(5, queue=40), random.Random(7)
    crowd = Crowd(pool)
    threads = [threading.Thread(target=crowd.by_thread, args=(seed,)) for seed in range(8)]
    threads += [threading.Thread(target=crowd.by_tasks, args=(seed,)) for seed in range(2)]

    for thread in threads:
        thread.start()
    for _ in range(20):
        pool.change_share(f"t{chance.randrange(3)}", Share(chance.randrange(4)))
        time.sleep(0.002)
    for thread in threads:
        thread.join()

    assert crowd.most <= 5
    assert is_idle(pool)


def test_nothing_is_kept_of_a_flood_of_tenants_that_came_once() -> None:
    """C8: while another one's flood waits."""

    async def scenario() -> int:
        pool = ProcessPool("workers", PoolRules(capacity=2), clock=asyncio.get_running_loop().time)

        async def one(tenant: str) -> None:
            slot = await pool.aacquire(tenant, ONE, wait=60)
            await asyncio.sleep(0.001)
            slot.release()

        noisy = [asyncio.ensure_future(one("noisy")) for _ in range(500)]
        await asyncio.sleep(0)
        for n in range(500):
            await one(f"t{n}")
        kept = len(pool._pool._tenants)
        await asyncio.gather(*noisy)
        assert is_idle(pool)
        return kept

    assert virtual.run(scenario()) < 20


def test_a_slot_that_is_dropped_is_given_back_when_it_is_collected() -> None:
    pool = pool_of(1)

    pool.acquire("acme", ONE)
    gc.collect()

    assert is_idle(pool)
