"""Celery tasks, found by its autodiscovery; without Celery nothing imports this module.

Have beat run it, say every minute: {"task": "tenantlimits.flush_usage", "schedule": 60.0}
"""

from __future__ import annotations

from dataclasses import asdict

from celery import shared_task

from tenantlimits.usage import flush


@shared_task(name="tenantlimits.flush_usage")
def flush_usage() -> dict[str, int]:
    """Write down the usage that the stores have counted; safe to run twice, late, and in several places at once."""
    return asdict(flush())
