"""From rows to the policy in force for one tenant at one instant of the store's clock."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from django.db import router

from tenantlimits.conf import conf
from tenantlimits.domain.lanes import Lane
from tenantlimits.domain.limits import ALL_LANE, UNLIMITED, Kind, Layer, Limit, LimitInForce, OverrideInForce, mildest
from tenantlimits.domain.limits import Mode as DomainMode
from tenantlimits.domain.periods import from_us, hour_offset_us, to_us
from tenantlimits.domain.plans import SUBJECT_OF_LAYER, Plan, Stamps, Subject, terms, validity
from tenantlimits.domain.pools import UNSAID_SHARE, PoolSpec, ShareInForce
from tenantlimits.domain.shares import Share
from tenantlimits.models import Override, Switch, Tenant, Tier

logger = logging.getLogger(__name__)

_OF_AN_ADDRESS = dict.fromkeys(Layer, Subject.USER)
"""An anonymous caller is nothing but its address, which takes the user's place."""
_LOOK_BACK = timedelta(days=1)
"""Overrides that ended so long ago still bound a policy's validity, for a clock that steps back."""


@dataclass(slots=True, kw_only=True, eq=False)
class Policy:
    """Everything in force for one tenant: its tier's limits and shares with its overrides, and how long that holds.

    `tier` is "" while its tier has no row: then nothing is limited, which is loud (see checks). `shares` has one for
    each pool of the settings; they know no modes. `plan` builds what the store needs for one lane, once. `flushed` is
    what the rows know of its calendar quotas, where somebody has read it (see `policy.flushed`).
    """

    tenant: str
    tenant_name: str
    tier: str
    tier_name: str
    zone: ZoneInfo
    limits: tuple[LimitInForce, ...]
    shares: Mapping[str, ShareInForce] = field(default_factory=dict)
    stamps: Stamps | None
    now_us: float
    valid_from_us: float = 0.0
    valid_until_us: float = UNLIMITED
    flushed: dict[bytes, float] | None = None
    _plans: dict[tuple[frozenset[str] | None, str, frozenset[Subject]], Plan] = field(default_factory=dict, repr=False)

    def plan(self, lane: str, asked_lanes: frozenset[str] | None, subjects: frozenset[Subject]) -> Plan:
        """The plan of an operation in `lane` that asks the limits of `asked_lanes` (None: of every lane)."""
        key = (asked_lanes, lane, subjects)
        if key not in self._plans:
            self._plans[key] = self._build(lane, asked_lanes, subjects)
        return self._plans[key]

    def share_of(self, pool: str) -> Share:
        """What the tenant has of a pool; UnknownPool where no setting names it."""
        found = self.shares.get(pool)
        if found is None:
            conf.pool(pool)
            return UNSAID_SHARE
        return found.share

    def _build(self, lane: str, asked_lanes: frozenset[str] | None, subjects: frozenset[Subject]) -> Plan:
        now = from_us(self.now_us)
        plan_terms = terms(
            self.limits,
            asked_lanes=asked_lanes,
            now=now,
            zone=self.zone,
            subjects=self._keepers(subjects),
        )
        valid_from_us, valid_until_us = validity(plan_terms, self.valid_from_us, self.valid_until_us)
        return Plan(
            tenant=self.tenant,
            lane=lane,
            tier=self.tier,
            tier_name=self.tier_name,
            terms=plan_terms,
            lease_us=round(conf.LEASE_SECONDS * 1_000_000),
            stamps=self.stamps,
            valid_from_us=valid_from_us,
            valid_until_us=valid_until_us,
            hour_offset_us=hour_offset_us(now, self.zone),
        )

    def _keepers(self, subjects: frozenset[Subject]) -> dict[Layer, Subject]:
        """Whose state keeps each layer's limits, of those who are known."""
        keepers = SUBJECT_OF_LAYER if self.tenant else _OF_AN_ADDRESS
        return {layer: subject for layer, subject in keepers.items() if subject in subjects}


def asked_lanes(lane: Lane, *, inside: bool) -> frozenset[str]:
    """The lanes whose limits an operation is asked. `inside` an admitted operation, `all` has counted it already."""
    return _lanes(lane.name, with_all=lane.counts_in_all and not inside)


@lru_cache(maxsize=1024)
def _lanes(name: str, *, with_all: bool) -> frozenset[str]:
    return frozenset({name, ALL_LANE} if with_all else {name})


def load(key: str, *, stamps: Stamps | None, now_us: float, tier_at_first_sight: Callable[[], str | None]) -> Policy:
    """The policy of a tenant at an instant, from the primary database.

    Read the stamps before calling: what changes after that has moved them. A tenant that was never seen gets its row.
    """
    using, now = router.db_for_write(Tenant), from_us(now_us)
    tenant = Tenant.objects.using(using).select_related("tier").filter(key=key).first()
    tenant = tenant or _first_sight(key, tier_at_first_sight, using)
    overrides = list(
        Override.objects.using(using).filter(tenant=tenant, revoked_at=None, expires_at__gt=now - _LOOK_BACK)
    )
    in_force = [override for override in overrides if override.is_in_force(now)]
    tier = _tier(tenant, in_force, using)
    modes = [Switch.current().mode, tenant.mode, tier.mode] if tier else []
    valid_from_us, valid_until_us = _validity(overrides, now, tenant.zone)
    return Policy(
        tenant=key,
        tenant_name=str(tenant),
        tier=tier.slug if tier else "",
        tier_name=str(tier) if tier else "",
        zone=tenant.zone,
        limits=tuple(
            limit_in_force(_in_mode(row.as_domain(), modes), in_force) for row in (tier.limits.all() if tier else ())
        ),
        shares=_shares(tier, in_force),
        stamps=stamps,
        now_us=now_us,
        valid_from_us=valid_from_us,
        valid_until_us=valid_until_us,
    )


def _first_sight(key: str, tier_at_first_sight: Callable[[], str | None], using: str) -> Tenant:
    slug = tier_at_first_sight() if key else None
    tier = Tier.objects.using(using).filter(slug=slug).first() if slug else None
    if slug and tier is None:
        logger.error("TIER_RESOLVER names tier %r, which has no row: the default tier is used.", slug)
    return Tenant.objects.using(using).get_or_create(key=key, defaults={"tier": tier})[0]


def _tier(tenant: Tenant, in_force: Iterable[Override], using: str) -> Tier | None:
    """The tier that an override lends, else the tenant's own."""
    for override in in_force:
        if override.lent_tier is not None:
            lent = Tier.objects.using(using).filter(slug=override.lent_tier).first()
            return lent or tenant.own_tier()
    return tenant.own_tier()


def _in_mode(limit: Limit, modes: Sequence[str]) -> Limit:
    return replace(limit, mode=mildest(limit.mode, *(DomainMode(mode) for mode in modes)))


def limit_in_force(tier_limit: Limit, in_force: Iterable[Override]) -> LimitInForce:
    """The tier's limit, or what an override in force makes of it."""
    override = next((one for one in in_force if one.target == tier_limit.name), None)
    if override is None:
        return LimitInForce(limit=tier_limit, tier_limit=tier_limit)
    return LimitInForce(limit=_overridden(tier_limit, override), tier_limit=tier_limit, override=_shown(override))


def _shares(tier: Tier | None, in_force: Iterable[Override]) -> dict[str, ShareInForce]:
    """The tenant's share of every pool that the settings name."""
    pools = conf.POOLS
    rows = {row.pool: row.as_domain() for row in tier.shares.all()} if tier and pools else {}
    return {name: share_in_force(pool, rows.get(name), in_force) for name, pool in pools.items()}


def share_in_force(pool: PoolSpec, tier_share: Share | None, in_force: Iterable[Override]) -> ShareInForce:
    """The tier's share, or what an override in force makes of it. `tier_share` None: the tier does not say."""
    share = tier_share or UNSAID_SHARE
    override = next((one for one in in_force if one.share_pool == pool.name), None)
    if override is None:
        return ShareInForce(pool=pool, share=share, tier_share=tier_share)
    assert override.amount is not None, "the database holds that an override of a share has an amount"
    share = replace(share, slots=override.amount)
    return ShareInForce(pool=pool, share=share, tier_share=tier_share, override=_shown(override))


def _shown(override: Override) -> OverrideInForce:
    return OverrideInForce(
        id=override.pk, reason=override.reason, starts_at=override.starts_at, expires_at=override.expires_at
    )


def _overridden(limit: Limit, override: Override) -> Limit:
    amount = UNLIMITED if override.unlimited else override.amount
    assert amount is not None, "the database holds that an override of a limit has an amount or is unlimited"
    if limit.kind is not Kind.TOKEN_BUCKET:
        return replace(limit, amount=amount)
    return replace(limit, amount=amount, burst=_burst(limit, amount, override.burst))


def _burst(limit: Limit, amount: float, burst: int | None) -> float | None:
    """The override's own burst, else the tier's in proportion to the amount, rounded up."""
    if burst is not None or amount in (0, UNLIMITED):
        return burst
    if limit.burst is None or limit.amount in (0, UNLIMITED):
        return None
    return math.ceil(limit.burst * amount / limit.amount)


def _validity(overrides: Iterable[Override], now: datetime, zone: ZoneInfo) -> tuple[float, float]:
    """From the last to the next start or end of an override, and while the zone's hours stand as they do now."""
    changes = [instant for one in overrides for instant in (one.starts_at, one.expires_at)]
    before = max((to_us(instant) for instant in changes if instant <= now), default=0.0)
    after = min((to_us(instant) for instant in changes if instant > now), default=UNLIMITED)
    return before, min(after, _hours_hold_until_us(now, zone))


def _hours_hold_until_us(now: datetime, zone: ZoneInfo) -> float:
    """When the zone's hours stand otherwise, to the quarter of an hour; only where clocks change by half an hour."""
    offset = hour_offset_us(now, zone)
    ahead = timedelta(days=2)
    if hour_offset_us(now + ahead, zone) == offset:
        return UNLIMITED
    quarter = timedelta(minutes=15)
    later = now - timedelta(seconds=now.timestamp() % quarter.total_seconds())
    while hour_offset_us(later, zone) == offset:
        later += quarter
    return to_us(later)
