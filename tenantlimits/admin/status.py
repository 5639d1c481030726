"""Where an override is in its life, and how far its ends are, in words."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tenantlimits.models import Override

SOON = timedelta(days=7)


class Status(StrEnum):
    """Where an override is in its life."""

    ACTIVE = "active"
    SCHEDULED = "scheduled"
    ENDING = "ending"
    EXPIRED = "expired"
    REVOKED = "revoked"


LABELS = {
    Status.ACTIVE: gettext_lazy("active"),
    Status.SCHEDULED: gettext_lazy("scheduled"),
    Status.ENDING: gettext_lazy("ending in 7 days"),
    Status.EXPIRED: gettext_lazy("expired"),
    Status.REVOKED: gettext_lazy("revoked"),
}


def status(override: Override, now: datetime) -> Status:
    """The narrowest status: one that ends soon is active, too."""
    if override.revoked_at is not None:
        return Status.REVOKED
    if override.expires_at <= now:
        return Status.EXPIRED
    if override.starts_at > now:
        return Status.SCHEDULED
    return Status.ENDING if override.expires_at <= now + SOON else Status.ACTIVE


def is_over(override: Override, now: datetime) -> bool:
    """Whether it will never be in force again."""
    return status(override, now) in (Status.EXPIRED, Status.REVOKED)


def having(wanted: Status, now: datetime) -> Q:
    """The overrides with that status; all that are in force are active."""
    if wanted is Status.REVOKED:
        return Q(revoked_at__isnull=False)
    live = Q(revoked_at=None)
    if wanted is Status.EXPIRED:
        return live & Q(expires_at__lte=now)
    if wanted is Status.SCHEDULED:
        return live & Q(starts_at__gt=now, expires_at__gt=now)
    in_force = live & Q(starts_at__lte=now, expires_at__gt=now)
    return in_force & Q(expires_at__lte=now + SOON) if wanted is Status.ENDING else in_force


class StatusFilter(admin.SimpleListFilter):
    """By status."""

    title = gettext_lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> Iterable[tuple[str, Any]]:
        return [(one.value, LABELS[one]) for one in Status]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Override]) -> QuerySet[Override]:
        value = self.value()
        return queryset.filter(having(Status(value), timezone.now())) if value in list(Status) else queryset


def relative(instant: datetime, now: datetime) -> str:
    """How far away the instant is: "in 3 days", "2 hours ago"."""
    distance = abs(instant - now)
    if distance < timedelta(minutes=1):
        return _("now") if instant > now else _("just now")
    days = round(distance / timedelta(days=1))
    if days >= 2:  # not weeks: what was granted for 20 days ends in 20 days
        time = ngettext("%(days)s day", "%(days)s days", days) % {"days": days}
    else:
        time = timeuntil(instant, now, depth=1) if instant > now else timesince(instant, now, depth=1)
    return (_("in %(time)s") if instant > now else _("%(time)s ago")) % {"time": time}


def absolute(instant: datetime) -> str:
    """The instant with its zone: "14 Dec 2026, 10:00 CET"."""
    local = timezone.localtime(instant)
    return f"{date_format(local, 'j M Y, H:i')} {local:%Z}"


def when(instant: datetime, now: datetime) -> SafeString:
    """Both, as the lists show them."""
    return format_html('{} <span class="tl-small">{}</span>', relative(instant, now), absolute(instant))
