"""The switch of the whole site: one page that says what each position does, and asks once more before it is turned."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits.admin.fields import ReasonField
from tenantlimits.admin.recorded import PageAdmin
from tenantlimits.admin.status import when
from tenantlimits.models import Switch
from tenantlimits.models.choices import Mode

EFFECTS: dict[str, Promise] = {
    Mode.ENFORCE: gettext_lazy("Every limit holds as its tier, its tenant and it say: what is above is refused."),
    Mode.OBSERVE: gettext_lazy(
        "Nobody is refused anything. What would have been refused is counted, and nothing else changes."
    ),
    Mode.OFF: gettext_lazy(
        "Nobody is refused anything and no limit is asked: one tenant can crowd out all others until it is turned back."
    ),
}


class SwitchForm(forms.Form):
    """Where to turn it, and why."""

    mode = forms.ChoiceField(label=gettext_lazy("Turn to"), choices=Mode, widget=forms.RadioSelect)
    reason = ReasonField(label=gettext_lazy("Why"), help_text=gettext_lazy("Kept in the change log, with your name."))

    def __init__(self, *args: Any, current: Switch, **kwargs: Any) -> None:  # Any: the arguments of Form, handed on
        super().__init__(*args, **kwargs)
        self.current = current

    def clean_mode(self) -> str:
        """Another position than the one it is in."""
        mode: str = self.cleaned_data["mode"]
        if mode == self.current.mode:
            raise forms.ValidationError(
                _("It is at %(mode)s already.") % {"mode": self.current.get_mode_display()}, code="same"
            )
        return mode


@admin.register(Switch)
class SwitchAdmin(PageAdmin[Switch]):
    """There is one row at most."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        if request.method == "POST" and not self.has_change_permission(request):
            raise PermissionDenied
        return self.guarded(request, lambda: self._page(request, extra_context or {}))

    def _page(self, request: HttpRequest, extra: dict[str, Any]) -> HttpResponse:  # Any: a template's context
        switch = Switch.current()
        form = SwitchForm(request.POST or None, current=switch)
        asked = form.is_valid()
        if asked and "confirmed" in request.POST:
            self._turn(request, switch, form.cleaned_data["mode"], form.cleaned_data["reason"])
            return HttpResponseRedirect(self.url("switch_changelist"))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Switch of the whole site"),
            "opts": Switch._meta,
            "media": self.media,
            "form": form,
            "switch": switch,
            "effect": EFFECTS[switch.mode],
            "choices": [(value, label, EFFECTS[value]) for value, label in Mode.choices],
            "may_change": self.has_change_permission(request),
            "changed": None if switch._state.adding else when(switch.changed_at, timezone.now()),
            "asked": Mode(form.cleaned_data["mode"]) if asked else None,
            "asked_effect": EFFECTS[form.cleaned_data["mode"]] if asked else "",
            **extra,
        }
        return TemplateResponse(request, "admin/tenantlimits/switch/page.html", context)

    def _turn(self, request: HttpRequest, switch: Switch, mode: str, reason: str) -> None:
        with transaction.atomic(using=router.db_for_write(Switch)):
            switch.mode, switch.reason = mode, reason
            switch.save()
            words = _("Turned to %(mode)s: %(reason)s") % {"mode": switch.get_mode_display(), "reason": reason}
            self.log_change(request, switch, words)
        messages.success(
            request, _("It is at %(mode)s now.") % {"mode": switch.get_mode_display()} + f" {EFFECTS[mode]}"
        )
