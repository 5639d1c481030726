"""The usage page: what the caller's tenant may do, does now, and did in the last 24 hours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render, resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from tenantlimits.conf import conf
from tenantlimits.domain.limits import Layer, LimitInForce
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.overview import Overview, overview
from tenantlimits.gate.requests import identified, record_of
from tenantlimits.usage import History, Total, former_amounts, last_hours, lent_tier
from tenantlimits.views.lines import banners_of, lane_words, lines_of
from tenantlimits.wording import instant_words

HOURS = 24


@require_safe
def usage(request: HttpRequest) -> HttpResponse:
    """The page of the tenant that the host's resolver names, whatever the request says; 403 where it names none."""
    try:
        identity = identified(request, record_of(request))
    except PermissionDenied as error:
        return _private(_forbidden(request, _("You are not allowed to see these limits."), str(error)))
    if not identity.tenant:
        return _private(_no_tenant(request))
    seen = overview(identity)
    history = last_hours(identity.tenant, HOURS)
    # Times are the tenant's: its days and months begin there.
    with timezone.override(seen.policy.zone):
        return _private(render(request, "tenantlimits/usage.html", _context(request, identity, seen, history)))


def _private(response: HttpResponse) -> HttpResponse:
    """Nobody but the caller may keep or see it, and going back after logging out shows nothing (C186)."""
    response["Cache-Control"] = "private, no-store"
    patch_vary_headers(response, ("Cookie",))
    return response


def _no_tenant(request: HttpRequest) -> HttpResponse:
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        lead = _("Your login belongs to no organisation, so there are no limits to show.")
        return _forbidden(request, _("No limits to show"), lead)
    lead = _("Log in to see the limits and the use of your organisation.")
    return _forbidden(request, _("Who are you?"), lead, login=_login_address(request))


def _forbidden(request: HttpRequest, title: str, lead: str, login: str = "") -> HttpResponse:
    context = {"title": title, "lead": lead, "login": login}
    return render(request, "tenantlimits/no_usage.html", context, status=403)


def _login_address(request: HttpRequest) -> str:
    """Where the host lets people log in, with the way back here; empty where its setting leads nowhere."""
    try:
        address = resolve_url(settings.LOGIN_URL)
        if urlsplit(address).netloc == "":
            resolve(urlsplit(address).path)
    except (NoReverseMatch, Resolver404):
        return ""
    return redirect_to_login(request.get_full_path(), address).url


def _context(request: HttpRequest, identity: Identity, seen: Overview, history: History) -> Mapping[str, Any]:
    former = former_amounts(seen.policy, seen.as_of)
    known = _known(seen, identity)
    lines = lines_of(seen, former, known)
    lent = lent_tier(seen.policy, seen.as_of)
    return {
        "tenant": seen.policy.tenant_name,
        "tier": seen.policy.tier_name,
        "lent": lent and {"until": instant_words(lent.expires_at), "reason": lent.reason},
        "as_of": seen.as_of,
        "stale": seen.stale,
        "address": request.path,
        "number_of_limits": len(known),
        "lines": lines,
        "banners": banners_of(lines),
        "caps": [line for line in lines if line.is_cap],
        "hours": HOURS,
        "total": history.total,
        "lanes": [_lane(name, figures) for name, figures in history.lanes.items()],
        "spans": history.spans,
        "complete_until": max((span.complete_until for span in history.spans if span.complete_until), default=None),
    }


def _known(seen: Overview, identity: Identity) -> list[LimitInForce]:
    """The limits that count this caller: those of logins and keys where it has one."""
    if not seen.stale:
        return [one.in_force for one in seen.readings]
    there = {Layer.TENANT: True, Layer.USER: identity.user, Layer.CREDENTIAL: identity.credential}
    return [one for one in seen.policy.limits if there[one.limit.layer] is not None]


def _lane(name: str, figures: Total) -> Mapping[str, Any]:
    return {
        "name": lane_words(name),
        "is_known": name in conf.LANES,
        "figures": figures,
        "refused_by": list(figures.refused_by.items()),
        "observed_by": list(figures.observed_by.items()),
    }
