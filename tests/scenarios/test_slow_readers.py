"""Clients that read slowly hold slots as long as they please: of a pool that lends nothing, only their own share."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from tenantlimits.models import Share, Tenant, Tier
from tests.scenarios import servers
from tests.scenarios.client import Connection, rude
from tests.scenarios.conftest import Site
from tests.scenarios.servers import serving

SHARE = 2


@pytest.fixture
def tenantlimits(tenantlimits: dict[str, Any]) -> dict[str, Any]:
    """Exports take a slot of a pool of four for each process."""
    tenantlimits["POOLS"] = {"exports": {"capacity": 2 * SHARE, "lendable": 0}}
    tenantlimits["LANES"] = {"exports": {"pool": "exports"}}
    return tenantlimits


def test_slow_readers_hold_no_more_than_their_share(site: Site) -> None:
    """C74: twenty downloads of one tenant, read byte by byte; another tenant is served all along."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    Share.objects.create(tier=tier, pool="exports", slots=SHARE)
    for key in ("acme", "bolt"):
        Tenant.objects.create(key=key, tier=tier)

    with serving(servers.gunicorn(workers=1, threads=40), site.environment) as server, ExitStack() as stack:
        readers = [stack.enter_context(rude(server, "acme", "/file/?mb=64")) for _ in range(20)]
        statuses = Counter(reader.recv(12) for reader in readers)
        bolt = Connection(server, "bolt")
        stack.callback(bolt.close)
        others = Counter()
        for _ in range(20):
            others[bolt.get("/sleep/?seconds=0.02").status] += 1
            assert all(reader.recv(1) for reader in readers)

    assert statuses == {b"HTTP/1.1 200": SHARE, b"HTTP/1.1 429": 20 - SHARE}
    assert others == {200: 20}
