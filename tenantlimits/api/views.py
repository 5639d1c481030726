"""The usage API: each caller sees the tenant that it authenticates as, and nothing else.

Outside the tenants' lanes: the middleware asks a small limit of its own, so looking at one's limits costs nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, cast

from django.urls import NoReverseMatch, reverse
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.utils.urls import remove_query_param, replace_query_param
from rest_framework.views import APIView

from tenantlimits.api.data import limits_data, usage_columns, usage_data
from tenantlimits.api.problems import MEDIA_TYPE, BadParameter, as_problem
from tenantlimits.api.queries import UsageQuery
from tenantlimits.api.renderers import CSVRenderer
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.overview import overview
from tenantlimits.gate.requests import identified, record_of
from tenantlimits.usage import ledger_of


class TenantView(APIView):
    """What the pages of the API have in common. Who asks is known by the host's own authentication classes."""

    renderer_classes: tuple[type[BaseRenderer], ...] = (JSONRenderer,)
    permission_classes = ()
    throttle_classes = ()
    versioning_class = None

    def get_authenticators(self) -> list[BaseAuthentication]:
        """The host's, by its settings of now; the class attribute is that of the moment when DRF was imported."""
        classes = cast(Sequence[type[BaseAuthentication]], api_settings.DEFAULT_AUTHENTICATION_CLASSES)
        return [authentication() for authentication in classes]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # Any: as APIView types them
        """403 where the caller belongs to no tenant: nothing that it sends along makes it belong to one."""
        super().initial(request, *args, **kwargs)
        self.identity = self._identity(request)

    def _identity(self, request: Request) -> Identity:
        # After DRF has authenticated: it tells the HttpRequest, which is what the host's resolvers take.
        identity = identified(request._request, record_of(request._request))
        if not identity.tenant:
            raise PermissionDenied(_("Your login or key belongs to no tenant, so there are no limits to show."))
        return identity

    def get_exception_handler(self) -> Any:  # Any: as APIView types it
        """Problem+json, also where the host has a handler of its own."""
        return as_problem

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Nobody but the caller may keep or see the answer (C186)."""
        response = super().finalize_response(request, response, *args, **kwargs)
        if response.exception:
            response.accepted_renderer, response.accepted_media_type = JSONRenderer(), MEDIA_TYPE
            response.content_type = MEDIA_TYPE
        response["Cache-Control"] = "private, no-store"
        patch_vary_headers(response, ("Cookie", "Authorization"))
        return response


class LimitsView(TenantView):
    """GET: every limit in force for the caller's tenant, where its numbers come from, and how much of it is used."""

    def get(self, request: Request) -> Response:
        for name in request.query_params:
            if name != "format":
                raise BadParameter(name, f"There is no parameter {name!r:.80}: this address takes none.")
        data = limits_data(overview(self.identity), self.identity)
        return Response(data | {"links": _links(request)})


class UsageView(TenantView):
    """GET: what the tenant used, by hour or day."""

    renderer_classes = (JSONRenderer, CSVRenderer)

    def get(self, request: Request) -> Response:
        ledger = ledger_of(self.identity.tenant)
        query = UsageQuery.of(request.query_params, ledger)
        history = ledger.history(query.page, query.resolution)
        data = usage_data(
            history, zone=ledger.zone, resolution=query.resolution, lane=query.lane, by_lane=query.by_lane
        )
        following = query.next_cursor and _next(request, query.next_cursor)
        response = Response(data | {"next": following})
        if request.accepted_renderer.format == CSVRenderer.format:
            response.data["columns"] = usage_columns(data)
            response["Content-Disposition"] = 'attachment; filename="usage.csv"'
        if following:
            response["Link"] = f'<{following}>; rel="next"'
        return response


def _links(request: Request) -> dict[str, str]:
    """Where else to look: the page only where the host has it."""
    match = request.resolver_match
    assert match is not None, "DRF's views are found by an address"
    links = {"usage": reverse(f"{match.namespace}:usage")}
    with contextlib.suppress(NoReverseMatch):
        links["page"] = reverse("tenantlimits:usage")
    return {name: request.build_absolute_uri(path) for name, path in links.items()}


def _next(request: Request, cursor: str) -> str:
    address = request.build_absolute_uri()
    for name in ("start", "end"):
        address = remove_query_param(address, name)
    return replace_query_param(address, "cursor", cursor)
