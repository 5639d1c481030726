"""Change what a tenant may do: for billing web-hooks, scripts and the admin. In force for the next decision.

Every change is written to the change log: as made by `by`, else by whom `changes.acting` names. `tenant` is a key or a
row, and must have one: UnknownTenant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import router, transaction
from django.utils import timezone

from tenantlimits.changes import INVALIDATED, acting, actor_pk, current_acting, line
from tenantlimits.conf import suggestion
from tenantlimits.domain.errors import InvalidOverride, InvalidTenant, TenantLimitsError, UnknownTenant, UnknownTier
from tenantlimits.models import Change, Override, Tenant, Tier
from tenantlimits.models.tenants import lock, no_limits
from tenantlimits.signals import policy_changed


def set_tier(tenant: str | Tenant, slug: str | None, *, reason: str, by: AbstractBaseUser | None = None) -> Tenant:
    """The tenant, now on that tier; None: on the default tier of the settings. Once more changes nothing.

    UnknownTier; InvalidTenant where the tier has no limits, so that the tenant would be unlimited by accident.
    """
    if not reason.strip():
        raise TenantLimitsError("Say why the tenant changes its tier, such as 'subscription 4711 upgraded'.")
    with _writing(tenant, by, reason) as row:
        tier = None if slug is None else _tier(slug)
        if row.tier != tier:
            row.tier = tier
            row.save(update_fields=["tier"])
        return row


def grant_override(  # noqa: PLR0913 - the fields of an override, by name
    tenant: str | Tenant,
    target: str,
    *,
    amount: int | None = None,
    burst: int | None = None,
    unlimited: bool = False,
    reason: str,
    expires_at: datetime,
    starts_at: datetime | None = None,
    note: str = "",
    by: AbstractBaseUser | None = None,
) -> Override:
    """A new override, from now on or later: of a limit, by its name and in units; or see below.

    `share:<pool>` as the target changes the tenant's share of a pool, in slots; `tier:<slug>` lends it a tier.
    InvalidOverride, with what to write, where there is no such limit, pool or tier, the value means nothing,
    the reason is missing, the end is in the past or more than MAX_OVERRIDE_DAYS away, an instant has no time zone, or
    another override of the same target overlaps.
    """
    with _writing(tenant, by, reason) as row:
        override = Override(
            tenant=row,
            target=target,
            amount=amount,
            burst=burst,
            unlimited=unlimited,
            reason=reason,
            note=note,
            starts_at=timezone.now() if starts_at is None else starts_at,
            expires_at=expires_at,
        )
        override.save()
        return override


def revoke_override(override: Override | int, *, reason: str, by: AbstractBaseUser | None = None) -> Override:
    """The override (a row or its id), ended now and for good. One that is over or revoked stays as it is."""
    pk = override.pk if isinstance(override, Override) else override
    found = Override.objects.select_related("tenant").filter(pk=pk).first()
    if found is None:
        raise InvalidOverride(f"There is no override #{pk}.")
    with _writing(found.tenant, by, reason):
        row = Override.objects.get(pk=pk)
        now = timezone.now()
        if row.revoked_at is not None or row.expires_at <= now:
            return row
        row.revoked_at, row.revoked_by_id, row.revoke_reason = now, actor_pk(), reason
        row.save()
        return row


def invalidate(tenant: str | Tenant) -> None:
    """Have every process read the tenant's policy anew, which nothing but raw SQL or a host's own tiers asks for."""
    with _writing(tenant, None, "") as row:
        Change.objects.create(**line(INVALIDATED, row, changes={}))
        policy_changed.send(sender=Tenant, tenants=frozenset({row.key}), using=router.db_for_write(Tenant))


@contextmanager
def _writing(tenant: str | Tenant, by: AbstractBaseUser | None, reason: str) -> Iterator[Tenant]:
    """The tenant's row as it is now, held until the block ends and all of it is committed."""
    key, using = tenant.key if isinstance(tenant, Tenant) else tenant, router.db_for_write(Tenant)
    with transaction.atomic(using=using), acting(by or current_acting().user, reason or current_acting().reason):
        # Before anything is read: SQLite fails at once where a transaction has read before it writes.
        lock(using=using, key=key)
        row = Tenant.objects.using(using).select_related("tier").filter(key=key).first()
        if row is None:
            raise UnknownTenant(
                f"There is no tenant {key!r:.80}: it gets its row at its first request, or in the admin."
            )
        yield row


def _tier(slug: str) -> Tier:
    tier = Tier.objects.filter(slug=slug).first()
    if tier is None:
        slugs = sorted(Tier.objects.values_list("slug", flat=True))
        raise UnknownTier(f"There is no tier {slug!r}: there are {', '.join(slugs)}.{suggestion(slug, slugs)}")
    if not tier.limits.exists():
        raise InvalidTenant(no_limits(tier))
    return tier
