"""What the shares of pools lack: too little of a pool is given away, or too much, or nobody said (C5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median_low

from django.core import checks
from django.db.models import Count
from django.utils import timezone

from tenantlimits.checks.installation import Messages
from tenantlimits.checks.rows import ready
from tenantlimits.conf import NAME, conf, suggestion
from tenantlimits.domain.pools import UNSAID_SHARE, PoolSpec
from tenantlimits.models import Share, Tenant, Tier, UsageHour

TYPICAL = timedelta(days=7)
"""So far back is looked for what is typical."""
OVERSUBSCRIBED = 2
"""Shares may sum to so many times the capacity, since tenants seldom come all at once."""

TierPk = int | None
"""Primary key of a tier; None is the default tier of the settings, by which most tenants are on it."""


def check_tiers_in_use_have_shares(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W064: their tenants have one slot there. Callers without a tenant do well with it."""
    return [
        checks.Warning(
            f"Tier {tier.slug} has no share of pool {pool}: each of its tenants has {UNSAID_SHARE.slots} slot there.",
            "Say how many it shall be, under Tiers in the admin; 0 where its tenants shall only borrow.",
            id="tenantlimits.W064",
        )
        for alias in ready(databases)
        for tier in Tier.objects.using(alias).prefetch_related("shares")
        for pool in sorted(set(conf.POOLS) - {share.pool for share in tier.shares.all()})
        if tier.slug != conf.ANONYMOUS_TIER and tier.is_in_use()
    ]


def check_pools_of_shares(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W065: a share whose pool no setting names is never asked."""
    return [
        checks.Warning(
            f"Tier {share.tier.slug} has a share of pool {share.pool!r}, which is not in {NAME}['POOLS']: it does "
            "nothing.",
            f"Add the pool there, or take the share out.{suggestion(share.pool, conf.POOLS)}",
            id="tenantlimits.W065",
        )
        for share in _shares(databases)
        if share.pool not in conf.POOLS
    ]


def check_shares_fit_their_pools(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W066: nobody runs more than the pool has."""
    return [
        checks.Warning(
            f"Tier {share.tier.slug} has {share.slots} slots of pool {share.pool}, which has {capacity} for everyone.",
            "Lower the share, or raise the pool's capacity in the settings.",
            id="tenantlimits.W066",
        )
        for share in _shares(databases)
        for capacity in [conf.POOLS[share.pool].capacity if share.pool in conf.POOLS else None]
        if capacity is not None and share.slots > capacity
    ]


def check_pools_can_be_used(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W070: of a pool that lends nothing, what is in nobody's share is idle for good."""
    return [
        checks.Warning(
            f"Pool {pool.name} has {pool.capacity} slots, lends none, and {found}: the rest is never used.",
            "Raise the shares; or write a 'lendable' above 0 for the pool, so that idle slots are lent.",
            id="tenantlimits.W070",
        )
        for alias in ready(databases)
        for pool in conf.POOLS.values()
        if pool.rules.lent_at_most == 0
        for slots, found in _typical(alias, pool)
        if slots < pool.capacity
    ]


def check_pools_are_not_oversubscribed(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W071: some is usual. Beyond that a share promises what is seldom there."""
    return [
        checks.Warning(
            f"Pool {pool.name} has {pool.capacity} slots, and {found}: more than {OVERSUBSCRIBED} times as many, so "
            "that tenants often wait within their shares.",
            "Lower the shares, or raise the pool's capacity in the settings.",
            id="tenantlimits.W071",
        )
        for alias in ready(databases)
        for pool in conf.POOLS.values()
        for slots, found in _typical(alias, pool)
        if slots > OVERSUBSCRIBED * pool.capacity
    ]


def _shares(databases: Sequence[str] | None) -> list[Share]:
    return [share for alias in ready(databases) for share in Share.objects.using(alias).select_related("tier")]


def _typical(alias: str, pool: PoolSpec) -> list[tuple[int, str]]:
    """The sum of the shares of those who typically come at once, with words for it; nothing where nobody can say.

    In a typical hour that is: the median of the hours of the last 7 days in which anybody used the pool's lanes (any
    lane, where none names the pool). Before there is any usage, all tenants. Overrides pass, and are left out.
    """
    slots = _slots_by_tier(alias, pool)
    hours = _tenants_by_hour(alias, pool)
    if hours:
        typical = median_low(_sum(tenants, slots) for tenants in hours.values())
        return [(typical, f"the shares of those active in a typical hour of the last week sum to {typical}")]
    tenants = _all_tenants(alias)
    if UsageHour.objects.using(alias).exists() or not tenants:
        return []
    total = _sum(tenants, slots)
    return [(total, f"the shares of all tenants sum to {total}")]


def _sum(tenants: Mapping[TierPk, int], slots: Mapping[TierPk, int]) -> int:
    return sum(number * slots.get(tier, UNSAID_SHARE.slots) for tier, number in tenants.items())


def _slots_by_tier(alias: str, pool: PoolSpec) -> dict[TierPk, int]:
    found: dict[TierPk, int] = {}
    for share in Share.objects.using(alias).filter(pool=pool.name).select_related("tier"):
        found[share.tier_id] = share.slots
        if share.tier.slug == conf.DEFAULT_TIER:
            found[None] = share.slots
    return found


def _tenants_by_hour(alias: str, pool: PoolSpec) -> dict[datetime, dict[TierPk, int]]:
    """How many tenants of each tier were active in each hour. One query, which the database groups."""
    lanes = [lane.name for lane in conf.LANES.values() if lane.pool == pool.name]
    used = UsageHour.objects.using(alias).filter(start__gte=timezone.now() - TYPICAL, requests__gt=0)
    if lanes:
        used = used.filter(lane__in=lanes)
    counted = used.exclude(tenant__key="").order_by().values_list("start", "tenant__tier")
    found: defaultdict[datetime, dict[TierPk, int]] = defaultdict(lambda: defaultdict(int))
    for start, tier, number in counted.annotate(number=Count("tenant", distinct=True)):
        # Hours of zones that are off by half an hour begin then.
        found[start.replace(minute=0)][tier] += number
    return found


def _all_tenants(alias: str) -> dict[TierPk, int]:
    rows = Tenant.objects.using(alias).exclude(key="").order_by().values_list("tier")
    return dict(rows.annotate(number=Count("pk")))
