"""The console: the Django admin, the app's own pages and its API, which are in no lane of the tenants."""

from __future__ import annotations

from functools import cache
from zoneinfo import ZoneInfo

from tenantlimits.domain.lanes import Lane, OnStoreFailure
from tenantlimits.domain.limits import ALL_LANE, Counts, Guarantee, Kind, Layer, Limit, LimitInForce
from tenantlimits.domain.periods import from_us
from tenantlimits.domain.plans import Plan, Subject, terms


@cache
def console_plan() -> Plan:
    """The constant limit of the admin, the app's own pages and its API: nothing stored can lock staff out of them."""
    limit = Limit(
        name="console", lane=ALL_LANE, kind=Kind.TOKEN_BUCKET, amount=10, period_seconds=1, burst=60,
        layer=Layer.USER, counts=Counts.REQUESTS, guarantee=Guarantee.FUSE,
    )  # fmt: skip
    asked = terms(
        [LimitInForce(limit=limit, tier_limit=limit)], asked_lanes=None, now=from_us(0), zone=ZoneInfo("UTC"),
        subjects={Layer.USER: Subject.USER},
    )  # fmt: skip
    return Plan(tenant="", lane="console", tier="", tier_name="", terms=asked, lease_us=0, counts_usage=False)


CONSOLE_LANE = Lane(name="console", on_store_failure=OnStoreFailure.ALLOW)
