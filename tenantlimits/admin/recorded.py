"""What all our pages share: changes are made in the user's name, and it is said where the store does not know yet."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib import messages
from django.db import IntegrityError, models, router, transaction
from django.db.models import ProtectedError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from tenantlimits.admin.generics import ModelAdmin
from tenantlimits.changes import acting
from tenantlimits.conf import conf
from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.gate.policies import failed_moves
from tenantlimits.models import Tenant

M = TypeVar("M", bound=models.Model)


class RecordedAdmin(ModelAdmin[M]):
    """An admin whose changes carry who made them and why. What the rows refuse becomes words, never a 500."""

    class Media:
        css = {"all": ["tenantlimits/admin.css"]}

    def get_urls(self) -> list[URLPattern]:
        # ATOMIC_REQUESTS would commit, and so tell the store, only after the answer has been made.
        using = router.db_for_write(self.model)
        urls = super().get_urls()
        for pattern in urls:
            transaction.non_atomic_requests(using=using)(pattern.callback)
        return urls

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        view = super().changeform_view

        def written() -> HttpResponse:
            if request.method != "POST":
                return view(request, object_id, form_url, extra_context)
            with transaction.atomic(using=router.db_for_write(self.model)):
                self.lock_for(request, object_id)
                return view(request, object_id, form_url, extra_context)

        return self.guarded(request, written)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        view = super().delete_view
        return self.guarded(request, lambda: view(request, object_id, extra_context))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        view = super().changelist_view
        return self.guarded(request, lambda: view(request, extra_context))

    def lock_for(self, request: HttpRequest, object_id: str | None) -> None:
        """The transaction's first statement: make other writers wait, where a form has to see what they wrote."""

    def reason_for_log(self, request: HttpRequest) -> str:
        """Why the user changes something, as the form that is sent says."""
        return request.POST.get("why", "")

    def guarded(self, request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
        """The view's answer, or back to where it was asked with what stood in the way."""
        failed = failed_moves.count
        try:
            with acting(request.user, self.reason_for_log(request).strip()):
                response = view()
        except (TenantLimitsError, ProtectedError, IntegrityError) as error:
            if request.method != "POST":
                raise
            # Forms say beforehand what is wrong; here are those who came second.
            messages.error(request, _words(error))
            return HttpResponseRedirect(request.get_full_path())
        if failed_moves.count > failed:
            messages.warning(request, store_was_not_told())
        return response

    def say_in_force(self, request: HttpRequest, tenant: Tenant) -> None:
        """A message that leads to what is in force for the tenant now."""
        text = _("See what is in force for %(tenant)s now.") % {"tenant": tenant}
        messages.info(request, format_html('<a href="{}">{}</a>', self.effective_url(tenant), text))

    def effective_url(self, tenant: Tenant) -> str:
        """The address of the tenant's effective limits."""
        return self.url("tenant_change", tenant.pk) + "#effective-limits"

    def url(self, view: str, *args: object) -> str:
        """The address of one of our pages on the site that this one is on, such as `tenant_change`."""
        return reverse(f"admin:tenantlimits_{view}", args=args, current_app=self.admin_site.name)

    def link(self, text: object, view: str, *args: object, query: str = "") -> SafeString:
        """A link to one of our pages; `query` is encoded and starts with `?`."""
        return format_html('<a href="{}{}">{}</a>', self.url(view, *args), query, text)


class PageAdmin(RecordedAdmin[M]):
    """An admin whose list is its one page. Nothing is added or deleted there, and forms name their reason `reason`."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def reason_for_log(self, request: HttpRequest) -> str:
        return request.POST.get("reason", "")

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return HttpResponseRedirect(self.url(f"{self.opts.model_name}_changelist"))


def store_was_not_told() -> str:
    """What it means that a stamp could not be moved."""
    return _(
        "Saved, but the store could not be told: until it is, processes may go on by the old limits, for at most "
        "%(seconds)g seconds (POLICY_BACKSTOP_SECONDS)."
    ) % {"seconds": conf.POLICY_BACKSTOP_SECONDS}


def _words(error: Exception) -> str:
    if isinstance(error, ProtectedError):
        return str(error.args[0])
    if isinstance(error, IntegrityError):
        return _("Somebody saved the same at the same moment: look at what is there now, and try again if need be.")
    return str(error)
