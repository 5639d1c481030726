"""The change log: who changed what, when and why."""

from __future__ import annotations

from typing import Any, NoReturn

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenantlimits import changes
from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.managers import ChangeQuerySet
from tenantlimits.models import constraints
from tenantlimits.models.tenants import Tenant


class Action(models.TextChoices):
    """What happened to the row."""

    CREATED = changes.CREATED, _("created")
    CHANGED = changes.CHANGED, _("changed")
    DELETED = changes.DELETED, _("deleted")
    INVALIDATED = changes.INVALIDATED, _("read anew")
    FREED = changes.FREED, _("freed of a slot")


class Change(models.Model):
    """A line of the log. Lines are added, never changed and never deleted."""

    at = models.DateTimeField(_("at"), default=timezone.now, db_index=True, editable=False)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        related_name="tenantlimits_changes",
        verbose_name=_("actor"),
        null=True,
        editable=False,
    )
    actor_name = models.CharField(
        _("actor's name"), max_length=255, blank=True, editable=False, help_text=_("Kept when the user is deleted.")
    )
    action = models.CharField(_("action"), max_length=20, choices=Action, editable=False)
    model = models.CharField(_("model"), max_length=30, editable=False)
    object = models.CharField(_("object"), max_length=255, editable=False)
    object_id = models.BigIntegerField(_("object's id"), null=True, editable=False)
    tenant = models.ForeignKey(
        Tenant, models.SET_NULL, related_name="changes", verbose_name=_("tenant"), null=True, editable=False
    )
    changes = models.JSONField(
        _("changes"), default=dict, encoder=DjangoJSONEncoder, editable=False, help_text=_("{field: [old, new]}")
    )
    reason = models.TextField(_("reason"), blank=True, editable=False)

    objects = ChangeQuerySet.as_manager()

    class Meta:
        verbose_name = _("change")
        verbose_name_plural = _("changes")
        ordering = ["-at", "-pk"]
        constraints = [constraints.one_of("change", "action", Action.values)]

    def __str__(self) -> str:
        return f"{self.object} {self.get_action_display()}"

    def save(self, **kwargs: Any) -> None:  # Any: the arguments of Model.save, handed on
        if not self._state.adding:
            raise TenantLimitsError("The change log is append-only: write what is right now as a change of its own.")
        super().save(**kwargs)

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:  # Any: as above
        raise TenantLimitsError("The change log is append-only: its lines stay.")
