"""The form of an override: whose, of what, how much, until when and why."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tenantlimits.admin.fields import Amount, AmountField, WhyField
from tenantlimits.admin.generics import ModelForm
from tenantlimits.admin.values import TierLimits, known_targets, own_value
from tenantlimits.conf import conf
from tenantlimits.domain.limits import format_amount
from tenantlimits.models import SHARE_TARGET, Override, Tenant

QUICK_DAYS = (1, 7, 30, 90)


def is_key(text: str) -> bool:
    """Whether a text that a browser sent can be the primary key of a row of ours."""
    return text.isascii() and text.isdecimal() and len(text) <= 18


class TargetInput(forms.TextInput):
    """A text with suggestions: the tenant may still be chosen beside it, so that nothing else can be ruled out."""

    template_name = "admin/tenantlimits/override/target_input.html"
    suggestions: list[tuple[str, str]] = []

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:  # Any: as Django's
        context = super().get_context(name, value, attrs)
        widget = context["widget"]
        widget["suggestions"] = self.suggestions
        widget["attrs"]["list"] = f"{widget['attrs'].get('id', name)}_suggestions"
        return context


class OverrideForm(ModelForm[Override]):
    """An override. Its end is one of a few usual ones or a date; all else that may be wrong, the row itself says."""

    value = AmountField(
        label=gettext_lazy("Amount"),
        required=False,
        help_text=gettext_lazy(
            "The new number for the same period, such as 800; 0 blocks; or: unlimited. Of a share: its slots."
        ),
        invalid=gettext_lazy(
            "Write a whole number of at most 1,000,000,000,000, such as 800; 0 to block; or: unlimited."
        ),
    )
    ends_in = forms.TypedChoiceField(
        label=gettext_lazy("Ends in"), coerce=int, empty_value=None, required=False, widget=forms.RadioSelect
    )
    why = WhyField()

    class Meta:
        model = Override
        fields = ["tenant", "target", "burst", "reason", "note", "starts_at", "expires_at"]
        widgets = {
            "target": TargetInput(attrs={"size": 40, "autocomplete": "off"}),
            "reason": forms.TextInput(attrs={"size": 80}),
            "note": forms.Textarea(attrs={"rows": 3, "cols": 80}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: the arguments of ModelForm, handed on
        super().__init__(*args, **kwargs)
        if "tenant" in self.fields and self.is_bound and not is_key(self.data.get(self.add_prefix("tenant"), "")):
            # Django's autocomplete asks the database for whatever was sent.
            self.data = dict(self.data.items()) | {self.add_prefix("tenant"): ""}
        if not self.instance._state.adding:
            self.initial["value"] = _amount(own_value(self.instance))
        if "expires_at" in self.fields:
            self._offer_ends()
        if "starts_at" in self.fields:
            self._offer_start()
        if "target" in self.fields:
            self._offer_targets()

    def clean(self) -> dict[str, Any] | None:  # Any: values of every field's own type
        cleaned = super().clean()
        now = timezone.now()
        if "starts_at" in self.fields and "starts_at" not in self.errors:
            self.cleaned_data["starts_at"] = self.cleaned_data.get("starts_at") or now
        if "expires_at" not in self.errors and "starts_at" not in self.errors:
            self.cleaned_data["expires_at"] = self._end(now)
        if "value" not in self.errors:
            self._set_value(self.cleaned_data.get("value"))
        return cleaned

    def _end(self, now: datetime) -> datetime | None:
        days: int | None = self.cleaned_data.get("ends_in")
        end: datetime | None = self.cleaned_data.get("expires_at")
        if days is None and end is None:
            self.add_error("expires_at", _("Every override ends: choose when, or write a date and time."))
        if days is None:
            return end
        if end is not None and "expires_at" in self.changed_data:
            self.add_error("ends_in", _("Choose one of these, or write a date and time: not both."))
        start: datetime = self.cleaned_data.get("starts_at", self.instance.starts_at)
        return max(now, start) + timedelta(days=days)

    def _set_value(self, amount: Amount | None) -> None:
        """The override keeps a number or `unlimited`; its period is always the limit's own."""
        if amount is not None and amount.period_seconds is not None:
            self._check_period(amount)
        self.instance.amount = amount.units if amount else None
        self.instance.unlimited = amount is not None and amount.units is None

    def _check_period(self, amount: Amount) -> None:
        target = self.cleaned_data.get("target", self.instance.target)
        if target.startswith(SHARE_TARGET):
            own = format_amount(amount.units or 0, None)
            words = _("A share is a number of slots, without a period: write %(own)s, if that is what you mean.")
            self.add_error("value", ValidationError(words % {"own": own}))
            return
        tenant = self.cleaned_data.get("tenant") or (self.instance.tenant if self.instance.tenant_id else None)
        if tenant is None:
            return
        limit = TierLimits.of([tenant.pk], timezone.now()).limit(Override(tenant=tenant, target=target))
        if limit is not None and limit.period_seconds != amount.period_seconds:
            own = format_amount(amount.units or 0, limit.period_seconds)
            words = _("An override keeps the limit's own period: write %(own)s, if that is what you mean.")
            self.add_error("value", ValidationError(words % {"own": own}))

    def _post_clean(self) -> None:
        # The rules of the whole row would only repeat what a field has said already.
        if not self.errors:
            super()._post_clean()  # type: ignore[misc]  # Django's own hook, which the stubs leave out

    def _offer_ends(self) -> None:
        ends_in = self.fields["ends_in"]
        assert isinstance(ends_in, forms.ChoiceField)
        quick = [days for days in QUICK_DAYS if days <= conf.MAX_OVERRIDE_DAYS]
        words = [(days, ngettext("%(days)s day", "%(days)s days", days) % {"days": days}) for days in quick]
        ends_in.choices = [*words, ("", _("at the date below"))]
        ends_in.initial = ""
        end = self.fields["expires_at"]
        end.required = False
        end.help_text = _("In %(zone)s; at most %(days)s days from now.") % {
            "zone": timezone.get_current_timezone_name(),
            "days": conf.MAX_OVERRIDE_DAYS,
        }

    def _offer_start(self) -> None:
        start = self.fields["starts_at"]
        start.required, start.show_hidden_initial, start.help_text = False, False, _("Empty: now.")
        if self.instance._state.adding:
            start.initial = self.initial["starts_at"] = None

    def _offer_targets(self) -> None:
        tenant, target = self._tenant(), self.fields["target"]
        if tenant is None:
            target.help_text = _(
                "The name of one of the tenant's limits, share:exports for its share of the pool exports, or tier:pro "
                "to lend the tier pro. Should it not be one, saving lists them."
            )
            return
        targets = known_targets(tenant)
        target.help_text = _targets_words(tenant, targets)
        if isinstance(target.widget, TargetInput):
            target.widget.suggestions = targets

    def _tenant(self) -> Tenant | None:
        """The tenant as far as it is known: from the link, or from what was sent."""
        chosen = self.data.get(self.add_prefix("tenant")) if self.is_bound else self.initial.get("tenant")
        pk = str(chosen.pk if isinstance(chosen, Tenant) else chosen)
        return Tenant.objects.select_related("tier").filter(pk=int(pk)).first() if is_key(pk) else None


def _amount(text: str) -> Amount | None:
    if not text:
        return None
    return Amount(None if text == "unlimited" else int(text))


def _targets_words(tenant: Tenant, targets: list[tuple[str, str]]) -> SafeString:
    words = _("What %(tenant)s has:") % {"tenant": tenant}
    named = format_html_join(", ", "<code>{}</code> ({})", targets)
    return format_html("{} {}", words, named or _("no limits yet"))
