"""The page on which overrides are revoked: which, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tenantlimits.admin.fields import ReasonField
from tenantlimits.admin.status import is_over, when
from tenantlimits.admin.values import TierLimits, change
from tenantlimits.models import Override
from tenantlimits.policy import revoke_override
from tenantlimits.wording import number_words

if TYPE_CHECKING:
    from tenantlimits.admin.overrides import OverrideAdmin


class RevokeForm(forms.Form):
    """Why."""

    reason = ReasonField(
        label=gettext_lazy("Reason"), help_text=gettext_lazy("Kept with the override and in the change log.")
    )


def revoke_page(admin: OverrideAdmin, request: HttpRequest, overrides: list[Override]) -> HttpResponse:
    """Ask for the reason, or revoke and go back to the list."""
    form = RevokeForm(request.POST if "confirmed" in request.POST else None)
    if form.is_valid():
        _revoke(admin, request, overrides, form.cleaned_data["reason"])
        return HttpResponseRedirect(admin.url("override_changelist"))
    now, tier_limits = timezone.now(), TierLimits.of({one.tenant_id for one in overrides}, timezone.now())
    context: dict[str, Any] = {  # Any: a template's context
        **admin.admin_site.each_context(request),
        "title": _("Revoke overrides"),
        "opts": Override._meta,
        "media": admin.media,
        "form": form,
        "rows": [
            {
                "override": one,
                "change": change(one, tier_limits),
                "ends": when(one.expires_at, now),
                "over": is_over(one, now),
            }
            for one in overrides
        ],
        "any_live": any(not is_over(one, now) for one in overrides),
        "action_checkbox_name": ACTION_CHECKBOX_NAME,
        "cancel_url": admin.url("override_changelist"),
    }
    return TemplateResponse(request, "admin/tenantlimits/override/revoke.html", context)


def _revoke(admin: OverrideAdmin, request: HttpRequest, overrides: list[Override], reason: str) -> None:
    user = request.user if isinstance(request.user, AbstractBaseUser) else None
    now = timezone.now()
    live = [one for one in overrides if not is_over(one, now)]
    for override in live:
        # The row and its entry in the admin's own history come together or not at all.
        with transaction.atomic(using=router.db_for_write(Override)):
            revoked = revoke_override(override, reason=reason, by=user)
            admin.log_change(request, revoked, _("Revoked: %(reason)s") % {"reason": reason})
    count = len(live)
    if count:
        words = ngettext("%(count)s override is revoked.", "%(count)s overrides are revoked.", count)
        messages.success(request, words % {"count": number_words(count)})
    if over := len(overrides) - count:
        words = ngettext("%(count)s was over already.", "%(count)s were over already.", over)
        messages.info(request, words % {"count": number_words(over)})
    for tenant in {override.tenant_id: override.tenant for override in live}.values():
        admin.say_in_force(request, tenant)
