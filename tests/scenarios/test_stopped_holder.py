"""A holder that is stopped for longer than its lease, and goes on when another has its slot (C69).

LEASE_SECONDS is 1; the holder stands still for three leases. No tolerance: who runs when is in the views' own journal.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenantlimits.models import Limit, Tenant, Tier
from tests.scenarios.client import one_to_each_process
from tests.scenarios.conftest import Site

LEASE_SECONDS = 1


@pytest.fixture
def tenantlimits(tenantlimits: dict[str, Any]) -> dict[str, Any]:
    tenantlimits["LEASE_SECONDS"] = LEASE_SECONDS
    return tenantlimits


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline, "It did not come to pass."
        time.sleep(0.01)


def test_a_stopped_holder_takes_nothing_back_and_frees_nobody_elses_slot(site: Site) -> None:
    """C69: its heartbeat fails and says so, and what it gives back at its end was no longer its own."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    Limit.objects.create(tier=tier, name="exports-cap", lane="exports", kind="concurrency", amount=1)
    Tenant.objects.create(key="acme", tier=tier)

    with site.gunicorn() as server, one_to_each_process(server, "acme") as processes:
        holder, *others = processes
        new, asking = (processes[pid] for pid in others[:2])
        processes[holder].ask("/sleep/?seconds=4.5&label=old")
        wait_for(lambda: len(site.journal.running()) == 1)

        os.kill(holder, signal.SIGSTOP)
        stopped_at = time.monotonic()
        wait_for(lambda: asking.get("/sleep/?seconds=0&label=free").status == 200)
        new.ask("/sleep/?seconds=7&label=new")
        wait_for(lambda: "new" in {work.label for work in site.journal.running()})
        time.sleep(max(0, stopped_at + 3 * LEASE_SECONDS - time.monotonic()))
        os.kill(holder, signal.SIGCONT)
        answer = processes[holder].read()
        refused = {asking.get("/sleep/?seconds=0").status for _ in range(20)}
        is_running = "new" in {work.label for work in site.journal.running()}
        log = Path(site.environment["SITE_LOG"]).read_text()

    assert answer.status == 200
    assert is_running
    assert refused == {429}
    assert "An operation in lane exports has lost its slot and runs on without one." in log
