"""Four workers of one site, the store that they share, and what may stand in between."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from django.test import override_settings

from tenantlimits.gate import peek
from tenantlimits.gate.keeper import TICK_SECONDS
from tenantlimits.models import Limit, Tenant, Tier, UsageHour
from tenantlimits.usage import FlushFailed, flush
from tests.chaos.proxy import Habit, Proxy
from tests.chaos.server import Server
from tests.chaos.site import middleware
from tests.polling import eventually
from tests.scenarios import servers
from tests.scenarios.client import Connection, one_to_each_process
from tests.scenarios.servers import serving
from tests.scenarios.site import journal

PREFIX = "chaos"
NOBODYS = "cedar-0"
"""A tenant of whom no fault knows."""
LIMIT, SLOTS = 60, 2
"""Reads of a tenant in an hour, and exports at once."""
TIMEOUT_SECONDS = 0.25
TENANTLIMITS = {
    "TENANT_RESOLVER": "tests.scenarios.site.middleware.tenant_of",
    "DEFAULT_TIER": "chaos",
    "LANES": {
        "reads": {},
        "uploads": {},
        "exports": {},
        "open": {"on_store_failure": "allow"},
        "shut": {"on_store_failure": "refuse"},
    },
    "KEY_PREFIX": PREFIX,
    "LEASE_SECONDS": 1,
    "CONNECT_TIMEOUT_SECONDS": TIMEOUT_SECONDS,
    "STORE_TIMEOUT_SECONDS": TIMEOUT_SECONDS,
}

Usage = Counter[tuple[str, str, str]]
"""How many, by tenant, lane, and `allowed` or `refused`."""


def caches(server: Server) -> dict[str, Any]:
    """CACHES of the site, and of whoever looks at its store."""
    return {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.url}}


@dataclass(slots=True, eq=False)
class Fleet:
    """The workers and their store. `other` is a second server, which runs only when a fault needs it."""

    server: Server
    other: Server
    workers: servers.Server
    store_times: Path
    log: Path
    proxy: Proxy | None = None
    rounds: int = 0
    openings: dict[int, int] = field(default_factory=dict)
    """How often each process had left its store alone when it was asked last."""

    def cast(self) -> tuple[str, str]:
        """Two tenants that nobody has seen yet."""
        self.rounds += 1
        names = f"acme-{self.rounds}", f"bolt-{self.rounds}"
        for name in names:
            Tenant.objects.create(key=name, tier=Tier.objects.get(slug="chaos"))
        return names

    def put_proxy(self) -> None:
        """Let the workers find the server behind a proxy. That takes an outage."""
        self.server.kill()
        self.server.start(port=self.other.port)
        self.proxy = Proxy(self.server.port, self.server.at)
        self.find_server()

    def take_proxy(self) -> None:
        """And in its old place again."""
        if self.proxy is not None:
            self.proxy.close()
            self.proxy = None
            self.server.kill()
            self.server.start()
            self.find_server()

    def find_server(self) -> None:
        """Wait until every process decides by the store again."""
        with one_to_each_process(self.workers, NOBODYS) as found:
            assert eventually(lambda: not any(_is_degraded(one) for one in found.values()), 10, every=0.05)

    def behave(self, habit: Habit) -> None:
        """Tell the proxy."""
        assert self.proxy is not None, "put it there first"
        self.proxy.habit = habit

    def long_waits(self) -> list[float]:
        """Seconds that requests were inside calls to the store: the longest, since this was asked last."""
        lines = self.store_times.read_text().split()
        self.store_times.write_text("")
        return [float(line) for line in lines]


def usage_of(*tenants: str) -> Usage:
    """What the rows say, after a flush."""
    with suppress(FlushFailed):  # the store is not well: what is there is what there is
        flush()
    found: Usage = Counter()
    for row in UsageHour.objects.filter(tenant__key__in=tenants).select_related("tenant"):
        found[row.tenant.key, row.lane, "allowed"] += row.allowed
        found[row.tenant.key, row.lane, "refused"] += row.refused
    return found


def in_flight(tenant: str) -> float:
    """Slots of exports that the store holds for taken; infinitely many while it does not say."""
    try:
        return peek(lane="exports", tenant=tenant).readings[0].used
    except redis.RedisError:
        return math.inf


@contextmanager
def fleet(folder: Path, database: Mapping[str, Any]) -> Iterator[Fleet]:
    """Everything running, on rows of its own in a database that is empty but for the migrations' rows.

    This process has the settings of the site meanwhile, so that it can look at the store.
    """
    server, other = Server(folder / "server"), Server(folder / "other")
    times, log = folder / "store-times", folder / "site.log"
    times.touch()
    (folder / "journal").touch()
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.chaos.site.settings",
        "REDIS_URL": server.url,
        "SITE_DATABASE": json.dumps(database, default=str),
        "SITE_TENANTLIMITS": json.dumps(TENANTLIMITS),
        "SITE_LOG": str(log),
        journal.VARIABLE: str(folder / "journal"),
        middleware.VARIABLE: str(times),
    }
    with ExitStack() as stack:
        stack.enter_context(closing(server))
        stack.enter_context(closing(other))
        server.start()
        stack.enter_context(override_settings(CACHES=caches(server), TENANTLIMITS=TENANTLIMITS))
        _add_rows()
        workers = stack.enter_context(serving(servers.gunicorn(), environment))
        whole = Fleet(server, other, workers, times, log)
        whole.find_server()
        time.sleep(2 * TICK_SECONDS)  # each process knows how many there are
        stack.callback(whole.take_proxy)
        yield whole


def _is_degraded(connection: Connection) -> bool:
    return connection.get("/open/").fields["X-Degraded"] == "1"


def _add_rows() -> None:
    tier = Tier.objects.create(slug="chaos", name="Chaos")
    add = Limit.objects.create
    add(tier=tier, name="reads-hour", lane="reads", kind="sliding_log", amount=LIMIT, period_seconds=3600)
    add(tier=tier, name="exports-cap", lane="exports", kind="concurrency", amount=SLOTS)
