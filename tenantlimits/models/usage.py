"""Usage by the hour, as the flush writes it."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from tenantlimits.models.tenants import Tenant


class UsageHour(models.Model):
    """What one source counted for a tenant in a lane in an hour. Sources are summed when read.

    The numbers are absolute, so that writing them again changes nothing. `start` is the hour of the tenant's time zone,
    as an instant; before `complete_until` nothing more is to come from this source.
    """

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="usage_hours", verbose_name=_("tenant"))
    lane = models.CharField(_("lane"), max_length=50)
    start = models.DateTimeField(_("start"))
    source = models.CharField(
        _("source"), max_length=64, help_text=_("The store's incarnation, or a process that counted without it.")
    )
    requests = models.PositiveBigIntegerField(_("requests"), default=0)
    allowed = models.PositiveBigIntegerField(_("allowed"), default=0)
    refused = models.PositiveBigIntegerField(_("refused"), default=0)
    refused_by = models.JSONField(_("refused by"), default=dict, help_text=_("{limit: times}"))
    observed_by = models.JSONField(
        _("observed by"), default=dict, help_text=_("{limit: times} that limits in mode observe would have refused")
    )
    cost = models.DecimalField(_("cost"), max_digits=24, decimal_places=3, default=0, help_text=_("In units."))
    waited_ms = models.PositiveBigIntegerField(_("waited, in milliseconds"), default=0)
    peak_in_flight = models.PositiveIntegerField(_("peak in flight"), default=0)
    complete_until = models.DateTimeField(_("complete until"), null=True)

    class Meta:
        verbose_name = _("usage of an hour")
        verbose_name_plural = _("usage by the hour")
        ordering = ["-start", "tenant", "lane"]
        indexes = [models.Index(fields=["start"], name="tenantlimits_usagehour_start")]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "lane", "start", "source"], name="tenantlimits_usagehour_source"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant.key} {self.lane} {self.start:%Y-%m-%d %H:%M %Z}"
