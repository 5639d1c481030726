"""The pools now: who runs and who waits in each, and why. A slot of the fleet's can be freed by hand."""
# ruff: noqa: ARG002 - Django's hooks have arguments that not every one of ours needs

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.translation import gettext as _

from tenantlimits.admin.freeing import free_page, shown_key, tenants_of
from tenantlimits.admin.recorded import PageAdmin
from tenantlimits.domain.snapshots import Held
from tenantlimits.engine.keys import tenant_digest
from tenantlimits.models import Pool, Tenant
from tenantlimits.pools.overview import PoolNow, pools_now
from tenantlimits.pools.words import oldest_words, why_words
from tenantlimits.wording import number_words, wait_words

MOST_ROWS = 200
"""So many tenants of a pool are shown: first those who wait, for the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLine:
    """A tenant in a pool, in words. Empty addresses lead nowhere that the user may go."""

    name: str
    key: str
    url: str
    share: str
    running: str
    borrowed: str
    waiting: str
    oldest: str
    reasons: list[str]
    is_share_too_small: bool
    free_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTable:
    """A pool with its tenants, in words. `left_out` are those for whom there is no room."""

    name: str
    is_shared: bool
    is_known: bool
    scope: str
    capacity: str
    lendable: str
    running: str
    waiting: str
    processes: str
    opens_in: str
    lines: list[TenantLine]
    left_out: str
    is_cut: bool
    too_small: list[str]
    may_free: bool


@admin.register(Pool)
class PoolAdmin(PageAdmin[Pool]):
    """Pools are named by the settings, and have no rows."""

    def get_urls(self) -> list[URLPattern]:
        page = path("free/", self.admin_site.admin_view(self.free_view), name="tenantlimits_pool_free")
        transaction.non_atomic_requests(using=router.db_for_write(Pool))(page.callback)
        return [page, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_or_change_permission(request) or request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": _("Pools"),
            "opts": Pool._meta,
            "media": self.media,
            "as_of": timezone.now(),
            "tables": [self._table(request, one) for one in pools_now().values()],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/tenantlimits/pool/page.html", context)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return HttpResponseRedirect(self.url("pool_changelist"))

    def free_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whether to free a slot, and why; or free it."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        return self.guarded(request, lambda: free_page(self, request))

    def _table(self, request: HttpRequest, pool: PoolNow) -> PoolTable:
        tenants = sorted(pool.tenants.items(), key=lambda pair: _rank(*pair))
        may_free = pool.is_shared and self.has_change_permission(request)
        rows = tenants_of(key for key, _held in tenants[:MOST_ROWS])
        lines = [self._line(request, pool, key, held, rows) for key, held in tenants[:MOST_ROWS]]
        rules, left_out = pool.spec.rules, len(tenants) - MOST_ROWS
        return PoolTable(
            name=pool.spec.name,
            is_shared=pool.is_shared,
            is_known=pool.is_known,
            scope=_("shared by all processes") if pool.is_shared else _("each process has its own"),
            capacity=number_words(rules.capacity),
            lendable=number_words(rules.lent_at_most),
            running=number_words(pool.running),
            waiting=number_words(pool.waiting),
            processes="" if pool.is_shared else number_words(pool.processes),
            opens_in=wait_words(pool.opens_in) if pool.opens_in else "",
            lines=lines,
            left_out=number_words(left_out) if left_out > 0 else "",
            is_cut=pool.is_cut,
            too_small=[line.name for line in lines if line.is_share_too_small],
            may_free=may_free,
        )

    def _line(
        self, request: HttpRequest, pool: PoolNow, key: str, held: Held, rows: Mapping[str, Tenant]
    ) -> TenantLine:
        row = rows.get(key)
        may_look = request.user.has_perm("tenantlimits.view_tenant")
        may_free = pool.is_shared and held.running and self.has_change_permission(request)
        asked = urlencode({"pool": pool.spec.name, "tenant": tenant_digest(key).hex()})
        return TenantLine(
            name=str(row) if row else shown_key(key),
            key=shown_key(key) if row and str(row) != key else "",
            url=self.effective_url(row) if row and may_look else "",
            share=number_words(held.share),
            running=number_words(held.running),
            borrowed=number_words(held.borrowed),
            waiting=number_words(held.waiting),
            oldest=oldest_words(held),
            reasons=[why_words(why) for why in held.reasons],
            is_share_too_small=held.is_share_too_small,
            free_url=f"{self.url('pool_free')}?{asked}" if may_free else "",
        )


def _rank(key: str, held: Held) -> tuple[float, int, str]:
    oldest = held.oldest_wait
    return (0.0 if oldest is None else -max(oldest, 1e-9), -held.running, key)
