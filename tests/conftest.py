"""What every test shares: one Valkey per run, a key prefix of its own per test, a database per process."""

import inspect
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import redis
from asgiref.sync import async_to_sync
from django.apps import AppConfig
from django.conf import settings
from django.db import connection, connections
from django.db.models.signals import post_migrate
from django.dispatch import receiver
from django.test import override_settings

from tests import servers

# A Redis call may take longer than hypothesis' 200 ms on a busy machine, which says nothing about the rule under test.
hypothesis.settings.register_profile("tenantlimits", deadline=None)
hypothesis.settings.load_profile("tenantlimits")


def pytest_configure(config: pytest.Config) -> None:
    """Start the run's one server before xdist starts its workers, who find it in the environment."""
    if "REDIS_URL" not in os.environ:
        url, stop = servers.start_valkey()
        config.add_cleanup(stop)
        os.environ["REDIS_URL"] = os.environ[servers.EMBEDDED_VARIABLE] = url
        config.add_cleanup(lambda: os.environ.pop("REDIS_URL"))
    elif not servers.answers(os.environ["REDIS_URL"]):
        pytest.exit("REDIS_URL names a server that does not answer; unset it to use the embedded Valkey.", returncode=1)
    # pytest-django has read the settings before any conftest; no connection has been made yet.
    settings.CACHES["default"]["LOCATION"] = os.environ["REDIS_URL"]
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in tests/browser and tests/scenarios, so that no test there can forget it."""
    for item in items:
        if item.nodeid.startswith("tests/browser/"):
            item.add_marker("browser")
        if item.nodeid.startswith("tests/scenarios/"):
            item.add_marker("scenario")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests. async_to_sync keeps the ORM on the test's own thread, so its transaction is seen."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    async_to_sync(pyfuncitem.obj)(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give every process a SQLite file: in memory, two threads lock each other out, which no real file does."""
    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")
    else:
        request.getfixturevalue("django_db_modify_db_settings_parallel_suffix")


@receiver(post_migrate)
def anonymous_rows_survive_a_flush(sender: AppConfig, using: str, **kwargs: object) -> None:
    """A test with real transactions empties every table afterwards; the next one expects what the migration made."""
    if sender.label == "tenantlimits" and "tenantlimits_tier" in connections[using].introspection.table_names():
        tier_model, limit_model, tenant_model = map(sender.get_model, ("Tier", "Limit", "Tenant"))
        if not tier_model.objects.using(using).filter(slug="anonymous").exists():
            tier = tier_model.objects.using(using).create(slug="anonymous", name="Anonymous", mode="observe")
            rate = {"amount": 10, "period_seconds": 1, "burst": 100, "counts": "requests", "guarantee": "fuse"}
            limit_model.objects.using(using).create(tier=tier, name="anonymous-rate", **rate)
            tenant_model.objects.using(using).get_or_create(key="", defaults={"name": "Anonymous callers"})


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The URL of the Redis or Valkey of this run. Never flush it: other tests, or a person, may be using it."""
    return os.environ["REDIS_URL"]


@pytest.fixture(scope="session")
def own_valkey() -> Iterator[str]:
    """The URL of a server that nobody else uses, so that it may be paused, flushed and cut short of memory."""
    url, stop = servers.start_valkey()
    yield url
    stop()


@pytest.fixture
def own_store(own_valkey: str) -> Iterator[redis.Redis]:
    """The limits live on a server that nobody else uses; a client of it."""
    caches = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": own_valkey}}
    with override_settings(CACHES=caches), redis.Redis.from_url(own_valkey) as client:
        yield client


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A redis-py client that answers bytes."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def key_prefix(redis_client: redis.Redis) -> Iterator[str]:
    """A prefix that no other test has; its keys are removed afterwards."""
    prefix = f"test-{uuid.uuid4().hex[:12]}"
    yield prefix
    keys = list(redis_client.scan_iter(match=f"{prefix}*", count=1000))
    for first in range(0, len(keys), 1000):
        redis_client.unlink(*keys[first : first + 1000])


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the repository."""
    return Path(__file__).parent.parent
