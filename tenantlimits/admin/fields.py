"""Form fields: an amount with its period in one text, and why something is changed."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from tenantlimits.domain.errors import InvalidLimit
from tenantlimits.domain.limits import UNLIMITED, format_amount, parse_amount

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MAX_TEXT = 60


@dataclass(frozen=True, slots=True)
class Amount:
    """What an AmountField holds. `units` None is unlimited; then there is no period."""

    units: int | None
    period_seconds: int | None = None

    def __str__(self) -> str:
        return format_amount(UNLIMITED if self.units is None else self.units, self.period_seconds)


class ReasonField(forms.CharField):
    """Why somebody does what a form is for."""

    def __init__(self, *, label: StrOrPromise, help_text: StrOrPromise) -> None:
        widget = forms.TextInput(attrs={"size": 80})
        super().__init__(label=label, max_length=500, widget=widget, help_text=help_text)


class AmountField(forms.CharField):
    """An Amount, typed as "500/min", "12/3s", "6" or "unlimited"."""

    default_error_messages = {
        "required": _("Write amount/period, such as 500/min or 10000/day; a number for a cap; or unlimited.")
    }

    def __init__(
        self, *, label: StrOrPromise, help_text: StrOrPromise, required: bool = True, invalid: StrOrPromise = ""
    ) -> None:
        widget = forms.TextInput(attrs={"size": 14, "autocomplete": "off"})
        super().__init__(label=label, help_text=help_text, required=required, max_length=MAX_TEXT, widget=widget)
        self.validators = []  # they judge texts
        self.invalid = invalid

    def prepare_value(self, value: Any) -> Any:  # Any: as Django types it
        return str(value) if isinstance(value, Amount) else value

    # A CharField's value is a text, says django-stubs; Django itself leaves it to the field.
    def to_python(self, value: Any) -> Amount | None:  # type: ignore[override]  # Any: as above
        text = super().to_python(value)
        if not text:
            return None
        if len(text) > MAX_TEXT:
            raise ValidationError(_("This is too long for an amount: write one such as 500/min."), code="max_length")
        try:
            units, period_seconds = parse_amount(text)
        except InvalidLimit as error:
            raise ValidationError(self.invalid or str(error), code="invalid") from error
        return Amount(None if units == UNLIMITED else int(units), period_seconds)


class WhyField(forms.CharField):
    """Why something is changed, for the change log. It is no change of its own."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Why this change"),
            required=False,
            max_length=500,
            widget=forms.TextInput(attrs={"size": 80}),
            help_text=_("Kept in the change log, with your name."),
        )

    def has_changed(self, initial: Any, data: Any) -> bool:  # Any: as above
        return False


def require_why(form: forms.ModelForm[Any], *fields: str) -> None:  # Any: of whatever model
    """A form error where one of the fields of an existing row differs and nobody says why."""
    changed = [name for name in fields if name in form.changed_data]
    if form.instance.pk is not None and changed and not form.cleaned_data.get("why"):
        labels = ", ".join(str(form.fields[name].label).lower() for name in changed)
        form.add_error("why", _("Say why: it changes what tenants may do (%(fields)s).") % {"fields": labels})
