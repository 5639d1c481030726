"""Tiers: what the plans allow, who is on them, and what is still missing."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Case, Count, IntegerField, OuterRef, ProtectedError, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.forms import ModelForm as DjangoModelForm
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tenantlimits.admin.fields import WhyField, require_why
from tenantlimits.admin.generics import ModelForm
from tenantlimits.admin.limits import LimitFormSet, LimitInline
from tenantlimits.admin.recorded import RecordedAdmin
from tenantlimits.admin.shares import ShareInline
from tenantlimits.admin.steps import shown, tier_steps
from tenantlimits.conf import conf
from tenantlimits.models import Limit, Tenant, Tier
from tenantlimits.wording import number_words


class TierForm(ModelForm[Tier]):
    """A tier; a change of its mode needs a reason."""

    why = WhyField()

    class Meta:
        model = Tier
        fields = ["slug", "name", "description", "mode"]
        widgets = {"description": forms.Textarea(attrs={"rows": 2, "cols": 80})}
        help_texts = {
            "slug": gettext_lazy("Stays as it is once saved: settings, overrides and the API refer to it."),
            "mode": gettext_lazy("Enforce refuses; observe only counts what it would have refused; off does not ask."),
        }

    def clean(self) -> dict[str, Any] | None:  # Any: values of every field's own type
        cleaned = super().clean()
        require_why(self, "mode")
        return cleaned


@admin.register(Tier)
class TierAdmin(RecordedAdmin[Tier]):
    form = TierForm
    list_display = ["slug", "name", "shown_mode", "number_of_limits", "number_of_tenants"]
    list_filter = ["mode"]
    search_fields = ["slug", "name"]
    ordering = ["slug"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tier]:
        by_default = Tenant.objects.filter(tier=None).exclude(key="").count()
        return (
            super()
            .get_queryset(request)
            .annotate(
                limit_count=_count(Limit.objects.all()),
                tenant_count=_count(Tenant.objects.all())
                + Case(When(slug=conf.DEFAULT_TIER, then=Value(by_default)), default=Value(0)),
            )
        )

    def get_inlines(self, request: HttpRequest, obj: Tier | None) -> Any:  # Any: as Django types its lists of inlines
        has_pools = bool(conf.POOLS) or (obj is not None and obj.shares.exists())
        return [LimitInline, ShareInline] if has_pools else [LimitInline]

    def get_fields(self, request: HttpRequest, obj: Tier | None = None) -> Any:  # Any: Django's nested lists
        fields = ["slug", "name", "description", "mode"]
        return [*fields, "why"] if obj is not None and self.has_change_permission(request, obj) else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Tier | None = None) -> list[str]:
        return [] if obj is None else ["slug"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        steps = shown(tier_steps(), request.user, self.admin_site.name)
        return super().changelist_view(request, {**(extra_context or {}), "steps": steps})

    def save_formset(self, request: HttpRequest, form: DjangoModelForm[Tier], formset: Any, change: bool) -> None:
        if isinstance(formset, LimitFormSet):
            formset.save_new_first()
        else:
            super().save_formset(request, form, formset, change)

    def get_deleted_objects(
        self, objs: Iterable[Tier], request: HttpRequest
    ) -> tuple[list[Any], dict[Any, int], set[Any], list[Any]]:  # Any: nested lists of texts, as Django takes them
        protected = [reason for tier in objs for reason in self._used_by(tier)]
        if protected:
            return [], {}, set(), protected
        return super().get_deleted_objects(list(objs), request)

    def _used_by(self, tier: Tier) -> Iterable[str | SafeString]:
        count = tier.tenants.count()
        if count:
            words = ngettext(
                "%(count)s tenant is on tier %(tier)s: move it to another tier first.",
                "%(count)s tenants are on tier %(tier)s: move them to another tier first.",
                count,
            ) % {"count": number_words(count), "tier": tier.slug}
            yield self.link(words, "tenant_changelist", query=f"?tier={tier.slug}")
        try:
            tier.check_delete()
        except ProtectedError as error:
            yield str(error.args[0])

    @admin.display(description=gettext_lazy("mode"), ordering="mode")
    def shown_mode(self, tier: Tier) -> SafeString:
        """The mode; one that refuses nothing stands out."""
        return format_html('<span class="tl-mode tl-mode-{}">{}</span>', tier.mode, tier.get_mode_display())

    @admin.display(description=gettext_lazy("limits"), ordering="limit_count")
    def number_of_limits(self, tier: Tier) -> str | SafeString:
        """How many there are; none stands out."""
        count: int = getattr(tier, "limit_count", 0)
        return number_words(count) if count else format_html('<strong class="tl-loud">{}</strong>', _("none"))

    @admin.display(description=gettext_lazy("tenants"), ordering="tenant_count")
    def number_of_tenants(self, tier: Tier) -> str | SafeString:
        """How many are on it, by their own row or by default."""
        if tier.slug == conf.ANONYMOUS_TIER:
            return _("callers without a tenant")
        count: int = getattr(tier, "tenant_count", 0)
        return self.link(number_words(count), "tenant_changelist", query=f"?tier={tier.slug}")


def _count(rows: QuerySet[Any]) -> Coalesce:  # Any: limits or tenants
    """How many of the rows belong to the tier. A join would multiply the one count by the other."""
    counted = rows.filter(tier=OuterRef("pk")).order_by().values("tier").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counted, output_field=IntegerField()), Value(0))
