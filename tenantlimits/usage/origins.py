"""Where today's numbers come from: the tier that an override lends, and what a limit was before it changed.

A change within a limit's running period leaves use that was counted against another number: 8,800 of 2,500 looks like a
fault in the accounts unless somebody says that it was 10,000 until noon (C34).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from tenantlimits.conf import conf
from tenantlimits.domain.limits import DAY, OverrideInForce
from tenantlimits.models import TIER_TARGET, Change, Limit, Override
from tenantlimits.policy.loading import Policy

_INSTANT = timedelta(microseconds=1)
_LONGEST = 31 * DAY


@dataclass(frozen=True, slots=True)
class Former:
    """What a limit's amount was until `until`; math.inf is unlimited."""

    amount: float
    until: datetime


def lent_tier(policy: Policy, now: datetime) -> OverrideInForce | None:
    """The override that lends the tenant the tier it is on."""
    lending = Override.objects.live(now, now + _INSTANT).filter(
        tenant__key=policy.tenant, target=f"{TIER_TARGET}{policy.tier}"
    )
    row = lending.first()
    if row is None:
        return None
    return OverrideInForce(id=row.pk, reason=row.reason, starts_at=row.starts_at, expires_at=row.expires_at)


def former_amounts(policy: Policy, now: datetime) -> dict[str, Former]:
    """By a limit's name, its amount before the last change within its own period; limits that kept theirs are left out.

    Tiers that changed are compared as they are today.
    """
    periods = {one.limit.name: min(one.limit.full_period_seconds, _LONGEST) for one in policy.limits}
    since = now - timedelta(seconds=max(periods.values(), default=0))
    changes = sorted(_changes(policy, since, now), key=lambda change: change[1].until)
    amounts = {one.limit.name: one.limit.amount for one in policy.limits}
    return {
        name: former
        for name, former in changes
        if former.until > now - timedelta(seconds=periods[name]) and former.amount != amounts[name]
    }


def _changes(policy: Policy, since: datetime, now: datetime) -> Iterator[tuple[str, Former]]:
    """Every change of these limits, in no order: of the limit itself, of the tenant's tier, and by overrides."""
    objects = {f"{policy.tier}/{one.limit.name}": one.limit.name for one in policy.limits}
    of_limits = Q(model="limit", object__in=objects)
    of_tenant = Q(model="tenant", tenant__key=policy.tenant)
    for line in Change.objects.filter(of_limits | of_tenant, at__gt=since, at__lte=now):
        if line.model == "limit" and line.changes.get("amount", [None])[0] is not None:
            yield objects[line.object], Former(_amount(line.changes["amount"][0]), line.at)
        elif line.model == "tenant" and line.action == "changed" and "tier" in line.changes:
            yield from _of_tier(line.changes["tier"][0] or conf.DEFAULT_TIER, objects.values(), line.at)
    yield from _by_overrides(policy, objects.values(), since, now)


def _amount(logged: object) -> float:
    return float(logged) if isinstance(logged, int | float) else math.inf


def _of_tier(slug: str, names: Iterable[str], until: datetime) -> Iterator[tuple[str, Former]]:
    for limit in Limit.objects.select_related("tier").filter(tier__slug=slug, name__in=names):
        yield limit.name, Former(limit.as_domain().amount, until)


def _by_overrides(policy: Policy, names: Iterable[str], since: datetime, now: datetime) -> Iterator[tuple[str, Former]]:
    """Those that began or ended: before the beginning the tier's amount held, before the end theirs."""
    tier_amounts: Mapping[str, float] = {one.limit.name: one.tier_limit.amount for one in policy.limits}
    for row in Override.objects.filter(tenant__key=policy.tenant, expires_at__gt=since, starts_at__lte=now):
        end = min(row.expires_at, row.revoked_at or row.expires_at)
        if row.lent_tier is not None and since < end <= now:
            yield from _of_tier(row.lent_tier, names, end)
        elif row.target in tier_amounts and since < end <= now:
            yield row.target, Former(math.inf if row.amount is None else row.amount, end)
        elif row.target in tier_amounts and end > now and row.starts_at > since:
            yield row.target, Former(tier_amounts[row.target], row.starts_at)
