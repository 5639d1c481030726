"""Tiers and their limits: what a tenant may do."""

from __future__ import annotations

import math
import re
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import ProtectedError
from django.db.models.signals import post_delete
from django.dispatch import receiver
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenantlimits.changes import Recorded
from tenantlimits.conf import conf
from tenantlimits.domain import limits as domain
from tenantlimits.domain.errors import InvalidLimit, TenantLimitsError, UnknownLane
from tenantlimits.domain.limits import ALL_LANE, MAX_LIMITS_PER_TIER, validated
from tenantlimits.managers import RecordedQuerySet
from tenantlimits.models import constraints
from tenantlimits.models.choices import Counts, Guarantee, Kind, Layer, Mode

SLUG_WORDS = "write a slug of 1 to 50 letters, digits, '-' or '_'."


def is_slug(text: object) -> bool:
    """Whether the text may stand in a URL, a header and an override's target as it is."""
    return isinstance(text, str) and re.fullmatch(r"[-a-zA-Z0-9_]{1,50}", text) is not None


class Tier(Recorded):
    """The plan that a tenant is on. Its slug stays what it was: settings, overrides and the API refer to it."""

    slug = models.SlugField(_("slug"), max_length=50, unique=True)
    name = models.CharField(_("name"), max_length=100)
    description = models.TextField(_("description"), blank=True)
    mode = models.CharField(_("mode"), max_length=10, choices=Mode, default=Mode.ENFORCE)

    objects = RecordedQuerySet.as_manager()

    class Meta:
        verbose_name = _("tier")
        verbose_name_plural = _("tiers")
        base_manager_name = "objects"
        ordering = ["slug"]
        constraints = [
            constraints.one_of("tier", "mode", Mode.values),
            constraints.not_blank("tier", "slug"),
        ]

    def __str__(self) -> str:
        return self.name or self.slug

    def log_name(self) -> str:
        return self.slug

    def check_rules(self) -> None:
        """TenantLimitsError where the slug is none."""
        if not is_slug(self.slug):
            raise TenantLimitsError(f"Tier {self.slug!r}: {SLUG_WORDS}")

    def clean(self) -> None:
        before = type(self)._base_manager.filter(pk=self.pk).first() if self.pk else None
        if before is not None and before.slug != self.slug:
            raise ValidationError(
                _("The slug stays %(slug)s, since settings and overrides may refer to it: change the name instead."),
                params={"slug": before.slug},
            )

    def check_delete(self) -> None:
        # Tenants on the tier protect it by their foreign key.
        if reason := self._named_by():
            raise ProtectedError(f"Tier {self.slug} is in use: {reason}", {self})

    def is_in_use(self) -> bool:
        """Whether some tenant gets its limits here: by its row, by the settings, or lent by an override."""
        return self.tenants.exists() or bool(self._named_by())

    def _named_by(self) -> str:
        """What refers to the tier by its slug, and what to do about it; empty where nothing does."""
        from tenantlimits.models.overrides import Override  # noqa: PLC0415 - overrides build on tiers

        if self.slug == conf.DEFAULT_TIER:
            return "it is DEFAULT_TIER of the settings. Name another tier there first."
        if self.slug == conf.ANONYMOUS_TIER:
            return "it is ANONYMOUS_TIER of the settings. Name another tier there first."
        if lent := Override.objects.lending(self.slug, timezone.now()).first():
            return f"it is lent to {lent.tenant} until {lent.expires_at:%Y-%m-%d %H:%M %Z}. Revoke that override first."
        return ""


class Limit(Recorded):
    """So many units per period in a lane and a layer. No amount is unlimited, which forms ask for by that word."""

    tier = models.ForeignKey(Tier, models.CASCADE, related_name="limits", verbose_name=_("tier"))
    name = models.SlugField(_("name"), max_length=50)
    lane = models.CharField(_("lane"), max_length=50, default=ALL_LANE)
    layer = models.CharField(_("layer"), max_length=10, choices=Layer, default=Layer.TENANT)
    kind = models.CharField(_("kind"), max_length=20, choices=Kind, default=Kind.TOKEN_BUCKET)
    amount = models.BigIntegerField(_("amount"), null=True, blank=True)
    period_seconds = models.PositiveIntegerField(_("period in seconds"), null=True, blank=True)
    burst = models.BigIntegerField(_("burst"), null=True, blank=True)
    counts = models.CharField(_("counts"), max_length=10, choices=Counts, default=Counts.COST)
    guarantee = models.CharField(_("guarantee"), max_length=10, choices=Guarantee, default=Guarantee.CONTRACT)
    anchor_day = models.PositiveSmallIntegerField(_("anchor day"), default=1)
    mode = models.CharField(_("mode"), max_length=10, choices=Mode, default=Mode.ENFORCE)

    objects = RecordedQuerySet.as_manager()

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        base_manager_name = "objects"
        ordering = ["tier", "lane", "name"]
        constraints = [
            models.UniqueConstraint(fields=["tier", "name"], name="tenantlimits_limit_name"),
            constraints.not_blank("limit", "name"),
            constraints.amount("limit", "amount"),
            constraints.amount("limit", "burst"),
            constraints.one_of("limit", "layer", Layer.values),
            constraints.one_of("limit", "kind", Kind.values),
            constraints.one_of("limit", "counts", Counts.values),
            constraints.one_of("limit", "guarantee", Guarantee.values),
            constraints.one_of("limit", "mode", Mode.values),
        ]

    def __str__(self) -> str:
        return f"{self.tier.slug}/{self.name}"

    def as_domain(self) -> domain.Limit:
        """The same limit as a plain value: units, math.inf where it is unlimited."""
        return domain.Limit(
            name=self.name,
            lane=self.lane,
            layer=domain.Layer(self.layer),
            kind=domain.Kind(self.kind),
            amount=math.inf if self.amount is None else self.amount,
            period_seconds=self.period_seconds,
            burst=self.burst,
            counts=domain.Counts(self.counts),
            guarantee=domain.Guarantee(self.guarantee),
            anchor_day=self.anchor_day,
            mode=domain.Mode(self.mode),
        )

    def clean(self) -> None:
        try:
            self.check_lane()
            self.check_rules()
        except (InvalidLimit, UnknownLane) as error:
            raise ValidationError(str(error)) from error

    def check_lane(self) -> None:
        """UnknownLane where no setting names the lane, so that the limit would never be asked."""
        if self.lane != ALL_LANE:
            conf.lane(self.lane)

    def check_rules(self) -> None:
        """InvalidLimit where the row means nothing, or its tier is full."""
        if not is_slug(self.name):
            raise InvalidLimit(f"Limit {self.name!r}: {SLUG_WORDS}")
        for what, value in (("amount", self.amount), ("burst", self.burst)):
            if value is not None and type(value) is not int:
                raise InvalidLimit(f"Limit {self.name}: the {what} is a whole number of units, not {value!r}.")
        try:
            validated(self.as_domain())
        except ValueError as error:
            raise InvalidLimit(str(error)) from error
        if Limit.objects.filter(tier=self.tier_id).exclude(pk=self.pk).count() >= MAX_LIMITS_PER_TIER:
            raise InvalidLimit(f"Limit {self.name}: a tier has at most {MAX_LIMITS_PER_TIER}; take one out first.")

    def save(self, **kwargs: Any) -> None:  # Any: the arguments of Model.save, handed on
        if self._state.adding:
            self.check_lane()
        super().save(**kwargs)

    def logged(self, field: models.Field[Any, Any]) -> object:
        return "unlimited" if field.name == "amount" and self.amount is None else super().logged(field)


@receiver(post_delete, sender=Limit, dispatch_uid="tenantlimits.last_limit")
def _keep_one(instance: Limit, **_kwargs: object) -> None:
    """A tier in use keeps a limit: without any, its tenants would be unlimited by accident."""
    tier = instance.tier
    if not tier.limits.exists() and tier.is_in_use():
        raise ProtectedError(
            f"{instance.name} is the last limit of tier {tier.slug}, which is in use: without it, its tenants would be "
            "unlimited. Add another limit first; where they shall be unlimited, one that says so.",
            {instance},
        )
