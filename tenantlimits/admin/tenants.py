"""Tenants: on which tier each is, what is in force for it, and how much of that is used."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.forms import ModelForm as DjangoModelForm
from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits.admin.effective import effective
from tenantlimits.admin.fields import WhyField, require_why
from tenantlimits.admin.generics import ModelForm
from tenantlimits.admin.recorded import RecordedAdmin
from tenantlimits.conf import conf
from tenantlimits.models import Tenant, Tier
from tenantlimits.policy import set_tier


class TenantForm(ModelForm[Tenant]):
    """A tenant; another tier or mode needs a reason."""

    why = WhyField()

    class Meta:
        model = Tenant
        fields = ["key", "name", "tier", "time_zone", "mode"]
        help_texts = {
            "key": gettext_lazy("What TENANT_RESOLVER answers for this tenant's requests. Stays as it is once saved."),
            "mode": gettext_lazy("Enforce refuses; observe only counts what it would have refused; off does not ask."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: the arguments of ModelForm, handed on
        super().__init__(*args, **kwargs)
        tier = self.fields.get("tier")
        if isinstance(tier, forms.ModelChoiceField):
            tier.widget.can_delete_related = False
            tier.empty_label = _("the default tier (%(slug)s)") % {"slug": conf.DEFAULT_TIER}

    def clean(self) -> dict[str, Any] | None:  # Any: values of every field's own type
        cleaned = super().clean()
        require_why(self, "tier", "mode")
        return cleaned


class TierFilter(admin.SimpleListFilter):
    """By the tier that a tenant is on, be it by its own row or by default."""

    title = gettext_lazy("tier")
    parameter_name = "tier"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> Iterable[tuple[str, str]]:
        return [(tier.slug, str(tier)) for tier in Tier.objects.all()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Tenant]) -> QuerySet[Tenant]:
        slug = self.value()
        if slug is None:
            return queryset
        found = Q(tier__slug=slug)
        if slug == conf.DEFAULT_TIER:
            found |= Q(tier=None) & ~Q(key="")
        if slug == conf.ANONYMOUS_TIER:
            found |= Q(key="")
        return queryset.filter(found)


@admin.register(Tenant)
class TenantAdmin(RecordedAdmin[Tenant]):
    """No delete: at its next request the tenant would be back, on the default tier and without its history."""

    form = TenantForm
    change_form_template = "admin/tenantlimits/tenant/change_form.html"
    list_display = ["shown_key", "name", "shown_tier", "shown_mode", "shown_zone"]
    list_filter = [TierFilter, "mode"]
    list_select_related = ["tier"]
    search_fields = ["key", "name"]
    search_help_text = gettext_lazy("Key or name")
    ordering = ["key"]
    show_full_result_count = False

    def get_fields(self, request: HttpRequest, obj: Tenant | None = None) -> Any:  # Any: Django's nested lists
        if obj is None:
            return ["key", "name", "tier", "time_zone", "mode"]
        key = "shown_key" if obj.is_anonymous else "key"
        tier = "shown_tier" if obj.is_anonymous else "tier"
        fields = [key, "name", tier, "time_zone", "mode"]
        return [*fields, "why"] if self.has_change_permission(request, obj) else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> list[str]:
        if obj is None:
            return []
        return ["shown_key", "shown_tier"] if obj.is_anonymous else ["key"]

    def has_delete_permission(self, request: HttpRequest, obj: Tenant | None = None) -> bool:
        return False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        tenant = self.get_object(request, object_id)
        context = {
            **(extra_context or {}),
            # Looked up only when it is shown: after a form that was saved it is not.
            "effective": tenant and SimpleLazyObject(lambda: effective(tenant)),
            "may_override": request.user.has_perms(["tenantlimits.add_override"]),
            "may_see_overrides": request.user.has_perms(["tenantlimits.view_override"]),
        }
        return super().change_view(request, object_id, form_url, context)

    def save_model(self, request: HttpRequest, obj: Tenant, form: DjangoModelForm[Tenant], change: bool) -> None:
        if change and "tier" in form.changed_data:
            tier = obj.tier
            set_tier(obj.key, tier.slug if tier else None, reason=form.cleaned_data["why"])
        if not change or form.changed_data != ["tier"]:
            super().save_model(request, obj, form, change)

    @admin.display(description=gettext_lazy("key"), ordering="key")
    def shown_key(self, tenant: Tenant) -> str | SafeString:
        """The key, or what stands where there is none."""
        if tenant.is_anonymous:
            return format_html("<em>{}</em>", _("none: callers without a tenant, counted by address"))
        return tenant.key

    @admin.display(description=gettext_lazy("tier"), ordering="tier__slug")
    def shown_tier(self, tenant: Tenant) -> str:
        """The tenant's tier, and whether it is only the one that the settings name."""
        if tenant.tier is not None:
            return tenant.tier.slug
        if tenant.tier_slug is None:
            return _("none: refused (ANONYMOUS_TIER is None)")
        setting = "ANONYMOUS_TIER" if tenant.is_anonymous else "DEFAULT_TIER"
        return _("%(slug)s (%(setting)s)") % {"slug": tenant.tier_slug, "setting": setting}

    @admin.display(description=gettext_lazy("mode"), ordering="mode")
    def shown_mode(self, tenant: Tenant) -> SafeString:
        """The mode; one that refuses nothing stands out."""
        return format_html('<span class="tl-mode tl-mode-{}">{}</span>', tenant.mode, tenant.get_mode_display())

    @admin.display(description=gettext_lazy("time zone"), ordering="time_zone")
    def shown_zone(self, tenant: Tenant) -> str:
        """The zone in which its days begin."""
        return tenant.time_zone or _("%(zone)s (default)") % {"zone": conf.TIME_ZONE}
