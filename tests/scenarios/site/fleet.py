"""Views that take a slot of a pool of the fleet, and write in the journal how long they really have it."""

from __future__ import annotations

import asyncio
import time
from functools import cache

from django.http import HttpRequest, HttpResponse

from tenantlimits.conf import conf
from tenantlimits.decorators import exempt
from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.gate.store import stores
from tenantlimits.pools.fleet import FleetPool
from tests.scenarios.site.journal import under_way

NAME, CAPACITY, SHARE, WAIT_SECONDS = "exports", 20, Share(8), 30.0


@cache
def pool() -> FleetPool:
    """The pool as this process sees it."""
    return FleetPool(NAME, PoolRules(capacity=CAPACITY), store=stores.engine, lease_seconds=conf.LEASE_SECONDS)


@exempt
def pooled(request: HttpRequest) -> HttpResponse:
    slot = pool().acquire(request.tenant, SHARE, wait=WAIT_SECONDS)  # type: ignore[attr-defined]
    try:
        with under_way(request.GET["label"]):
            time.sleep(float(request.GET["seconds"]))
    finally:
        slot.release()
    return HttpResponse("ok")


@exempt
async def awaited_pooled(request: HttpRequest) -> HttpResponse:
    slot = await pool().aacquire(request.tenant, SHARE, wait=WAIT_SECONDS)  # type: ignore[attr-defined]
    try:
        with under_way(request.GET["label"]):
            await asyncio.sleep(float(request.GET["seconds"]))
    finally:
        await slot.arelease()
    return HttpResponse("ok")
