"""Shares: what tenants of a tier have of each pool."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from tenantlimits.changes import Recorded
from tenantlimits.conf import conf
from tenantlimits.domain import shares as domain
from tenantlimits.domain.errors import InvalidShare, UnknownPool
from tenantlimits.domain.pools import MAX_SLOTS, check_slots
from tenantlimits.managers import RecordedQuerySet
from tenantlimits.models import constraints
from tenantlimits.models.tiers import Tier


class Share(Recorded):
    """So many slots of a pool for each tenant of a tier. Where a tier has no row, its tenants have one slot."""

    tier = models.ForeignKey(Tier, models.CASCADE, related_name="shares", verbose_name=_("tier"))
    pool = models.CharField(_("pool"), max_length=50)
    slots = models.PositiveIntegerField(_("slots"), help_text=_("0: none of its own, it only borrows."))
    queue = models.PositiveIntegerField(
        _("queue"),
        null=True,
        blank=True,
        help_text=_("How many of a tenant's operations may wait for a slot. Empty: as many as the pool lets."),
    )

    objects = RecordedQuerySet.as_manager()

    class Meta:
        verbose_name = _("share")
        verbose_name_plural = _("shares")
        base_manager_name = "objects"
        ordering = ["tier", "pool"]
        constraints = [
            models.UniqueConstraint(fields=["tier", "pool"], name="tenantlimits_share_pool"),
            constraints.not_blank("share", "pool"),
            constraints.amount("share", "slots", most=MAX_SLOTS),
            constraints.amount("share", "queue", most=MAX_SLOTS),
        ]

    def __str__(self) -> str:
        return f"{self.tier.slug}/{self.pool}-share"

    def as_domain(self) -> domain.Share:
        """The same share as a plain value."""
        return domain.Share(slots=self.slots, queue=self.queue)

    def clean(self) -> None:
        try:
            self.check_pool()
            self.check_rules()
        except (InvalidShare, UnknownPool) as error:
            raise ValidationError(str(error)) from error

    def check_pool(self) -> None:
        """UnknownPool where no setting names the pool, so that the share would never be asked."""
        conf.pool(self.pool)

    def check_rules(self) -> None:
        """InvalidShare where the row means nothing, or is more than the pool has."""
        check_slots(self.slots, pool=conf.POOLS.get(self.pool), name=f"Share of pool {self.pool}")
        if self.queue is not None and (type(self.queue) is not int or not 0 <= self.queue <= MAX_SLOTS):
            raise InvalidShare(
                f"Share of pool {self.pool}: the queue is a whole number from 0 (nothing waits) to {MAX_SLOTS:,}, "
                f"or empty; not {self.queue!r}."
            )

    def save(self, **kwargs: Any) -> None:  # Any: the arguments of Model.save, handed on
        if self._state.adding:
            self.check_pool()
        super().save(**kwargs)


class Pool(Share):
    """What permissions to see and free slots of pools are of. There are no rows: pools are named by the settings."""

    class Meta:
        proxy = True
        default_permissions = ("view", "change")
        verbose_name = _("pool")
        verbose_name_plural = _("pools")

    def __str__(self) -> str:
        return self.pool
