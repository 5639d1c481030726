"""What an override changes: the tier's value beside its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from tenantlimits.domain.limits import UNLIMITED
from tenantlimits.models import TIER_TARGET, Limit, Override, Tenant
from tenantlimits.wording import amount_words, number_words


@dataclass(frozen=True, slots=True)
class TierLimits:
    """The limits of all tiers, and which tiers some tenants are on now: read once for a page, asked for each row."""

    limits: dict[tuple[str, str], Limit]
    lent: dict[int, list[str]]

    @classmethod
    def of(cls, tenant_ids: Iterable[int], now: datetime) -> TierLimits:
        """What these tenants' overrides have to be compared with."""
        limits = {(limit.tier.slug, limit.name): limit for limit in Limit.objects.select_related("tier")}
        lent: dict[int, list[str]] = {}
        live = Override.objects.filter(
            tenant__in=list(tenant_ids), target__startswith=TIER_TARGET, revoked_at=None, expires_at__gt=now
        )
        for tenant_id, target in live.order_by("starts_at").values_list("tenant_id", "target"):
            lent.setdefault(tenant_id, []).append(target.removeprefix(TIER_TARGET))
        return cls(limits, lent)

    def limit(self, override: Override) -> Limit | None:
        """The limit that the override changes, in the tenant's own tier or one lent to it; None where it has none."""
        slugs = [override.tenant.tier_slug, *self.lent.get(override.tenant_id, [])]
        found = (self.limits.get((slug, override.target)) for slug in slugs if slug is not None)
        return next((limit for limit in found if limit is not None), None)

    def of_tenant(self, tenant: Tenant) -> list[Limit]:
        """All limits that an override of the tenant may name."""
        slugs = {tenant.tier_slug, *self.lent.get(tenant.pk, [])}
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
    limit = tier_limits.limit(override)
    value = UNLIMITED if override.amount is None else override.amount
    if limit is None:
        words = _("not in tier %(tier)s: it changes nothing") % {"tier": override.tenant.tier_slug}
        return format_html('<strong class="tl-loud">{}</strong> → {}', words, number_words(value))
    before = limit.as_domain()
    words = f"{amount_words(before)} → {amount_words(replace(before, amount=value))}"
    if override.burst is None:
        return words
    return _("%(change)s, burst %(burst)s") % {"change": words, "burst": number_words(override.burst)}


def known_targets(tenant: Tenant) -> list[tuple[str, str]]:
    """`(target, its value now)` of everything that an override of the tenant may change."""
    tier_limits = TierLimits.of([tenant.pk], timezone.now())
    named = {limit.name: amount_words(limit.as_domain()) for limit in tier_limits.of_tenant(tenant)}
    lending = [
        (f"{TIER_TARGET}{slug}", _("lends that tier")) for slug in tier_limits.tiers() if slug != tenant.tier_slug
    ]
    return [*sorted(named.items()), *lending]
