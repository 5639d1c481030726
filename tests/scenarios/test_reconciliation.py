"""What the usage rows say is what the callers lived through, per tenant, lane and hour (V3). No tolerance.

Each answer carries the instant of its decision on the store's clock, so that the callers' ledger knows its hour. bolt
lives in a time zone whose hour turns in the middle of the load.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tenantlimits.domain.limits import DAY, HOUR
from tenantlimits.models import Limit, Tenant, Tier, UsageHour
from tenantlimits.usage import flush
from tests.scenarios.client import Answer, Connection
from tests.scenarios.conftest import Site
from tests.scenarios.servers import REPOSITORY, Server
from tests.scenarios.zones import Zones

THREADS, PAUSE_SECONDS = 8, 0.01
BEFORE_SECONDS, AFTER_SECONDS = 3.0, 2.0
"""Of load, around the middle."""
COSTS = {"default": 1.0, "reads": 1.0, "uploads": 2.5, "exports": 1.0}
PATHS = {"/whoami/": "default", "/reads/": "reads", "/upload/": "uploads", "/sleep/?seconds=0.1": "exports"}
NOBODY = ("nobody", "/reads/")
"""A token that DRF finds wrong inside the view: it is charged to its address, in the default lane of no tenant."""
CALLS = [(tenant, path) for tenant in ("acme", "bolt", "cedar") for path in PATHS] + [NOBODY]

Key = tuple[str, str]
"""A tenant and a lane."""


def key_of(tenant: str, path: str) -> Key:
    """Where a call is counted."""
    return ("", "default") if (tenant, path) == NOBODY else (tenant, PATHS[path])


@dataclass(slots=True)
class Ledger:
    """What one caller, or all of them, lived through. `hours` counts by tenant, lane, hour and figure."""

    midnights: Mapping[str, float]
    hours: Counter[tuple[str, str, float, str]] = field(default_factory=Counter)
    unanswered: Counter[Key] = field(default_factory=Counter)

    def note(self, tenant: str, path: str, answer: Answer) -> None:
        assert answer.status in ((401,) if tenant == "nobody" else (200, 429)), answer
        who, lane = key_of(tenant, path)
        hour = answer.decided_at - (answer.decided_at - self.midnights.get(who, 0.0)) % HOUR
        figures = {"requests": 1.0}
        if answer.status == 429:
            figures["refused"] = 1.0
            figures |= {f"by {name}": 1.0 for name in re.findall(r'"([^"]+)";r=', answer.fields["RateLimit"])}
        else:
            figures |= {"allowed": 1.0, "cost": COSTS[lane]}
        self.hours.update({(who, lane, round(hour), name): number for name, number in figures.items()})


def by_lane(hours: Mapping[tuple[str, str, float, str], float]) -> Counter[tuple[str, str, str]]:
    """The figures of all hours together."""
    found: Counter[tuple[str, str, str]] = Counter()
    for (tenant, lane, _, figure), number in hours.items():
        found[tenant, lane, figure] += number
    return found


def rows() -> Counter[tuple[str, str, float, str]]:
    """The usage rows, all sources together, as a ledger has them."""
    found: Counter[tuple[str, str, float, str]] = Counter()
    for row in UsageHour.objects.select_related("tenant"):
        figures = {"requests": row.requests, "allowed": row.allowed, "refused": row.refused, "cost": float(row.cost)}
        figures |= {f"by {name}": times for name, times in row.refused_by.items()}
        key = row.tenant.key, row.lane, round(row.start.timestamp())
        found.update({(*key, name): number for name, number in figures.items() if number})
    return found


class Load:
    """Callers who ask again and again, each on a kept-alive connection for each tenant."""

    def __init__(self, server: Server, midnights: Mapping[str, float]) -> None:
        self.server, self.ledger, self.last_pid = server, Ledger(midnights), 0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def call(self, seed: int) -> None:
        """One caller, until `stop`."""
        chosen, connections = random.Random(seed), dict[str, Connection]()
        try:
            while not self._ended.is_set():
                tenant, path = chosen.choice(CALLS)
                self._one(connections, tenant, path)
                time.sleep(PAUSE_SECONDS)
        finally:
            for connection in connections.values():
                connection.close()

    def _one(self, connections: dict[str, Connection], tenant: str, path: str) -> None:
        connection = connections.setdefault(tenant, Connection(self.server, tenant))
        try:
            answer = connection.get(path)
        except (OSError, http.client.HTTPException):
            connections.pop(tenant).close()
            with self._lock:
                self.ledger.unanswered[key_of(tenant, path)] += 1
            return
        with self._lock:
            self.ledger.note(tenant, path, answer)
            self.last_pid = answer.pid

    def stop(self) -> None:
        self._ended.set()


@contextmanager
def under_load(server: Server, midnights: Mapping[str, float]) -> Iterator[Load]:
    load = Load(server, midnights)
    threads = [threading.Thread(target=load.call, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.stop()
        for thread in threads:
            thread.join()


@pytest.fixture
def repeated_for(request: pytest.FixtureRequest) -> float:
    """How long a process may repeat a refusal from memory, of which the store hears within a second."""
    return getattr(request, "param", 0.0)


@pytest.fixture
def tenantlimits(tenantlimits: dict[str, Any], settings: Any, repeated_for: float) -> dict[str, Any]:
    settings.TENANTLIMITS = tenantlimits | {"REFUSAL_CACHE_SECONDS": repeated_for}
    return settings.TENANTLIMITS


@pytest.fixture
def tier(site: Site) -> Tier:
    """Limits that refuse some of everything."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    for name, lane, amount, options in (
        ("all-rate", "all", 2, {"period_seconds": 1, "burst": 10, "counts": "requests"}),
        ("reads-minute", "reads", 3, {"period_seconds": 60, "kind": "sliding_log"}),
        ("uploads-day", "uploads", 5, {"period_seconds": DAY, "kind": "calendar_quota"}),
        ("exports-cap", "exports", 1, {"kind": "concurrency"}),
    ):
        Limit.objects.create(tier=tier, name=name, lane=lane, amount=amount, **options)
    for key in ("acme", "bolt", "cedar"):
        Tenant.objects.create(key=key, tier=tier)
    return tier


def let_bolts_hour_turn(zones: Zones) -> dict[str, float]:
    """In the middle of the load; answers the midnights of those who have one of their own."""
    bolt = Tenant.objects.get(key="bolt")
    bolt.time_zone, midnight = zones.whose_midnight_comes(time.time(), seconds=BEFORE_SECONDS)
    bolt.save()
    return {"bolt": midnight}


def flush_in_two_processes(site: Site) -> None:
    """At the same instant, as two cron jobs would."""
    command, environment = [sys.executable, "manage.py", "tenantlimits_flush"], os.environ | site.environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    started = [subprocess.Popen(command, cwd=REPOSITORY, env=environment, text=True, **pipes) for _ in range(2)]
    for process in started:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output


def test_usage_rows_equal_the_callers_own_ledger(site: Site, tier: Tier, zones: Zones) -> None:
    """V3, C133, C136: four processes under load, flushed all the while, then by two at once, and once more."""
    with site.gunicorn() as server:
        midnights = let_bolts_hour_turn(zones)
        with under_load(server, midnights) as load:
            while time.time() < midnights["bolt"] + AFTER_SECONDS:
                flush()
                time.sleep(0.3)
        flush_in_two_processes(site)
        found = rows()
        flush()

    assert not load.ledger.unanswered
    assert found == load.ledger.hours
    assert rows() == found
    assert {figure for *_, figure in found} >= {f"by {limit.name}" for limit in tier.limits.all()}
    assert len({hour for tenant, _, hour, _ in found if tenant == "bolt"}) == 2


@pytest.mark.parametrize("repeated_for", [0.25], indirect=True)
def test_refusals_repeated_from_memory_are_in_the_rows_a_second_later(site: Site, tier: Tier) -> None:
    """V3: all of them, and by each limit; near the end of an hour a second's worth may be counted in the next."""
    with site.gunicorn() as server:
        with under_load(server, {}) as load:
            time.sleep(AFTER_SECONDS)
        time.sleep(1.5)
        flush()

    found, ledger = by_lane(rows()), by_lane(load.ledger.hours)
    assert not load.ledger.unanswered
    assert found == ledger
    assert sum(number for (_, _, figure), number in found.items() if figure == "refused") > 0


def test_a_killed_process_adds_at_most_the_requests_that_it_had_in_flight(site: Site, tier: Tier) -> None:
    """V3: kill -9 of a worker under load. What it counted and could not answer is all that the ledger may lack.

    Refusals are not repeated from memory here: those of its last second would be lost with it.
    """
    with site.gunicorn() as server:
        with under_load(server, {}) as load:
            time.sleep(AFTER_SECONDS)
            os.kill(load.last_pid, signal.SIGKILL)
            time.sleep(AFTER_SECONDS)
        flush()
        flush()

    unanswered, excess = load.ledger.unanswered, by_lane(rows())
    excess.subtract(by_lane(load.ledger.hours))
    lanes = {(tenant, lane) for tenant, lane, _ in excess}
    assert sum(unanswered.values()) > 0
    for tenant, lane in lanes:
        for figure in ("requests", "allowed", "refused"):
            assert 0 <= excess[tenant, lane, figure] <= unanswered[tenant, lane], (tenant, lane, figure)
