"""A pool of the fleet under real servers: three workers of gunicorn with threads and one of uvicorn (C1, C7).

LEASE_SECONDS is 2. Who has a slot when is in the views' own journal, and never more than the capacity have one, without
tolerance. That the slots of a killed process are back within two leases is the issue's own tolerance, 4 s.
"""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tenantlimits.domain.shares import PoolRules
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.pools import Member, PoolShow
from tenantlimits.engine.redis import RedisEngine
from tests.scenarios import servers
from tests.scenarios.client import Connection
from tests.scenarios.conftest import Site
from tests.scenarios.servers import Server, serving
from tests.scenarios.site.fleet import CAPACITY, NAME
from tests.scenarios.site.journal import Work

TWO_LEASES = 4.0
WORKERS = 3
CLIENTS = 15
"""Of each tenant at each server: three times as many as there are slots."""


def store_has_known_the_pool_for_long(url: str, prefix: str) -> None:
    dial = Dial(redis.ConnectionPool.from_url(url), connect_seconds=5, answer_seconds=5)
    engine = RedisEngine(Connections(dial), prefix=prefix, clock=lambda: 0.0)
    member = Member(pool=NAME, process=b"historic", rules=PoolRules(capacity=1), lease_seconds=1, patience_seconds=1)
    engine.run(PoolShow(member))
    engine.close()


@contextmanager
def flooded(server: Server, path: str) -> Iterator[list[int]]:
    """Clients of two tenants who ask again and again; the statuses that they are answered. The journal has the path."""
    ended, statuses = threading.Event(), []

    def ask(tenant: str) -> None:
        connection = Connection(server, tenant)
        while not ended.is_set():
            try:
                statuses.append(connection.get(f"{path}?seconds=0.15&label={tenant}{path}").status)
            except (OSError, http.client.HTTPException):
                connection.close()  # its process was killed
        connection.close()

    threads = [threading.Thread(target=ask, args=(tenant,)) for tenant in ("acme", "bolt") for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def back(works: list[Work], killed: int, since: float) -> float | None:
    """When as many as the capacity ran at once without the killed process."""
    others = [work for work in works if work.pid != killed]
    events = sorted([(work.begin, 1) for work in others] + [(work.end, -1) for work in others])
    counts = itertools.accumulate(change for _, change in events)
    full = (at for (at, _), count in zip(events, counts, strict=True) if count == CAPACITY and at >= since)
    return next(full, None)


def test_the_slots_of_a_killed_process_are_back_within_two_leases(site: Site, redis_url: str, key_prefix: str) -> None:
    store_has_known_the_pool_for_long(redis_url, key_prefix)
    environment = site.environment
    with (
        serving(servers.gunicorn(workers=WORKERS, threads=12), environment) as threaded,
        site.uvicorn() as looped,
        flooded(threaded, "/pooled/") as answers,
        flooded(looped, "/awaited-pooled/") as awaited_answers,
    ):
        time.sleep(1.5)
        holders = Counter(work.pid for work in site.journal.running() if work.label.endswith("/pooled/"))
        victim, _ = holders.most_common(1)[0]
        os.kill(victim, signal.SIGKILL)
        killed_at = time.monotonic()
        while not (back_at := back(site.journal.works(), victim, killed_at)):
            assert time.monotonic() - killed_at < 2 * TWO_LEASES, "They did not come back."
            time.sleep(0.1)
        time.sleep(0.5)

    works = site.journal.works({victim: killed_at})
    assert any(work.pid == victim and work.end == killed_at for work in works)
    assert site.journal.most_at_once({victim: killed_at}) == CAPACITY
    assert back_at - killed_at < TWO_LEASES
    assert {*answers, *awaited_answers} == {200}
    assert {work.label for work in works} == {
        f"{tenant}/{path}" for tenant in ("acme", "bolt") for path in ("pooled/", "awaited-pooled/")
    }
