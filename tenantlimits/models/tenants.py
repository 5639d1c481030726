"""Tenants: the customers who are limited and shielded from each other."""

from __future__ import annotations

from functools import partial
from typing import Self
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import F, ProtectedError
from django.utils.translation import gettext_lazy as _

from tenantlimits.changes import Recorded
from tenantlimits.conf import conf, zone_named
from tenantlimits.domain.errors import InvalidTenant
from tenantlimits.managers import TenantQuerySet
from tenantlimits.models import constraints
from tenantlimits.models.choices import Mode
from tenantlimits.models.tiers import Tier
from tenantlimits.signals import tier_changed

MAX_KEY_LENGTH = 255


class Tenant(Recorded):
    """A customer whose use is limited. The row with the empty key stands for callers without a tenant."""

    key = models.CharField(_("key"), max_length=MAX_KEY_LENGTH, unique=True)
    name = models.CharField(_("name"), max_length=255, blank=True)
    tier = models.ForeignKey(
        Tier,
        models.PROTECT,
        related_name="tenants",
        verbose_name=_("tier"),
        null=True,
        blank=True,
        help_text=_("Empty: the default tier of the settings."),
    )
    time_zone = models.CharField(
        _("time zone"),
        max_length=64,
        blank=True,
        help_text=_("Such as Europe/Paris: when its days and months begin. Empty: the zone of the settings."),
    )
    mode = models.CharField(_("mode"), max_length=10, choices=Mode, default=Mode.ENFORCE)

    objects = TenantQuerySet.as_manager()

    class Meta:
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        base_manager_name = "objects"
        ordering = ["key"]
        constraints = [
            constraints.at_most("tenant", "key", MAX_KEY_LENGTH),
            constraints.one_of("tenant", "mode", Mode.values),
        ]

    def __str__(self) -> str:
        return self.name or self.key

    @property
    def is_anonymous(self) -> bool:
        """Whether this row stands for callers without a tenant."""
        return self.key == ""

    @property
    def zone(self) -> ZoneInfo:
        """The time zone in which its days and months begin."""
        return zone_named(self.time_zone) if self.time_zone else conf.TIME_ZONE

    @property
    def tier_slug(self) -> str | None:
        """Slug of its own tier, or of the one that the settings name; None: callers without a tenant are refused."""
        if self.tier is not None:
            return self.tier.slug
        return conf.ANONYMOUS_TIER if self.is_anonymous else conf.DEFAULT_TIER

    def own_tier(self) -> Tier | None:
        """Its own tier, or the one that the settings name; None while that has no row."""
        return self.tier or Tier.objects.filter(slug=self.tier_slug).first()

    def owner(self) -> Tenant:
        return self

    def log_name(self) -> str:
        return self.key

    def clean(self) -> None:
        try:
            self.check_rules()
        except InvalidTenant as error:
            raise ValidationError(str(error)) from error
        if self.tier is not None and not self.tier.limits.exists():
            raise ValidationError(no_limits(self.tier))

    def check_rules(self) -> None:
        """InvalidTenant where the key, the time zone or the tier cannot be."""
        key: object = self.key
        if not isinstance(key, str) or len(key) > MAX_KEY_LENGTH:
            raise InvalidTenant(f"A tenant's key is a text of 1 to {MAX_KEY_LENGTH} characters, not {self.key!r:.80}.")
        if "\x00" in self.key:
            raise InvalidTenant(f"Tenant {self.key!r:.80}: a database cannot keep the character NUL of its key.")
        if self.is_anonymous and self.tier_id is not None:
            raise InvalidTenant("Callers without a tenant are on the tier that the setting ANONYMOUS_TIER names.")
        if self.time_zone:
            self._check_zone()

    def _check_zone(self) -> None:
        try:
            zone_named(self.time_zone)
        except ValueError as error:
            raise InvalidTenant(f"Tenant {self.key}: {error}") from error

    def check_delete(self) -> None:
        if self.is_anonymous:
            raise ProtectedError("Callers without a tenant need this row: switch their tier off instead.", {self})

    def announce(self, before: Self | None, *, using: str) -> None:
        if before is not None and before.tier_id != self.tier_id and tier_changed.has_listeners(Tenant):
            old, new = (tenant.tier and tenant.tier.slug for tenant in (before, self))
            send = partial(tier_changed.send_robust, sender=Tenant, tenant=self.key, old=old, new=new)
            transaction.on_commit(send, using=using)


def lock(*, using: str, **which: object) -> None:
    """Make other writers of the tenant of that pk or key wait until the transaction ends.

    An update, for SQLite knows no SELECT FOR UPDATE: there it makes every other writer wait. It goes past our manager,
    since it changes nothing that could be recorded.
    """
    models.QuerySet(Tenant, using=using).filter(**which).update(mode=F("mode"))


def no_limits(tier: Tier) -> str:
    """Why no tenant may be put on a tier without limits."""
    return (
        f"Tier {tier.slug} has no limits, so that its tenants would be unlimited by accident: add one first; "
        "where they shall be unlimited, one that says so."
    )
