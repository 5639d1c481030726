"""What an override changes: the tier's value beside its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from tenantlimits.conf import conf
from tenantlimits.domain.limits import UNLIMITED
from tenantlimits.domain.pools import UNSAID_SHARE, PoolSpec
from tenantlimits.models import SHARE_TARGET, TIER_TARGET, Limit, Override, Share, Tenant
from tenantlimits.wording import amount_words, number_words, share_words


@dataclass(frozen=True, slots=True)
class TierLimits:
    """The limits and shares of all tiers, and which tiers some tenants are on now: read once for a page."""

    limits: dict[tuple[str, str], Limit]
    shares: dict[tuple[str, str], Share]
    lent: dict[int, list[str]]

    @classmethod
    def of(cls, tenant_ids: Iterable[int], now: datetime) -> TierLimits:
        """What these tenants' overrides have to be compared with."""
        limits = {(limit.tier.slug, limit.name): limit for limit in Limit.objects.select_related("tier")}
        shares = {(share.tier.slug, share.pool): share for share in Share.objects.select_related("tier")}
        lent: dict[int, list[str]] = {}
        live = Override.objects.filter(
            tenant__in=list(tenant_ids), target__startswith=TIER_TARGET, revoked_at=None, expires_at__gt=now
        )
        for tenant_id, target in live.order_by("starts_at").values_list("tenant_id", "target"):
            lent.setdefault(tenant_id, []).append(target.removeprefix(TIER_TARGET))
        return cls(limits, shares, lent)

    def limit(self, override: Override) -> Limit | None:
        """The limit that the override changes, in the tenant's own tier or one lent to it; None where it has none."""
        found = (self.limits.get((slug, override.target)) for slug in self._slugs(override.tenant))
        return next((limit for limit in found if limit is not None), None)

    def slots(self, tenant: Tenant, pool: str) -> int:
        """The slots that the tenant has of a pool without an override."""
        found = (self.shares.get((slug, pool)) for slug in self._slugs(tenant))
        return next((share.slots for share in found if share is not None), UNSAID_SHARE.slots)

    def _slugs(self, tenant: Tenant) -> list[str]:
        """The tenant's own tier, then those lent to it."""
        return [slug for slug in (tenant.tier_slug, *self.lent.get(tenant.pk, [])) if slug is not None]

    def of_tenant(self, tenant: Tenant) -> list[Limit]:
        """All limits that an override of the tenant may name."""
        slugs = self._slugs(tenant)
        return [limit for (slug, _name), limit in self.limits.items() if slug in slugs]

    def tiers(self) -> list[str]:
        """The slugs of tiers that may be lent: those with limits."""
        return sorted({slug for slug, _name in self.limits})


def own_value(override: Override) -> str:
    """The override's own number, as it is typed: "800", "unlimited"; empty where it lends a tier."""
    if override.unlimited:
        return "unlimited"
    return "" if override.amount is None else str(override.amount)


def change(override: Override, tier_limits: TierLimits) -> str | SafeString:
    """The tier's value and what becomes of it: "300 / minute → 500 / minute"."""
    if override.lent_tier is not None:
        return f"{override.tenant.tier_slug} → {override.lent_tier}"
    if override.share_pool is not None:
        return _share_change(override, conf.POOLS.get(override.share_pool), tier_limits)
    limit = tier_limits.limit(override)
    value = UNLIMITED if override.amount is None else override.amount
    if limit is None:
        words = _("not in tier %(tier)s: it changes nothing") % {"tier": override.tenant.tier_slug}
        return _loud(words, value)
    before = limit.as_domain()
    words = f"{amount_words(before)} → {amount_words(replace(before, amount=value))}"
    if override.burst is None:
        return words
    return _("%(change)s, burst %(burst)s") % {"change": words, "burst": number_words(override.burst)}


def _share_change(override: Override, pool: PoolSpec | None, tier_limits: TierLimits) -> str | SafeString:
    slots = override.amount or 0
    if pool is None:
        return _loud(no_pool_words(override.share_pool), slots)
    before = tier_limits.slots(override.tenant, pool.name)
    return f"{share_words(before, pool)} → {share_words(slots, pool)}"


def no_pool_words(pool: str | None) -> str:
    """What an override of a share means whose pool is gone."""
    return _("no pool %(pool)s in the settings: it changes nothing") % {"pool": pool}


def _loud(words: str, value: float) -> SafeString:
    return format_html('<strong class="tl-loud">{}</strong> → {}', words, number_words(value))


def known_targets(tenant: Tenant) -> list[tuple[str, str]]:
    """`(target, its value now)` of everything that an override of the tenant may change."""
    tier_limits = TierLimits.of([tenant.pk], timezone.now())
    named = {limit.name: amount_words(limit.as_domain()) for limit in tier_limits.of_tenant(tenant)}
    lending = [
        (f"{TIER_TARGET}{slug}", _("lends that tier")) for slug in tier_limits.tiers() if slug != tenant.tier_slug
    ]
    shares = [
        (f"{SHARE_TARGET}{name}", share_words(tier_limits.slots(tenant, name), pool))
        for name, pool in sorted(conf.POOLS.items())
    ]
    return [*sorted(named.items()), *shares, *lending]
