"""The page on which a slot of a fleet's pool is freed: whose, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.db import router, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tenantlimits.admin.fields import ReasonField
from tenantlimits.changes import FREED, line
from tenantlimits.domain.errors import UnknownPool
from tenantlimits.domain.shares import Standing
from tenantlimits.engine.keys import tenant_digest
from tenantlimits.engine.pools import StoreError
from tenantlimits.models import Change, Pool, Tenant
from tenantlimits.pools.fleet import FleetPool
from tenantlimits.pools.overview import fleet_pool

if TYPE_CHECKING:
    from tenantlimits.admin.pools import PoolAdmin


class FreeForm(forms.Form):
    """Why."""

    reason = ReasonField(
        label=gettext_lazy("Reason"), help_text=gettext_lazy("Kept in the change log, with your name.")
    )


class _GoneError(Exception):
    """The tenant has no slot any more."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The tenant whose slot is to be freed, and what it has."""

    pool: FleetPool
    tenant: str
    standing: Standing


def free_page(admin: PoolAdmin, request: HttpRequest) -> HttpResponse:
    """Ask for the reason, or free the tenant's oldest slot and go back to the pools."""
    pool, form = _pool(request), FreeForm(request.POST if request.method == "POST" else None)
    back = HttpResponseRedirect(admin.url("pool_changelist"))
    try:
        asked = _asked(pool, request.GET.get("tenant", ""))
        if form.is_valid():
            _free(admin, request, asked)
            return back
    except _GoneError:
        messages.info(request, _("It has no slot any more: nothing was freed."))
        return back
    except StoreError:
        messages.error(request, _("The store is unreachable: nothing was freed."))
        return back
    return TemplateResponse(request, "admin/tenantlimits/pool/free.html", _context(admin, request, form, asked))


def _pool(request: HttpRequest) -> FleetPool:
    try:
        pool = fleet_pool(request.GET.get("pool", ""))
    except UnknownPool as error:
        raise Http404 from error
    if pool is None:
        raise Http404  # slots of a process are that process's own
    return pool


def _asked(pool: FleetPool, digest: str) -> _Asked:
    """The tenant that is asked for, which has a slot. It goes by its digest: keys may hold whatever they like."""
    for tenant, standing in pool.standings().items():
        if standing.running and tenant_digest(tenant).hex() == digest:
            return _Asked(pool, tenant, standing)
    raise _GoneError


def _context(
    admin: PoolAdmin, request: HttpRequest, form: FreeForm, asked: _Asked
) -> dict[str, Any]:  # Any: a template's context
    return {
        **admin.admin_site.each_context(request),
        "title": _("Free a slot"),
        "opts": Pool._meta,
        "media": admin.media,
        "form": form,
        "pool": asked.pool.name,
        "tenant": shown_key(asked.tenant),
        "standing": asked.standing,
        "cancel_url": admin.url("pool_changelist"),
    }


def _free(admin: PoolAdmin, request: HttpRequest, asked: _Asked) -> None:
    """Free it and write it down, or neither: where it cannot be written down, nothing has been freed yet."""
    pool, tenant = asked.pool, asked.tenant
    words = {"tenant": shown_key(tenant), "pool": pool.name}
    with transaction.atomic(using=router.db_for_write(Change)):
        row = tenants_of([tenant]).get(tenant)
        logged = line(FREED, Pool(pool=pool.name), changes={"tenant": [None, shown_key(tenant)]})
        Change.objects.create(**logged | {"tenant_id": row and row.pk})
        admin.log_change(request, Pool(pool=pool.name), _("Freed a slot of %(tenant)s in %(pool)s") % words)
        if not pool.free(tenant):
            raise _GoneError
    messages.success(
        request, _("The oldest slot of %(tenant)s in %(pool)s is free. Its operation runs on without it.") % words
    )


def shown_key(tenant: str) -> str:
    """A tenant's key as a page and a database can hold it, whatever the store has."""
    return tenant.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0") or _("callers without a tenant")


def tenants_of(keys: Iterable[str]) -> Mapping[str, Tenant]:
    """The rows of tenants, of those that have one, by key."""
    return Tenant.objects.in_bulk([key for key in keys if key in ("", shown_key(key))], field_name="key")
