"""R4 in real time: thirty calls that wait for two sliding logs, asked in one decision or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.core.management import call_command
from django.db import connections
from django.http import HttpRequest

from tenantlimits.gate import hold
from tenantlimits.models import Limit, Tier
from tenantlimits.models.choices import Kind
from tests.scenarios.calls import CALLS, LIMITS, violations

TOGETHER, IN_TURN = ("both",), ("second", "three")
"""The lanes that a call passes."""
LONGEST_SECONDS = 60


def nobody(request: HttpRequest) -> None:
    """The site has no requests."""


def fill() -> None:
    """Make the tables, and the logs: each in a lane of its own, and both in one."""
    call_command("migrate", verbosity=0)
    tier = Tier.objects.create(slug="figures", name="Figures")
    for limit in LIMITS:
        for lane in (limit.name, *TOGETHER):
            Limit.objects.create(
                tier=tier, name=f"{limit.name}-in-{lane}", lane=lane, kind=Kind.SLIDING_LOG,
                amount=limit.amount, period_seconds=limit.period_seconds,
            )  # fmt: skip


def violations_of(lanes: Sequence[str]) -> int:
    """How many windows held more than they may, by the store's clock."""
    with ThreadPoolExecutor(CALLS) as pool:
        return violations(list(pool.map(lambda _: _sent_us(lanes), range(CALLS))))


def _sent_us(lanes: Sequence[str]) -> float:
    """When a call was let through the last of its lanes."""
    try:
        for lane in lanes:
            with hold(lane=lane, tenant="acme", wait=LONGEST_SECONDS) as admission:
                sent_us = admission.decision.now_us
        return sent_us
    finally:
        connections.close_all()
