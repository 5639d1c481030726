"""What happened, to be read: usage by the hour, and the change log."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits.admin.generics import ModelAdmin
from tenantlimits.admin.status import absolute
from tenantlimits.models import Change, UsageHour
from tenantlimits.wording import number_words

M = TypeVar("M", bound=models.Model)


class ReadOnlyAdmin(ModelAdmin[M]):
    """Rows that are read, and never written here."""

    show_full_result_count = False
    list_per_page = 50

    class Media:
        css = {"all": ["tenantlimits/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False


@admin.register(UsageHour)
class UsageHourAdmin(ReadOnlyAdmin[UsageHour]):
    list_display = [
        "hour", "tenant", "lane", "requests", "refused", "refused_words", "observed_words", "cost",
    ]  # fmt: skip
    list_filter = ["lane", "source"]
    list_select_related = ["tenant"]
    search_fields = ["tenant__key", "tenant__name"]
    search_help_text = gettext_lazy("Tenant")
    date_hierarchy = "start"
    ordering = ["-start"]
    fields = [
        "hour", "tenant", "lane", "requests", "allowed", "refused", "refused_words", "observed_words", "cost",
        "waited", "peak_in_flight", "source", "complete",
    ]  # fmt: skip

    @admin.display(description=gettext_lazy("hour"), ordering="start")
    def hour(self, usage: UsageHour) -> str:
        """When the hour begins, with the zone, since an hour comes twice when clocks go back."""
        return absolute(usage.start)

    @admin.display(description=gettext_lazy("refused by"))
    def refused_words(self, usage: UsageHour) -> str:
        """By which limits, and how often."""
        return _times(usage.refused_by)

    @admin.display(description=gettext_lazy("would have refused"))
    def observed_words(self, usage: UsageHour) -> str:
        """Which limits in mode observe, and how often."""
        return _times(usage.observed_by)

    @admin.display(description=gettext_lazy("waited"), ordering="waited_ms")
    def waited(self, usage: UsageHour) -> str:
        """How long in all."""
        return _("%(seconds)s s") % {"seconds": number_words(usage.waited_ms / 1000)}

    @admin.display(description=gettext_lazy("complete until"))
    def complete(self, usage: UsageHour) -> str:
        """Until when nothing more is to come."""
        return absolute(usage.complete_until) if usage.complete_until else _("not yet known")


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin[Change]):
    list_display = ["shown_at", "who", "what", "shown_changes", "reason"]
    list_filter = ["action", "model"]
    list_select_related = ["tenant"]
    search_fields = ["object", "actor_name", "reason", "tenant__key", "tenant__name"]
    search_help_text = gettext_lazy("Object, who, reason or tenant")
    date_hierarchy = "at"
    ordering = ["-at", "-pk"]
    fields = ["shown_at", "who", "action", "model", "object", "tenant", "shown_changes", "reason"]

    @admin.display(description=gettext_lazy("at"), ordering="at")
    def shown_at(self, change: Change) -> str:
        """The instant, to the second, with its zone."""
        local = timezone.localtime(change.at)
        return f"{date_format(local, 'j M Y, H:i:s')} {local:%Z}"

    @admin.display(description=gettext_lazy("who"), ordering="actor_name")
    def who(self, change: Change) -> str:
        """The name that the actor had then."""
        return change.actor_name or _("a script or the system")

    @admin.display(description=gettext_lazy("what"), ordering="object")
    def what(self, change: Change) -> str:
        """What happened to which row."""
        return f"{change.model} {change.object} {change.get_action_display()}"

    @admin.display(description=gettext_lazy("old → new"))
    def shown_changes(self, change: Change) -> SafeString:
        """Each field that differs; of a new row, what it is."""
        lines = [(field, _sides(*sides)) for field, sides in change.changes.items()]
        return format_html_join("; ", '<span class="tl-quiet">{}:</span> {}', lines)


def _sides(old: object, new: object) -> str:
    return _side(new) if old is None else f"{_side(old)} → {_side(new)}"


def _side(value: object) -> str:
    return "–" if value is None or value == "" else str(value)


def _times(counted: Mapping[str, Any]) -> str:  # Any: what the database's JSON holds
    return ", ".join(f"{limit}: {number_words(times)}" for limit, times in sorted(counted.items()))
