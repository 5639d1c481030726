"""What the database knows of the use of calendar quotas: all there is to go by while the store is away."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import router
from django.db.models import QuerySet, Sum

from tenantlimits.conf import conf
from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import ALL_LANE
from tenantlimits.domain.periods import from_us
from tenantlimits.domain.plans import Plan, Subject, Term
from tenantlimits.domain.windows import Quota
from tenantlimits.models import UsageHour


def flushed_use(plan: Plan) -> dict[bytes, float]:
    """Milli-units that the rows show as used in the running period of each calendar quota of the tenant.

    Rows are of a tenant and not of its users: what these have used is not known.
    """
    rows = UsageHour.objects.using(router.db_for_write(UsageHour)).filter(tenant__key=plan.tenant)
    return {
        term.id: used
        for term in plan.terms
        if term.subject is Subject.TENANT and isinstance(term.spec, Quota)
        for used in [_used(rows, term, term.spec)]
    }


def _used(rows: QuerySet[UsageHour], term: Term, quota: Quota) -> float:
    found = rows.filter(
        lane__in=_lanes(term.in_force.limit.lane),
        start__gte=from_us(quota.start_us),
        start__lt=from_us(quota.end_us),
    ).aggregate(requests=Sum("allowed"), cost=Sum("cost"))
    return float((found["cost"] if term.by_cost else found["requests"]) or 0) * MILLI


def _lanes(lane: str) -> Iterable[str]:
    """The lanes whose operations a limit counts."""
    return [one.name for one in conf.LANES.values() if one.counts_in_all] if lane == ALL_LANE else [lane]
