"""Who asks, by a token that the site has given out; and what was decided, for tests to compare."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from tenantlimits.domain.windows import QuotaState
from tenantlimits.gate.requests import record_of
from tests.scenarios.site.journal import under_way

FAILED_LOGIN = "failed-login"
"""What the journal calls a token that was looked up in vain."""

GetResponse = Callable[[HttpRequest], Any]


class Member:
    """Whoever has a tenant's token."""

    is_authenticated = True

    def __init__(self, tenant: str) -> None:
        self.pk = self.tenant = tenant


class ByToken(BaseAuthentication):
    """The same tokens in DRF, which finds out inside the view that one is wrong."""

    def authenticate(self, request: Request) -> tuple[Member, None] | None:
        if "Authorization" not in request.headers:
            return None
        tenant = tenant_by_token(request._request)
        if tenant is None:
            with under_way(FAILED_LOGIN):
                raise AuthenticationFailed("No such token.")
        return Member(tenant), None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def tenant_by_token(request: HttpRequest) -> str | None:
    """The tenant that the token was given to."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return settings.TOKENS.get(token) if scheme == "Bearer" else None


def tenant_of(request: HttpRequest) -> str | None:
    """TENANT_RESOLVER: what `authenticate` found out."""
    return request.tenant  # type: ignore[attr-defined]


@sync_and_async_middleware
def authenticate(get_response: GetResponse) -> GetResponse:
    """Note on the request whose it is."""

    def known(request: HttpRequest) -> HttpRequest:
        request.tenant = tenant_by_token(request)  # type: ignore[attr-defined]
        return request

    async def awaiting(request: HttpRequest) -> HttpResponseBase:
        return await get_response(known(request))

    return awaiting if iscoroutinefunction(get_response) else lambda request: get_response(known(request))


@sync_and_async_middleware
def tell_decision(get_response: GetResponse) -> GetResponse:
    """Answer X-Pid, and X-Decided-At and X-Resets-At: of the decision and of its calendar quota, us of the store."""

    def told(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response["X-Pid"] = os.getpid()
        decision = record_of(request).decision
        if decision is not None:
            response["X-Decided-At"] = f"{decision.now_us:.0f}"
            ends = [state.end_us for state in decision.states if isinstance(state, QuotaState)]
            response["X-Resets-At"] = f"{max(ends, default=0):.0f}"
        return response

    async def awaiting(request: HttpRequest) -> HttpResponseBase:
        return told(request, await get_response(request))

    return awaiting if iscoroutinefunction(get_response) else lambda request: told(request, get_response(request))
