"""The shares of a tier, on the tier's own page."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits import wording
from tenantlimits.admin.generics import BaseInlineFormSet, ModelForm, TabularInline
from tenantlimits.admin.parts import PartOfTier
from tenantlimits.conf import conf
from tenantlimits.models import Share, Tier


class ShareForm(ModelForm[Share]):
    """A share, of one of the pools that the settings name."""

    pool = forms.ChoiceField(label=gettext_lazy("Pool"))

    class Meta:
        model = Share
        fields = ["pool", "slots", "queue"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: the arguments of ModelForm, handed on
        super().__init__(*args, **kwargs)
        pool = self.fields["pool"]
        assert isinstance(pool, forms.ChoiceField)
        pool.choices = _pools(self.instance.pool)

    def _post_clean(self) -> None:
        # The rules of the whole row would only repeat what a field has said already.
        if not self.errors:
            super()._post_clean()  # type: ignore[misc]  # Django's own hook, which the stubs leave out


def _pools(own: str) -> list[tuple[str, str]]:
    known = [
        (name, _("%(pool)s (%(slots)s slots)") % {"pool": name, "slots": wording.number_words(pool.capacity)})
        for name, pool in conf.POOLS.items()
    ]
    if own and own not in conf.POOLS:
        known.append((own, _("%(pool)s (not in the settings)") % {"pool": own}))
    return [("", "---------"), *known]


class ShareFormSet(BaseInlineFormSet[Share, Tier, ShareForm]):
    """The shares of one tier: at most one of each pool."""

    def clean(self) -> None:
        super().clean()
        kept = [form for form in self.forms if form not in self.deleted_forms]
        # Rows that are on no form of this page, and those that are to go, keep their pools until it is saved.
        shown = {form.instance.pk for form in kept}
        rows = self.instance.shares.all() if self.instance.pk else ()
        taken = {row.pool for row in rows if row.pk not in shown}
        for form in kept:
            if form.instance._state.adding and form.cleaned_data.get("pool") in taken:
                form.add_error(
                    "pool", _("The tier already has a share of this pool: change that one, or save without it.")
                )


class ShareInline(PartOfTier, TabularInline[Share, Tier]):
    """The shares of a tier."""

    model = Share
    form = ShareForm
    formset = ShareFormSet  # type: ignore[assignment]  # the stubs know formsets of ModelForm itself only
    fields = ["pool", "slots", "queue", "promise"]
    readonly_fields = ["promise"]

    def get_extra(self, request: HttpRequest, obj: Tier | None = None, **kwargs: Any) -> int:  # Any: as Django types it
        said = set() if obj is None else set(obj.shares.values_list("pool", flat=True))
        return 1 if set(conf.POOLS) - said else 0

    @admin.display(description=gettext_lazy("promise"), empty_value="")
    def promise(self, share: Share) -> str:
        """What it guarantees, in words; nothing while what is typed means nothing."""
        pool = conf.POOLS.get(share.pool)
        if share._state.adding:
            return _("(shown once it is valid and saved)")
        return wording.share_promise(share.slots, pool) if pool else _("no such pool in the settings: it does nothing")
