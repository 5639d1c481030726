"""What is in force for one tenant, limit by limit: the tier's number, the override, the number in force, its use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from tenantlimits import wording
from tenantlimits.admin.status import absolute, relative
from tenantlimits.admin.values import no_pool_words
from tenantlimits.domain.decisions import Reading
from tenantlimits.domain.limits import UNLIMITED, Kind, Layer, Limit, LimitInForce, OverrideInForce
from tenantlimits.domain.pools import Scope, ShareInForce
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.overview import Overview, overview
from tenantlimits.models import SHARE_TARGET, Override, Tenant
from tenantlimits.models.choices import Layer as LayerChoices
from tenantlimits.models.choices import Mode as ModeChoices
from tenantlimits.wording import LimitState

_LOUD = (LimitState.NEAR, LimitState.LIMITED, LimitState.BLOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveLimit:
    """A line of the table, in words. `meter` is the part that is used, where that means anything, as HTML writes it."""

    name: str
    lane: str
    layer_words: str
    tier_words: str
    override: OverrideInForce | None
    override_ends: str
    words: str
    promise: str
    mode: str
    mode_words: str
    used: str
    meter: str
    state: str
    state_words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveShare:
    """A line of the table of pools, in words. `target` is what an override of it names."""

    pool: str
    target: str
    scope_words: str
    tier_words: str
    override: OverrideInForce | None
    override_ends: str
    words: str
    promise: str


@dataclass(frozen=True, slots=True)
class WaitingOverride:
    """An override that is not over and yet not in force: it begins later, or its target is gone."""

    override: Override
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """What is in force for a tenant. `lent` is the override that lends it its tier."""

    tier: str
    tier_words: str
    as_of: datetime
    stale: bool
    limits: list[EffectiveLimit]
    shares: list[EffectiveShare]
    lent: Override | None
    lent_until: str
    waiting: list[WaitingOverride]


def effective(tenant: Tenant) -> Effective:
    """What is in force for the tenant now. It charges nothing. Callers without a tenant are counted by address."""
    seen = overview(Identity(tenant=tenant.key))
    now = timezone.now()
    live = Override.objects.filter(tenant=tenant, revoked_at=None, expires_at__gt=now)
    overrides = list(live.select_related("tenant__tier").order_by("starts_at", "pk"))
    readings = {reading.limit.name: reading for reading in seen.readings}
    lent = next((one for one in overrides if one.lent_tier == seen.policy.tier and one.is_in_force(now)), None)
    return Effective(
        tier=seen.policy.tier,
        tier_words=seen.policy.tier_name,
        as_of=seen.as_of,
        stale=seen.stale,
        limits=[_line(one, readings.get(one.limit.name), seen, now) for one in seen.policy.limits],
        shares=[_share(one, now) for one in seen.policy.shares.values()],
        lent=lent,
        lent_until=absolute(lent.expires_at) if lent else "",
        waiting=_waiting([one for one in overrides if one != lent], seen, now),
    )


def _waiting(overrides: list[Override], seen: Overview, now: datetime) -> list[WaitingOverride]:
    found = [one.override for one in seen.policy.limits] + [one.override for one in seen.policy.shares.values()]
    in_force = {override.id for override in found if override}
    others = [one for one in overrides if one.pk not in in_force]
    return [WaitingOverride(one, _why_not(one, seen.policy.tier, now)) for one in others]


def _why_not(override: Override, tier: str, now: datetime) -> str:
    if override.starts_at > now:
        return _("begins %(when)s") % {"when": relative(override.starts_at, now)}
    if override.share_pool is not None:
        return no_pool_words(override.share_pool)
    return _("tier %(tier)s has no such limit: it changes nothing") % {"tier": tier or _("none")}


def _line(one: LimitInForce, reading: Reading | None, seen: Overview, now: datetime) -> EffectiveLimit:
    limit, state = one.limit, LimitState.UNKNOWN if reading is None else wording.state_of(reading)
    part = _part(reading)
    return EffectiveLimit(
        name=limit.name,
        lane=limit.lane,
        layer_words=_layer_words(limit.layer),
        tier_words=_words(one.tier_limit),
        override=one.override,
        override_ends=_ends(one.override, now),
        words=_words(limit),
        promise=wording.promise(limit),
        mode=limit.mode.value,
        mode_words=str(ModeChoices(limit.mode).label),
        used=_used(one, reading, seen),
        meter="" if part is None else f"{min(part, 1):.3f}",
        state=state.value,
        state_words=wording.state_words(state) if state in _LOUD else "",
    )


def _share(one: ShareInForce, now: datetime) -> EffectiveShare:
    """Who runs and who waits is for the screen of pools."""
    pool, in_tier = one.pool, wording.share_words(one.tier_slots, one.pool)
    return EffectiveShare(
        pool=pool.name,
        target=f"{SHARE_TARGET}{pool.name}",
        scope_words=_("of each process") if pool.scope is Scope.PROCESS else _("of all processes"),
        tier_words=in_tier if one.tier_share else _("%(slots)s (not said)") % {"slots": in_tier},
        override=one.override,
        override_ends=_ends(one.override, now),
        words=wording.share_words(one.share.slots, pool),
        promise=wording.share_promise(one.share.slots, pool),
    )


def _ends(override: OverrideInForce | None, now: datetime) -> str:
    return "" if override is None else _("ends %(when)s") % {"when": relative(override.expires_at, now)}


def _layer_words(layer: Layer) -> str:
    return "" if layer is Layer.TENANT else _("per %(layer)s") % {"layer": LayerChoices(layer).label}


def _words(limit: Limit) -> str:
    """The limit in short, with its burst where it is another number."""
    words = wording.amount_words(limit)
    if limit.kind is not Kind.TOKEN_BUCKET or limit.capacity in (limit.amount, UNLIMITED):
        return words
    return _("%(amount)s, burst %(burst)s") % {"amount": words, "burst": wording.number_words(limit.capacity)}


def _used(one: LimitInForce, reading: Reading | None, seen: Overview) -> str:
    if seen.stale:
        return _("unknown: store unreachable")
    if reading is None:
        return _elsewhere(one.limit.layer, anonymous=not seen.policy.tenant)
    words = {"used": wording.number_words(reading.used), "capacity": wording.number_words(reading.limit.capacity)}
    part = _part(reading)
    in_flight = reading.limit.kind is Kind.CONCURRENCY
    if part is None:
        return _("%(used)s in flight") % words if in_flight else words["used"]
    words["percent"] = wording.number_words(int(part * 100))
    if in_flight:
        return _("%(used)s of %(capacity)s in flight (%(percent)s %%)") % words
    return _("%(used)s of %(capacity)s (%(percent)s %%)") % words


def _elsewhere(layer: Layer, *, anonymous: bool) -> str:
    if anonymous:
        return _("counted per address")
    return _("counted per user") if layer is Layer.USER else _("counted per credential")


def _part(reading: Reading | None) -> float | None:
    if reading is None or reading.limit.capacity in (0, UNLIMITED):
        return None
    return reading.used / reading.limit.capacity
