"""What Prometheus reads: from one process, from several together, and while the store is away."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.parser import text_string_to_metric_families

from tenantlimits.domain.decisions import Code
from tenantlimits.gate import aadmit, admit, hold
from tenantlimits.gate.policies import policies
from tenantlimits.metrics import FAMILIES, ThisProcess
from tenantlimits.models import Limit, Tenant, Tier
from tests.gate.stores import paused
from tests.polling import eventually
from tests.surfaces.conftest import SITE, settings_of

PREFIX = "tenantlimits_"


@pytest.fixture
def acme(transactional_db: None, key_prefix: str) -> Iterator[Tenant]:
    """A tenant of three uploads and one export at once, in a process that has decided nothing yet."""
    with override_settings(**SITE, TENANTLIMITS=settings_of(key_prefix, REFUSAL_CACHE_SECONDS=5)):
        policies.forget()
        tier = Tier.objects.create(slug="pro", name="Pro")
        Limit.objects.create(tier=tier, name="rate", lane="uploads", amount=3, period_seconds=3600)
        Limit.objects.create(tier=tier, name="cap", lane="exports", kind="concurrency", amount=1)
        yield Tenant.objects.create(key="acme", tier=tier)


@pytest.fixture
def registry() -> CollectorRegistry:
    """A registry that reads this process."""
    registry = CollectorRegistry()
    registry.register(ThisProcess())
    return registry


def told(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by those of its labels, as Prometheus parses them; without what is 0."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [one for family in families for one in family.samples if one.name == PREFIX + name]
    return {tuple(one.labels.values()): one.value for one in samples if one.value}


def test_decisions_are_told_by_lane_and_outcome(acme: Tenant, registry: CollectorRegistry) -> None:
    """V4: refusals that were repeated from memory are decisions like any other."""
    admit(lane="uploads", cost=4, tenant="acme")
    for _ in range(5):
        admit(lane="uploads", cost=1, tenant="acme")
    admit(lane="reads", tenant="acme")

    assert told(registry, "decisions_total") == {
        ("uploads", "allowed"): 3,
        ("uploads", "rate_limited"): 2,
        ("uploads", "cost_exceeds_limit"): 1,
        ("reads", "allowed"): 1,
    }
    assert told(registry, "degraded_decisions_total") == {}


async def test_decisions_of_event_loops_are_told_too(acme: Tenant, registry: CollectorRegistry) -> None:
    await aadmit(lane="reads", tenant="acme")

    assert told(registry, "decisions_total") == {("reads", "allowed"): 1}


def test_slots_are_told_while_they_are_held(acme: Tenant, registry: CollectorRegistry) -> None:
    """V4."""
    with hold(lane="exports", tenant="acme"):
        assert told(registry, "in_flight") == {("exports",): 1}
        assert admit(lane="exports", tenant="acme").code is Code.CONCURRENCY_LIMITED

    assert told(registry, "in_flight") == {}
    assert told(registry, "decisions_total")["exports", "concurrency_limited"] == 1


def test_tenants_are_never_a_label(acme: Tenant, registry: CollectorRegistry) -> None:
    """C187: however many there are, there are so many series as lanes and outcomes."""
    for number in range(50):
        for lane in ("reads", "uploads"):
            admit(lane=lane, tenant=f"tenant-{number}")

    text = generate_latest(registry).decode()

    assert "tenant-" not in text
    assert told(registry, "decisions_total") == {("reads", "allowed"): 50, ("uploads", "allowed"): 50}
    assert {label for family in FAMILIES for label in family.labels} == {"lane", "outcome", "error"}


def test_a_tier_that_has_no_row_is_told(acme: Tenant, registry: CollectorRegistry) -> None:
    """Nothing limits its tenants meanwhile."""
    admit(lane="reads", tenant="bolt")
    admit(lane="reads", tenant="acme")
    assert told(registry, "decisions_without_tier_total") == {("reads",): 1}

    free = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=free, name="rate", lane="all", amount=5, period_seconds=60, counts="requests")
    admit(lane="reads", tenant="bolt")

    assert told(registry, "decisions_without_tier_total") == {("reads",): 1}


def test_a_process_that_has_decided_nothing_tells_that_its_store_is_there(registry: CollectorRegistry) -> None:
    text = generate_latest(registry).decode()

    assert f"{PREFIX}store_degraded 0.0" in text
    assert f'{PREFIX}in_flight{{lane="uploads"}} 0.0' in text


def test_the_default_registry_has_them(acme: Tenant) -> None:
    """What a host serves already has ours in it."""
    admit(lane="reads", tenant="acme")

    assert told(REGISTRY, "decisions_total") == {("reads", "allowed"): 1}


def test_a_store_in_this_process_is_told_as_any_other(
    acme: Tenant, memory_engine: Any, registry: CollectorRegistry
) -> None:
    assert [admit(lane="uploads", cost=1, tenant="acme").allowed for _ in range(4)] == [True] * 3 + [False]

    assert told(registry, "decisions_total") == {("uploads", "allowed"): 3, ("uploads", "rate_limited"): 1}


def test_a_store_that_is_away_is_told_until_it_is_back(
    acme: Tenant, own_valkey: str, key_prefix: str, registry: CollectorRegistry
) -> None:
    """V6, C105."""
    caches = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": own_valkey}}
    site = settings_of(key_prefix, STORE_TIMEOUT_SECONDS=0.1, REFUSAL_CACHE_SECONDS=0)
    with override_settings(CACHES=caches, TENANTLIMITS=site):
        admit(lane="uploads", cost=1, tenant="acme")
        with paused(own_valkey):
            for lane in ("uploads", "open", "shut", "shut"):
                admit(lane=lane, cost=1, tenant="acme")

            assert told(registry, "store_degraded") == {(): 1}
        assert eventually(lambda: told(registry, "store_degraded") == {})

        assert told(registry, "store_errors_total") == {("TimeoutError",): 1, ("StoreAway",): 3}
        assert told(registry, "store_openings_total") == {(): 1}
        assert told(registry, "degraded_decisions_total") == {("uploads",): 1, ("open",): 1, ("shut",): 2}
        assert told(registry, "decisions_total") == {
            ("uploads", "allowed"): 2,
            ("open", "allowed"): 1,
            ("shut", "store_unavailable"): 2,
        }


def test_the_docs_list_every_metric_and_no_other(repository: Path) -> None:
    text = (repository / "docs/operations.md").read_text("utf-8")
    listed = re.findall(r"^\| `(tenantlimits_\w+)` \| (\w+) \| ([`\w, ]*) ?\|", text, re.MULTILINE)

    assert [(name, kind, tuple(re.findall(r"\w+", labels))) for name, kind, labels in listed] == [
        (one.name, "gauge", one.labels) if one.together else (f"{one.name}_total", "counter", one.labels)
        for one in FAMILIES
    ]


def test_an_install_without_prometheus_works(repository: Path) -> None:
    told = run(
        repository,
        "import sys; sys.modules['prometheus_client'] = None",
        "import django; django.setup()",
        "from tenantlimits.gate import admit",
        "print('tenantlimits.metrics' in sys.modules)",
    )

    assert told == "False\n"


def run(repository: Path, *lines: str) -> str:
    """What a process says that runs these lines."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=repository, text=True, capture_output=True, check=False,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


class Together:
    """Processes of tests/metering.py, and what all of them together tell."""

    def __init__(self, folder: Path, environment: dict[str, str], repository: Path) -> None:
        self.folder = folder
        self._environment = environment | {"PROMETHEUS_MULTIPROC_DIR": str(folder)}
        self._repository = repository
        self.running: list[subprocess.Popen[str]] = []

    def start(self, *verb: str) -> subprocess.Popen[str]:
        """One process more, which has done what it was to do, and stays until its input ends."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.metering", *verb],
            cwd=self._repository, env=os.environ | self._environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        """Let it end as a process does that has nothing left to do."""
        process.communicate(timeout=60)
        assert process.returncode == 0

    def told(self, name: str) -> dict[tuple[str, ...], float]:
        """As a scrape would read it now."""
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self.folder))
        try:
            return told(registry, name)
        except struct.error:
            return {}  # prometheus_client stumbles over a file that a process has made this instant and not filled yet


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, repository: Path, redis_url: str) -> str:
    """A database with the tables and the tier."""
    folder = tmp_path_factory.mktemp("metering")
    rows = str(folder / "rows.sqlite3")
    preparing = Together(folder, environment(rows, redis_url, "prepare"), repository)
    preparing.end(preparing.start("prepare"))
    return rows


@pytest.fixture
def together(tmp_path: Path, repository: Path, rows: str, redis_url: str, key_prefix: str) -> Iterator[Together]:
    """Nobody runs yet."""
    together = Together(tmp_path, environment(rows, redis_url, key_prefix), repository)
    yield together
    for process in together.running:
        process.kill()
        process.communicate()


def environment(rows: str, redis_url: str, key_prefix: str) -> dict[str, str]:
    """Where processes keep their rows and their limits."""
    return {"METERING_DATABASE": rows, "METERING_REDIS": redis_url, "METERING_PREFIX": key_prefix}


def eventually_tells(together: Together, name: str, expected: dict[tuple[str, ...], float]) -> None:
    eventually(lambda: together.told(name) == expected, seconds=20)
    assert together.told(name) == expected


def test_several_processes_add_up(together: Together) -> None:
    """What a process counted stays when it ends, and what it held does not."""
    first, _ = together.start("decide", "5"), together.start("decide", "7")

    eventually_tells(together, "decisions_total", {("reads", "allowed"): 12, ("exports", "allowed"): 2})
    eventually_tells(together, "in_flight", {("exports",): 2})

    together.end(first)

    assert together.told("decisions_total") == {("reads", "allowed"): 12, ("exports", "allowed"): 2}
    assert together.told("in_flight") == {("exports",): 1}


def test_a_process_that_ends_at_once_has_told_everything(together: Together) -> None:
    together.end(together.start("decide", "5"))

    assert together.told("decisions_total") == {("reads", "allowed"): 5, ("exports", "allowed"): 1}
    assert together.told("in_flight") == {}


def test_a_killed_process_holds_nothing_once_it_is_marked_dead(together: Together) -> None:
    """Gunicorn's hook child_exit does it."""
    process = together.start("decide", "5")
    eventually_tells(together, "in_flight", {("exports",): 1})

    process.kill()
    process.communicate()
    mark_process_dead(process.pid, str(together.folder))

    assert together.told("in_flight") == {}
    assert together.told("decisions_total") == {("reads", "allowed"): 5, ("exports", "allowed"): 1}


def test_a_forked_process_begins_at_zero(together: Together) -> None:
    together.start("fork", "5")

    eventually_tells(together, "decisions_total", {("reads", "allowed"): 10, ("exports", "allowed"): 2})


def test_a_command_that_decides_nothing_leaves_no_file(together: Together) -> None:
    """Or cron would fill the folder."""
    together.end(together.start("flush"))

    assert list(together.folder.iterdir()) == []


def test_without_its_folder_a_process_decides_as_before(together: Together) -> None:
    together.folder.rmdir()

    together.end(together.start("decide", "5"))

    assert not together.folder.exists()
