"""The site-wide switch: enforce, observe or off, in force on the next request."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import ProtectedError, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenantlimits.changes import Recorded, actor_pk
from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.managers import RecordedQuerySet
from tenantlimits.models import constraints
from tenantlimits.models.choices import Mode


class Switch(Recorded):
    """One row for the whole site. Read it by `Switch.current()`, change it and save it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    mode = models.CharField(_("mode"), max_length=10, choices=Mode, default=Mode.ENFORCE)
    reason = models.CharField(_("reason"), max_length=500)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        related_name="tenantlimits_switches",
        verbose_name=_("changed by"),
        null=True,
        blank=True,
        editable=False,
    )
    changed_at = models.DateTimeField(_("changed at"), default=timezone.now, editable=False)

    objects = RecordedQuerySet.as_manager()

    class Meta:
        verbose_name = _("switch")
        verbose_name_plural = _("switch")
        constraints = [
            models.CheckConstraint(name="tenantlimits_switch_single", condition=Q(id=1)),
            constraints.one_of("switch", "mode", Mode.values),
            constraints.not_blank("switch", "reason"),
        ]

    def __str__(self) -> str:
        return str(_("Limits of the whole site"))

    @classmethod
    def current(cls) -> Switch:
        """The row; before anybody has switched, a new one that enforces."""
        return cls.objects.first() or cls()

    def check_rules(self) -> None:
        """TenantLimitsError where nobody says why."""
        if not self.reason.strip():
            raise TenantLimitsError("Say why the switch is turned: everybody's limits hang on it.")

    def check_delete(self) -> None:
        raise ProtectedError("The switch stays: turn it to enforce instead.", {self})

    def save(self, **kwargs: Any) -> None:  # Any: the arguments of Model.save, handed on
        before = type(self).objects.first()
        if before is None or (before.mode, before.reason) != (self.mode, self.reason):
            self.changed_by_id, self.changed_at = actor_pk(), timezone.now()
        super().save(**kwargs)
