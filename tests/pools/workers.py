"""What the processes of the fleet's tests run; light, since each of them imports it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import django

from tenantlimits.domain.shares import PoolRules, Share
from tests.engine.builders import redis_engine
from tests.engine.workers import Place

CAPACITY = 5
SHARE = Share(2)

Interval = tuple[float, float]
"""When an operation began and ended, on the machine's monotonic clock."""


def flood(start: Callable[[], Any], place: Place, tenant: str, calls: int) -> tuple[list[Interval], int]:
    """Threads and tasks of a process that want slots all at once; when each had one, and how many were lost."""
    django.setup()
    from tenantlimits.pools.fleet import FleetPool  # noqa: PLC0415 - its package has names that need Django

    engine = redis_engine(*place)
    pool = FleetPool("exports", PoolRules(capacity=CAPACITY, queue=10_000), store=engine, lease_seconds=5)
    intervals: list[Interval] = []
    lost = 0

    def work() -> None:
        nonlocal lost
        for _ in range(calls):
            slot = pool.acquire(tenant, SHARE, wait=60)
            began = time.monotonic()
            time.sleep(0.001)
            intervals.append((began, time.monotonic()))
            lost += slot.lost
            slot.release()

    async def one() -> None:
        nonlocal lost
        slot = await pool.aacquire(tenant, SHARE, wait=60)
        began = time.monotonic()
        await asyncio.sleep(0.001)
        intervals.append((began, time.monotonic()))
        lost += slot.lost
        await slot.arelease()

    async def tasks() -> None:
        await asyncio.gather(*(one() for _ in range(calls * 4)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    threads.append(threading.Thread(target=lambda: asyncio.run(tasks())))
    start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.end()
    engine.close()
    return intervals, lost
