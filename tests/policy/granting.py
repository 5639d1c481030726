"""A process of its own that grants overrides: run by test_races.py, twice at once.

    prepare COUNT   make the tables and as many tenants
    race            for each tenant that comes on standard input, grant the same override, and print what became of it
    count           print how many overrides each tenant has, as JSON

RACE_DATABASE is Django's own settings of the database, in JSON.
"""

import json
import os
import sys
from datetime import timedelta

import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    DATABASES={"default": json.loads(os.environ["RACE_DATABASE"])},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "tenantlimits"],
    TENANTLIMITS={"TENANT_RESOLVER": len, "DEFAULT_TIER": "anonymous", "STORE": "memory"},
    USE_TZ=True,
)
django.setup()

from django.db.models import Count  # noqa: E402 - only after the set-up
from django.utils import timezone  # noqa: E402 - as above

from tenantlimits.domain.errors import InvalidOverride  # noqa: E402 - as above
from tenantlimits.models import Tenant  # noqa: E402 - as above
from tenantlimits.policy import grant_override  # noqa: E402 - as above


def prepare(count: str) -> None:
    call_command("migrate", verbosity=0, skip_checks=True)
    Tenant.objects.bulk_create([Tenant(key=f"tenant-{number}") for number in range(int(count))])


def race() -> None:
    say("ready")
    for line in sys.stdin:
        end = timezone.now() + timedelta(days=1)
        try:
            grant_override(line.strip(), "anonymous-rate", amount=40, reason="Double click", expires_at=end)
        except InvalidOverride as error:
            say("overlaps" if "already has an override" in str(error) else str(error))
        else:
            say("granted")


def count() -> None:
    tenants = Tenant.objects.exclude(key="").annotate(count=Count("overrides"))
    say(json.dumps(dict(tenants.values_list("key", "count"))))


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is how the parent learns of it


if __name__ == "__main__":
    {"prepare": prepare, "race": race, "count": count}[sys.argv[1]](*sys.argv[2:])
