"""A process of its own that decides, and writes metrics: run by test_metrics.py, several at once.

    prepare          make the tables and the tier
    decide COUNT     let acme read COUNT times, and hold an export
    fork COUNT       the same, and then once more in a forked process
    flush            write usage down, as cron would

It says "done" when it has done so, and ends when its input does. METERING_DATABASE is an SQLite file, METERING_REDIS a
URL, and keys begin with METERING_PREFIX.
"""

import os
import sys

import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["METERING_DATABASE"], "OPTIONS": {"timeout": 20}
        }
    },
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["METERING_REDIS"]}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "tenantlimits"],
    TENANTLIMITS={
        "TENANT_RESOLVER": len,
        "DEFAULT_TIER": "free",
        "LANES": {"reads": {}, "exports": {}},
        "KEY_PREFIX": os.environ["METERING_PREFIX"],
        "STORE_TIMEOUT_SECONDS": 10,
    },
    USE_TZ=True,
)  # fmt: skip
django.setup()

from tenantlimits.gate import admit, hold  # noqa: E402 - only after the set-up
from tenantlimits.models import Limit, Tier  # noqa: E402 - as above


def prepare() -> None:
    call_command("migrate", verbosity=0, skip_checks=True)
    tier = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=tier, name="cap", lane="exports", kind="concurrency", amount=100)


def decide(count: str) -> None:
    for _ in range(int(count)):
        admit(lane="reads", tenant="acme")
    hold(lane="exports", tenant="acme").__enter__()


def fork(count: str) -> None:
    decide(count)
    if os.fork() == 0:
        decide(count)
        return wait()
    return None


def flush() -> None:
    call_command("tenantlimits_flush", skip_checks=True, stdout=sys.stderr)


def wait() -> None:
    sys.stdin.read()


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    {"prepare": prepare, "decide": decide, "fork": fork, "flush": flush}[verb](*arguments)
    print("done", flush=True)  # noqa: T201 - what the test waits for
    wait()
