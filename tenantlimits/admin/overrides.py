"""Overrides: temporary changes of one tenant's limits, each with a reason and an end. Revoked, never deleted."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import router, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits.admin.granting import OverrideForm, is_key
from tenantlimits.admin.recorded import RecordedAdmin
from tenantlimits.admin.revoking import revoke_page
from tenantlimits.admin.status import LABELS, StatusFilter, is_over, status, when
from tenantlimits.admin.values import TierLimits, change, own_value
from tenantlimits.models import Override
from tenantlimits.models.tenants import lock


class OverrideList(ChangeList):
    """A page of overrides, each with the tier limits that it changes, read once for all of them."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        tier_limits = TierLimits.of({row.tenant_id for row in rows}, timezone.now())
        for row in rows:
            row.tier_limits = tier_limits
        self.result_list = rows


@admin.register(Override)
class OverrideAdmin(RecordedAdmin[Override]):
    form = OverrideForm
    change_form_template = "admin/tenantlimits/override/change_form.html"
    list_display = ["shown_tenant", "target", "shown_change", "shown_end", "shown_reason"]
    list_display_links = ["target"]
    list_filter = [StatusFilter, ("created_by", admin.RelatedOnlyFieldListFilter)]
    list_select_related = ["tenant__tier", "created_by"]
    search_fields = ["tenant__key", "tenant__name", "target", "reason"]
    search_help_text = gettext_lazy("Tenant, target or reason")
    show_facets = admin.ShowFacets.ALWAYS
    date_hierarchy = "starts_at"
    ordering = ["-starts_at", "-pk"]
    autocomplete_fields = ["tenant"]
    actions = ["revoke_selected"]

    def get_urls(self) -> list[URLPattern]:
        revoke = self.admin_site.admin_view(self.revoke_view)
        page = path("<path:object_id>/revoke/", revoke, name="tenantlimits_override_revoke")
        transaction.non_atomic_requests(using=router.db_for_write(Override))(page.callback)
        return [page, *super().get_urls()]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # Any: as Django types it
        return OverrideList

    def get_fieldsets(self, request: HttpRequest, obj: Override | None = None) -> Any:  # Any: Django's nested lists
        value = ["tenant", "target", "value", "burst"]
        if obj is None:
            end, why = ["ends_in", "expires_at", "starts_at"], ["reason", "note"]
        elif self.has_change_permission(request, obj):
            value = ["shown_status", "shown_change", *value]
            start = "begins" if obj.starts_at <= timezone.now() else "starts_at"
            end, why = ["ends_in", "expires_at", start], ["reason", "note", "made", "why"]
        else:
            value = ["shown_status", "shown_change", *value]
            end, why = ["begins", "ends"], ["reason", "note", "made", "revoked"]
        return [
            (None, {"fields": value}),
            (_("From when and until when"), {"fields": end}),
            (_("Why"), {"fields": why}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Override | None = None) -> list[str]:
        shown = ["shown_status", "shown_change", "begins", "ends", "made", "revoked"]
        return [] if obj is None else ["tenant", "target", *shown]

    def has_change_permission(self, request: HttpRequest, obj: Override | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or not is_over(obj, timezone.now()))

    def has_delete_permission(self, request: HttpRequest, obj: Override | None = None) -> bool:
        return False

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:  # Any: as Django types it
        data = super().get_changeform_initial_data(request)
        if not is_key(str(data.get("tenant", ""))):
            data.pop("tenant", None)
        return data

    def reason_for_log(self, request: HttpRequest) -> str:
        return super().reason_for_log(request) or request.POST.get("reason", "")

    def lock_for(self, request: HttpRequest, object_id: str | None) -> None:
        # So of two identical forms at the same instant the second one is told which override it clashes with.
        which = {"pk": request.POST.get("tenant", "")} if object_id is None else {"overrides": object_id}
        if all(is_key(value) for value in which.values()):
            lock(using=router.db_for_write(Override), **which)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        override = self.get_object(request, object_id)
        context = dict(extra_context or {})
        if override is not None:
            context["may_revoke"] = self.has_change_permission(request, override)
            context["effective_url"] = self.effective_url(override.tenant)
        return super().change_view(request, object_id, form_url, context)

    def response_add(self, request: HttpRequest, obj: Override, post_url_continue: str | None = None) -> HttpResponse:
        response = super().response_add(request, obj, post_url_continue)
        self.say_in_force(request, obj.tenant)
        return response

    def response_change(self, request: HttpRequest, obj: Override) -> HttpResponse:
        response = super().response_change(request, obj)
        self.say_in_force(request, obj.tenant)
        return response

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The page where one override is revoked."""
        override = self.get_object(request, object_id)
        if override is None:
            raise Http404(_("There is no override %(id)s.") % {"id": object_id})
        if not super().has_change_permission(request, override):
            raise PermissionDenied
        return self.guarded(request, lambda: revoke_page(self, request, [override]))

    @admin.action(description=gettext_lazy("Revoke selected overrides"), permissions=["change"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[Override]) -> HttpResponse:
        """The page where several overrides are revoked."""
        return revoke_page(self, request, list(queryset.select_related("tenant__tier", "created_by")))

    @admin.display(description=gettext_lazy("tenant"), ordering="tenant__key")
    def shown_tenant(self, override: Override) -> SafeString:
        """The tenant, leading to what is in force for it; with its key, for names may be the same."""
        tenant = override.tenant
        key = tenant.key if tenant.name else ""
        url = self.effective_url(tenant)
        return format_html('<a href="{}">{}</a> <span class="tl-small">{}</span>', url, tenant, key)

    @admin.display(description=gettext_lazy("tier → override"))
    def shown_change(self, override: Override) -> str | SafeString:
        """What it changes into what; that its target is gone stands out."""
        kept = getattr(override, "tier_limits", None)
        return change(override, kept or TierLimits.of([override.tenant_id], timezone.now()))

    @admin.display(description=gettext_lazy("status"))
    def shown_status(self, override: Override) -> SafeString:
        """Where it is in its life."""
        found = status(override, timezone.now())
        return format_html('<span class="tl-status tl-status-{}">{}</span>', found.value, LABELS[found])

    @admin.display(description=gettext_lazy("status, end"), ordering="expires_at")
    def shown_end(self, override: Override) -> SafeString:
        """Where it is in its life, and when it ends or ended."""
        return format_html("{}: {}", self.shown_status(override), self.ends(override))

    @admin.display(description=gettext_lazy("reason, by"), ordering="reason")
    def shown_reason(self, override: Override) -> SafeString:
        """Why, and who said so."""
        by = override.created_by or _("a script, or a user who is gone")
        return format_html('{} <span class="tl-small">{}</span>', override.reason, by)

    @admin.display(description=gettext_lazy("begins"), ordering="starts_at")
    def begins(self, override: Override) -> SafeString:
        """When it begins or began."""
        return when(override.starts_at, timezone.now())

    @admin.display(description=gettext_lazy("ends"), ordering="expires_at")
    def ends(self, override: Override) -> SafeString:
        """When it ends or ended: by itself, or revoked."""
        return when(override.revoked_at or override.expires_at, timezone.now())

    @admin.display(description=gettext_lazy("amount"))
    def value(self, override: Override) -> str:
        """The amount, for those who may only read it."""
        return own_value(override)

    @admin.display(description=gettext_lazy("created"))
    def made(self, override: Override) -> SafeString:
        """By whom and when."""
        by = override.created_by or _("a script, or a user who is gone")
        return format_html("{}, {}", by, when(override.created_at, timezone.now()))

    @admin.display(description=gettext_lazy("revoked"))
    def revoked(self, override: Override) -> str | SafeString:
        """By whom, when and why."""
        if override.revoked_at is None:
            return _("no")
        by = override.revoked_by or _("a script, or a user who is gone")
        return format_html("{}, {}: {}", by, when(override.revoked_at, timezone.now()), override.revoke_reason)
