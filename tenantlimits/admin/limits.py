"""The limits of a tier, on the tier's own page."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits import wording
from tenantlimits.admin.fields import Amount, AmountField
from tenantlimits.admin.generics import BaseInlineFormSet, ModelForm, StackedInline
from tenantlimits.admin.parts import PartOfTier
from tenantlimits.conf import conf
from tenantlimits.domain.limits import ALL_LANE, CALENDAR_PERIODS, DAY, MAX_LIMITS_PER_TIER, MINUTE, validated
from tenantlimits.models import Limit, Tier
from tenantlimits.models.choices import Kind


class LimitForm(ModelForm[Limit]):
    """A limit, with its amount and period typed in one field."""

    rate = AmountField(
        label=gettext_lazy("Amount"),
        help_text=gettext_lazy("500/min, 12/3s, 6, unlimited; 0 blocks"),
    )
    lane = forms.ChoiceField(label=gettext_lazy("Lane"), initial=ALL_LANE)

    class Meta:
        model = Limit
        fields = ["name", "lane", "layer", "kind", "burst", "counts", "guarantee", "anchor_day", "mode"]
        help_texts = {
            "burst": gettext_lazy("token bucket; empty: the amount"),
            "guarantee": gettext_lazy("sliding counter: only fuse, since it is approximate"),
            "anchor_day": gettext_lazy("day on which a monthly quota begins"),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: the arguments of ModelForm, handed on
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            period = None if self.instance.amount is None else self.instance.period_seconds
            self.initial["rate"] = Amount(self.instance.amount, period)
        lane = self.fields["lane"]
        assert isinstance(lane, forms.ChoiceField)
        lane.choices = _lanes(self.instance.lane)

    def clean(self) -> dict[str, Any] | None:  # Any: values of every field's own type
        cleaned = super().clean()
        amount = self.cleaned_data.get("rate")
        if isinstance(amount, Amount):
            self.instance.amount = amount.units
            self.instance.period_seconds = self._period(amount, self.cleaned_data.get("kind", ""))
        return cleaned

    def _period(self, amount: Amount, kind: str) -> int | None:
        """The one typed. An unlimited rate keeps its own, or gets a usual one, since an override may need it."""
        if amount.units is not None or kind == Kind.CONCURRENCY:
            return amount.period_seconds
        own = self.instance.period_seconds
        if kind == Kind.CALENDAR_QUOTA:
            return own if own in CALENDAR_PERIODS else DAY
        return own or MINUTE

    def _post_clean(self) -> None:
        # The rules of the whole row would only repeat what a field has said already.
        if not self.errors:
            super()._post_clean()  # type: ignore[misc]  # Django's own hook, which the stubs leave out


def _lanes(own: str) -> list[tuple[str, str]]:
    names = [ALL_LANE, *conf.LANES]
    known = [(name, _("all (every request)") if name == ALL_LANE else name) for name in names]
    return known if own in names else [*known, (own, _("%(lane)s (not in the settings)") % {"lane": own})]


class LimitFormSet(BaseInlineFormSet[Limit, Tier, LimitForm]):
    """The limits of one tier: at least one."""

    def clean(self) -> None:
        super().clean()
        kept = [form for form in self.forms if form not in self.deleted_forms]
        if not any(not form.instance._state.adding or form.has_changed() for form in kept):
            raise ValidationError(
                _(
                    "A tier keeps at least one limit: without any, its tenants would be unlimited by accident. Where "
                    "they shall be unlimited, add one limit whose amount is: unlimited."
                )
            )
        self._check_names(kept)

    def _check_names(self, kept: list[LimitForm]) -> None:
        """Rows that are on no form of this page, and those that are to go, have their names until it is saved."""
        shown = {form.instance.pk for form in kept}
        taken = (
            {limit.name for limit in self.instance.limits.all() if limit.pk not in shown} if self.instance.pk else set()
        )
        for form in kept:
            if form.instance._state.adding and form.cleaned_data.get("name") in taken:
                form.add_error(
                    "name", _("The tier already has a limit of this name: change that one, or save without it.")
                )

    def save_new_first(self) -> None:
        """Write everything; what replaces the last limit is there before that one goes."""
        self.save(commit=False)
        for limit in [*(row for row, _fields in self.changed_objects), *self.new_objects]:
            limit.save()
        for limit in self.deleted_objects:
            limit.delete()


class LimitInline(PartOfTier, StackedInline[Limit, Tier]):
    """The limits of a tier."""

    model = Limit
    form = LimitForm
    formset = LimitFormSet  # type: ignore[assignment]  # the stubs know formsets of ModelForm itself only
    max_num = MAX_LIMITS_PER_TIER
    fields = [
        ("name", "rate", "kind", "burst", "promise"),
        ("lane", "layer", "counts", "guarantee", "anchor_day", "mode"),
    ]
    readonly_fields = ["promise"]

    def get_extra(self, request: HttpRequest, obj: Tier | None = None, **kwargs: Any) -> int:  # Any: as Django types it
        return 0 if obj is not None and obj.limits.exists() else 1

    @admin.display(description=gettext_lazy("amount"))
    def rate(self, limit: Limit) -> str:
        """The amount, for those who may only read it."""
        return wording.amount_words(limit.as_domain())

    @admin.display(description=gettext_lazy("promise"), empty_value="")
    def promise(self, limit: Limit) -> str:
        """What it guarantees, in words; nothing while what is typed means nothing."""
        try:
            return wording.promise(validated(limit.as_domain()))
        except ValueError:
            return _("(shown once it is valid and saved)")
