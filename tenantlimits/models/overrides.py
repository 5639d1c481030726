"""Overrides: temporary changes of one tenant's limit, share or tier, each with a reason and an end.

`Override.save` is the one place where they are written. It holds the tenant's row, so that of two writers at the same
instant the second one sees what the first has written. Instants are judged by this process's clock, validity in the
policy by the store's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models, router, transaction
from django.db.models import Q
from django.db.models.functions import Length, Trim
from django.db.models.lookups import GreaterThan
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenantlimits.changes import Recorded, actor_pk
from tenantlimits.conf import conf, suggestion
from tenantlimits.domain.errors import InvalidLimit, InvalidOverride, InvalidShare, UnknownPool
from tenantlimits.domain.limits import MAX_AMOUNT, validated
from tenantlimits.domain.pools import check_slots
from tenantlimits.managers import OverrideQuerySet
from tenantlimits.models import constraints
from tenantlimits.models.tenants import Tenant, lock, no_limits
from tenantlimits.models.tiers import Limit, Tier
from tenantlimits.signals import override_changed

TIER_TARGET = "tier:"
"""`tier:pro` as a target lends the tenant that tier."""
SHARE_TARGET = "share:"
"""`share:exports` as a target is the tenant's share of that pool; the amount is slots."""

MAX_REASON_LENGTH = 500

_FOR_TIER = Q(target__startswith=TIER_TARGET)
_FOR_SHARE = Q(target__startswith=SHARE_TARGET)
_NO_VALUE = Q(amount__isnull=True, burst__isnull=True)


class Override(Recorded):
    """A temporary change for one tenant. It is never deleted: it ends, or it is revoked with a reason."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="overrides", verbose_name=_("tenant"))
    target = models.CharField(
        _("target"),
        max_length=60,
        help_text=_(
            "The name of a limit, share:exports for its share of the pool exports, or tier:pro to lend the tier pro."
        ),
    )
    amount = models.BigIntegerField(_("amount"), null=True, blank=True, help_text=_("0 blocks."))
    burst = models.BigIntegerField(
        _("burst"), null=True, blank=True, help_text=_("Of a token bucket. Empty: in proportion to the amount.")
    )
    unlimited = models.BooleanField(_("unlimited"), default=False)
    reason = models.CharField(_("reason"), max_length=MAX_REASON_LENGTH, help_text=_("The tenant reads it."))
    note = models.TextField(_("note"), blank=True, help_text=_("Internal: the tenant never sees it."))
    starts_at = models.DateTimeField(_("starts at"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires at"))
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        related_name="tenantlimits_overrides",
        verbose_name=_("created by"),
        null=True,
        blank=True,
        editable=False,
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True, editable=False)
    revoked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        related_name="tenantlimits_revoked_overrides",
        verbose_name=_("revoked by"),
        null=True,
        blank=True,
        editable=False,
    )
    revoke_reason = models.CharField(_("reason for revoking"), max_length=MAX_REASON_LENGTH, blank=True, editable=False)

    objects = OverrideQuerySet.as_manager()

    class Meta:
        verbose_name = _("override")
        verbose_name_plural = _("overrides")
        ordering = ["-starts_at", "-pk"]
        indexes = [
            models.Index(fields=["tenant", "expires_at"], name="tenantlimits_override_tenant"),
            models.Index(fields=["expires_at"], name="tenantlimits_override_ends"),
        ]
        constraints = [
            constraints.not_blank("override", "target"),
            constraints.not_blank("override", "reason"),
            constraints.at_most("override", "reason", MAX_REASON_LENGTH),
            constraints.amount("override", "amount"),
            constraints.amount("override", "burst"),
            models.CheckConstraint(
                name="tenantlimits_override_ends_after_start", condition=Q(expires_at__gt=models.F("starts_at"))
            ),
            models.CheckConstraint(
                name="tenantlimits_override_value",
                condition=(_FOR_TIER & _NO_VALUE & Q(unlimited=False))
                | (_FOR_SHARE & Q(unlimited=False, amount__isnull=False, burst__isnull=True))
                | (~_FOR_TIER & ~_FOR_SHARE & _NO_VALUE & Q(unlimited=True))
                | (~_FOR_TIER & ~_FOR_SHARE & Q(unlimited=False, amount__isnull=False)),
            ),
            # Who revoked may be nobody: a script, or a user who has been deleted since.
            models.CheckConstraint(
                name="tenantlimits_override_revoked",
                condition=Q(revoked_at__isnull=True, revoked_by__isnull=True, revoke_reason="")
                | (Q(revoked_at__isnull=False) & Q(GreaterThan(Length(Trim("revoke_reason")), 0))),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.target} of {self.tenant.key}"

    @property
    def lent_tier(self) -> str | None:
        """Slug of the tier that it lends; None where it changes a limit or a share."""
        return self.target.removeprefix(TIER_TARGET) if self.target.startswith(TIER_TARGET) else None

    @property
    def share_pool(self) -> str | None:
        """Name of the pool of which it changes the share; None where it changes a limit or lends a tier."""
        return self.target.removeprefix(SHARE_TARGET) if self.target.startswith(SHARE_TARGET) else None

    def is_in_force(self, now: datetime) -> bool:
        """Whether it has started, has not ended and is not revoked.

        One that had started when it was written has started whatever `now` says: the writer's clock may be ahead.
        """
        has_started = self.starts_at <= max(now, self.created_at)
        return self.revoked_at is None and has_started and now < self.expires_at

    def owner(self) -> Tenant:
        return self.tenant

    def save(self, **kwargs: Any) -> None:  # Any: the arguments of Model.save, handed on
        using = kwargs.get("using") or router.db_for_write(Override, instance=self)
        if self._state.adding and self.created_by_id is None:
            self.created_by_id = actor_pk()
        with transaction.atomic(using=using):
            # The first statement of all: SQLite fails at once where a transaction has read before it writes.
            lock(using=using, pk=self.tenant_id)
            super().save(**kwargs)

    def clean(self) -> None:
        try:
            self.check_rules()
        except InvalidOverride as error:
            raise ValidationError(str(error)) from error

    def validate_constraints(self, exclude: Iterable[str] | None = None) -> None:
        """Nothing more: `clean` has said all that the database would, in better words."""

    def check_rules(self) -> None:
        """InvalidOverride where it may not be written as it is, with what to do. Trims texts; instants become UTC."""
        now = timezone.now()
        before = Override.objects.filter(pk=self.pk).first() if self.pk else None
        self._check_texts()
        self._check_instants()
        if before is None or before.expires_at != self.expires_at:
            self._check_end(now)
        self._check_value()
        tenant_id: int | None = self.tenant_id  # a form may not have it yet
        if tenant_id is None or self.revoked_at is not None:
            return
        if before is None or self._value() != before._value():
            self._check_target()
        self.check_clash()

    def check_delete(self) -> None:
        raise InvalidOverride("An override is kept for good: revoke it with revoke_override, with a reason.")

    def check_clash(self) -> None:
        """InvalidOverride where another one of the same target overlaps; one may begin as the other ends."""
        same = Q(target__startswith=TIER_TARGET) if self.lent_tier is not None else Q(target=self.target)
        others = Override.objects.live(self.starts_at, self.expires_at).filter(same, tenant=self.tenant_id)
        clash = others.exclude(pk=self.pk).order_by("starts_at").first()
        if clash is not None:
            raise InvalidOverride(
                f"Tenant {clash.tenant.key} already has an override of {clash.target}, #{clash.pk}, "
                f"from {_words(clash.starts_at)} to {_words(clash.expires_at)}: change or revoke that one, "
                "or begin when it ends."
            )

    def announce(self, before: Self | None, *, using: str) -> None:
        send = partial(override_changed.send_robust, sender=Override, override=self, created=before is None)
        transaction.on_commit(send, using=using)

    def _value(self) -> tuple[object, ...]:
        return self.tenant_id, self.target, self.amount, self.burst, self.unlimited

    def _check_texts(self) -> None:
        self.reason, self.revoke_reason = _trimmed(self.reason), _trimmed(self.revoke_reason)
        if not self.reason:
            raise InvalidOverride("An override needs a reason, which the tenant reads, such as 'Black Friday import'.")
        for reason in (self.reason, self.revoke_reason):
            if len(reason) > MAX_REASON_LENGTH:
                raise InvalidOverride(f"The reason has {len(reason)} characters: write at most {MAX_REASON_LENGTH}.")
        if (self.revoked_at is None) != (self.revoke_reason == ""):
            raise InvalidOverride("An override is revoked with a reason: use revoke_override.")

    def _check_instants(self) -> None:
        self.starts_at = _instant(self.starts_at, "start")
        self.expires_at = _instant(self.expires_at, "end")
        if self.expires_at <= self.starts_at:
            raise InvalidOverride(
                f"The end {_words(self.expires_at)} is not after the start {_words(self.starts_at)}: write a later one."
            )

    def _check_end(self, now: datetime) -> None:
        if self.expires_at <= now:
            raise InvalidOverride(f"The end {_words(self.expires_at)} is in the past: write a later one.")
        last = now + timedelta(days=conf.MAX_OVERRIDE_DAYS)
        if self.expires_at > last:
            raise InvalidOverride(
                f"The end {_words(self.expires_at)} is more than {conf.MAX_OVERRIDE_DAYS} days away: write one up to "
                f"{_words(last)}. What is to last belongs into a tier."
            )

    def _check_value(self) -> None:
        if self.lent_tier is not None and (self.amount, self.burst, self.unlimited) != (None, None, False):
            raise InvalidOverride(f"{self.target} lends a whole tier: leave amount and burst empty.")
        if self.share_pool is not None and (self.unlimited or self.burst is not None):
            raise InvalidOverride(
                f"{self.target}: a share is a number of slots, neither unlimited nor with a burst. For all of the pool "
                "write its capacity."
            )
        if self.unlimited and (self.amount, self.burst) != (None, None):
            raise InvalidOverride(f"{self.target}: unlimited or an amount, not both.")
        if self.share_pool is not None and self.amount is None:
            raise InvalidOverride(f"{self.target}: write an amount, the slots (0: none of its own).")
        if self.lent_tier is None and not self.unlimited and self.amount is None:
            raise InvalidOverride(f"{self.target}: write an amount (0 blocks), or choose unlimited.")
        for what, value in (("amount", self.amount), ("burst", self.burst)):
            if value is not None and (type(value) is not int or not 0 <= value <= MAX_AMOUNT):
                raise InvalidOverride(
                    f"{self.target}: the {what} is a whole number from 0 (blocks) to {MAX_AMOUNT:,}, not {value!r}."
                )

    def _check_target(self) -> None:
        if self.lent_tier is not None:
            return _check_lendable(self.lent_tier)
        if self.share_pool is not None:
            return self._check_share(self.share_pool)
        tenant = Tenant.objects.get(pk=self.tenant_id)
        # A name may stand in the tier that is lent meanwhile, too.
        lent = Override.objects.live(self.starts_at, self.expires_at).filter(_FOR_TIER, tenant=tenant)
        slugs = [slug for slug in (tenant.tier_slug, *(other.lent_tier for other in lent)) if slug]
        limits = list(Limit.objects.filter(tier__slug__in=slugs))
        for limit in limits:
            if limit.name == self.target:
                return self._check_fits(limit)
        names = sorted({limit.name for limit in limits})
        there = f"there are {', '.join(names)}.{suggestion(self.target, names)}" if names else "there are none yet."
        raise InvalidOverride(f"Tenant {tenant.key} has no limit {self.target!r} on tier {' or '.join(slugs)}: {there}")

    def _check_share(self, pool: str) -> None:
        """A tenant has a share of every pool, whether its tier says how much or not."""
        try:
            check_slots(self.amount, pool=conf.pool(pool), name=self.target)
        except (InvalidShare, UnknownPool) as error:
            raise InvalidOverride(str(error)) from error

    def _check_fits(self, limit: Limit) -> None:
        if self.amount is None:
            return
        try:
            validated(replace(limit.as_domain(), amount=self.amount, burst=self.burst))
        except InvalidLimit as error:
            raise InvalidOverride(str(error)) from error


def _check_lendable(slug: str) -> None:
    tier = Tier.objects.filter(slug=slug).first()
    if tier is None:
        slugs = sorted(Tier.objects.values_list("slug", flat=True))
        raise InvalidOverride(
            f"There is no tier {slug!r} to lend: there are {', '.join(slugs)}.{suggestion(slug, slugs)}"
        )
    if not tier.limits.exists():
        raise InvalidOverride(no_limits(tier))


def _trimmed(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidOverride(f"A reason is a text, not {text!r}.")
    return text.strip()


def _instant(value: object, what: str) -> datetime:
    """The same instant in UTC: arithmetic between two wall clocks of one zone forgets its clock changes."""
    if not isinstance(value, datetime):
        raise InvalidOverride(f"An override needs its {what} as a date and time, not {value!r}.")
    if value.utcoffset() is None:
        raise InvalidOverride(
            f"The {what} {value} has no time zone, so that it is no instant: give an aware datetime, such as "
            "timezone.now() + timedelta(days=7)."
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidOverride(f"The {what} {value} is outside the calendar: write an earlier date.") from None


def _words(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@receiver(post_save, sender=Override, dispatch_uid="tenantlimits.loaded_override")
def _check_loaded(instance: Override, raw: bool = False, **_kwargs: object) -> None:
    """Fixtures pass no `save`: what they hold is history and may be long over, but it must not overlap."""
    if raw and instance.revoked_at is None:
        instance.check_clash()
