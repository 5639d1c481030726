"""Rows for tests: the cast, its tier, and overrides that are right unless the test makes them wrong."""

from datetime import timedelta
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from tenantlimits.models import Limit, Override, Tenant, Tier
from tenantlimits.models.choices import Kind


def pro() -> Tier:
    """A tier with a rate for everything and a cap of exports."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    Limit.objects.create(tier=tier, name="all-rate", amount=20, period_seconds=1, burst=60)
    Limit.objects.create(tier=tier, name="exports-cap", lane="exports", kind=Kind.CONCURRENCY, amount=6)
    return tier


POOLS = {"exports": {"capacity": 10, "scope": "fleet"}, "reports": {"capacity": 5, "lendable": 0}}
"""The pools of a site, for its TENANTLIMITS."""


def override(tenant: Tenant, **values: Any) -> Override:
    """An unsaved override of the rate, for a day from now on."""
    now = timezone.now()
    sound = {
        "target": "all-rate",
        "amount": 40,
        "reason": "Black Friday",
        "starts_at": now,
        "expires_at": now + timedelta(days=1),
    }
    return Override(tenant=tenant, **sound | values)


def written_raw(row: models.Model) -> None:
    """Write past every rule of ours, as raw SQL would: only the database can refuse it."""
    with transaction.atomic():
        models.QuerySet(type(row)).bulk_create([row])
