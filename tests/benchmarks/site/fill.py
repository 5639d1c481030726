"""The rows of the site: a tier with four rates, one lane with a cap, and one that is soon used up."""

from __future__ import annotations

from django.core.management import call_command

from tenantlimits.models import Limit, Tier
from tenantlimits.models.choices import Kind

FOUR = {"second": (1_000_000, 1), "minute": (2_000_000, 60), "hour": (3_000_000, 3600), "day": (4_000_000, 86_400)}
"""Amount and seconds of four limits that every peer can express; none is ever reached."""


def fill() -> None:
    """Make the tables and the tier."""
    call_command("migrate", verbosity=0)
    tier = Tier.objects.create(slug="bench", name="Bench")
    for name, (amount, seconds) in FOUR.items():
        Limit.objects.create(tier=tier, name=f"every-{name}", amount=amount, period_seconds=seconds)
    Limit.objects.create(tier=tier, name="running", lane="reads", kind=Kind.CONCURRENCY, amount=1000)
    Limit.objects.create(tier=tier, name="tight", lane="tight", amount=1, period_seconds=86_400)
