"""A process of its own that uses and flushes: run by test_usage.py, several at once.

    prepare          make the tables and the tier
    use COUNT        let acme and bolt, and callers without a tenant, ask COUNT times each
    flush SECONDS    flush again and again for so long, and print how many rows were written
    die              use something as cedar, flush, and be killed between the writing and the forgetting
    figures          flush, and print the figures of each tenant and lane, all sources together, as JSON

FLUSH_DATABASE is Django's settings of the database, in JSON; FLUSH_REDIS is a URL, and keys begin with FLUSH_PREFIX.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    DATABASES={"default": json.loads(os.environ["FLUSH_DATABASE"])},
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["FLUSH_REDIS"]}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "tenantlimits"],
    TENANTLIMITS={
        "TENANT_RESOLVER": len,
        "DEFAULT_TIER": "anonymous",
        "LANES": {"reads": {}, "exports": {}},
        "KEY_PREFIX": os.environ["FLUSH_PREFIX"],
        "STORE_TIMEOUT_SECONDS": 10,
    },
    USE_TZ=True,
)
django.setup()

from tenantlimits.domain.lanes import Lane, milli  # noqa: E402 - only after the set-up
from tenantlimits.engine.base import Acknowledge, Command, Engine, Pending  # noqa: E402 - as above
from tenantlimits.engine.keys import Identity  # noqa: E402 - as above
from tenantlimits.gate import admit  # noqa: E402 - as above
from tenantlimits.gate.asking import Ask  # noqa: E402 - as above
from tenantlimits.gate.deciding import admitting  # noqa: E402 - as above
from tenantlimits.gate.steps import drive  # noqa: E402 - as above
from tenantlimits.gate.store import engine_replaced, stores  # noqa: E402 - as above
from tenantlimits.models import UsageHour  # noqa: E402 - as above
from tenantlimits.usage import flush  # noqa: E402 - as above


class Deadly:
    """A store that kills whoever wants it to forget."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, command: Command[Any]) -> Any:
        if isinstance(command, Acknowledge):
            os.kill(os.getpid(), signal.SIGKILL)
        return self._engine.run(command)


def prepare() -> None:
    call_command("migrate", verbosity=0, skip_checks=True)


def use(count: str) -> None:
    for number in range(int(count)):
        for tenant in ("acme", "bolt"):
            admit(lane="reads" if number % 2 else "exports", cost=2.5, tenant=tenant)
        nobody = Identity(tenant="", user=f"192.0.2.{number % 8}")
        drive(admitting(Ask(identity=nobody, lane=Lane(name="reads"), cost=milli(1))), stores.engine)


def flush_for(seconds: str) -> None:
    end, rows = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        rows += flush().rows
    say(str(rows))


def die() -> None:
    deadline = time.monotonic() + 30
    while not stores.engine.run(Pending()) and time.monotonic() < deadline - 25:
        time.sleep(0.01)
    with engine_replaced(Deadly(stores.engine)):
        # Others may have flushed all there was, so cedar uses something until there is something to forget.
        while time.monotonic() < deadline:
            admit(lane="reads", tenant="cedar")
            flush()


def figures() -> None:
    flush()
    found: Counter[str] = Counter()
    for row in UsageHour.objects.select_related("tenant"):
        name = f"{row.tenant.key or 'nobody'} {row.lane}"
        found[f"{name} requests"] += row.requests
        found[f"{name} cost"] += float(row.cost)
    say(json.dumps(found))


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is how the parent learns of it


if __name__ == "__main__":
    verbs = {"prepare": prepare, "use": use, "flush": flush_for, "die": die, "figures": figures}
    verbs[sys.argv[1]](*sys.argv[2:])
