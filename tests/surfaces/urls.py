"""Views of every sort, each of which notes in `ran` that it ran."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
    JsonResponse,
    StreamingHttpResponse,
)
from django.template.response import TemplateResponse
from django.urls import include, path
from django.utils.decorators import method_decorator, sync_and_async_middleware
from django.views import View
from rest_framework.authentication import BaseAuthentication
from rest_framework.decorators import action, api_view
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from tenantlimits.decorators import exempt, limited
from tenantlimits.gate import hold, settle
from tenantlimits.tenancy import current_tenant

ran: list[str] = []
closed: list[str] = []
looked_up: list[str] = []
revoked: set[str] = set()
"""Tokens that DRF's authentication looked up, and those that it no longer takes."""


class Member:
    """A user of one tenant, as an authentication makes it."""

    is_authenticated = is_active = True

    def __init__(self, tenant: str, name: str) -> None:
        self.tenant, self.pk = tenant, name


class Token(BaseAuthentication):
    """`Authorization: Token acme/ann`: DRF finds out inside the view who asks. `Token /sam` is staff, of no tenant."""

    def authenticate(self, request: Request) -> tuple[Member, str] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Token":
            return None
        looked_up.append(token)
        tenant, _, name = token.partition("/")
        if not name or token in revoked:
            raise AuthenticationFailed("No such token.")
        return Member(tenant, name), token

    def authenticate_header(self, request: Request) -> str:
        return "Token"


@sync_and_async_middleware
def sign_in(get_response: Any) -> Any:
    """Stands for a session: `X-Session: acme/ann` is whom the site has signed in."""

    def signed(request: HttpRequest) -> HttpRequest:
        tenant, _, name = request.headers.get("X-Session", "").partition("/")
        request.user = Member(tenant, name) if name else AnonymousUser()
        return request

    async def awaiting(request: HttpRequest) -> Any:
        return await get_response(signed(request))

    return awaiting if iscoroutinefunction(get_response) else lambda request: get_response(signed(request))


def tenant_of(request: HttpRequest) -> str | None:
    """The tenant of the authenticated user; what a header says of itself is not asked."""
    return getattr(request.user, "tenant", None) or None


def plain(request: HttpRequest) -> HttpResponse:
    ran.append("plain")
    return HttpResponse(current_tenant() or "nobody")


async def awaited(request: HttpRequest) -> HttpResponse:
    ran.append("awaited")
    await asyncio.sleep(0)
    return HttpResponse(current_tenant() or "nobody")


@limited(lane="uploads", cost=lambda request: float(request.GET.get("mb", 1)))
def upload(request: HttpRequest) -> HttpResponse:
    ran.append("upload")
    return HttpResponse("ok")


@limited(lane="exports")
def export(request: HttpRequest) -> HttpResponse:
    ran.append("export")
    return HttpResponse("ok")


@limited(lane="exports")
async def awaited_export(request: HttpRequest) -> HttpResponse:
    ran.append("awaited export")
    await asyncio.sleep(float(request.GET.get("seconds", 0)))
    return HttpResponse("ok")


@exempt
def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


def _chunks() -> Iterator[bytes]:
    try:
        yield b"one"
        yield b"two"
    finally:
        closed.append("chunks")


async def _awaited_chunks() -> AsyncIterator[bytes]:
    try:
        for chunk in (b"one", b"two"):
            yield chunk
            await asyncio.sleep(0)
    finally:
        closed.append("chunks")


@limited(lane="exports")
def stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(_chunks())


@limited(lane="exports")
async def awaited_stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(_awaited_chunks())


@limited(lane="exports")
def file(request: HttpRequest) -> FileResponse:
    return FileResponse(io.BytesIO(b"file"), filename="export.csv")


@limited(lane="exports")
def special(request: HttpRequest, what: str) -> Any:
    if what in _RAISES:
        raise _RAISES[what]
    return {
        "json": lambda: JsonResponse({"ok": True}),
        "not-modified": HttpResponseNotModified,
        "template": lambda: TemplateResponse(request, "tenantlimits/base.html"),
        "none": lambda: None,
    }[what]()


_RAISES: dict[str, Exception] = {
    "error": RuntimeError("broken"),
    "missing": Http404("missing"),
    "denied": PermissionDenied("denied"),
    "suspicious": SuspiciousOperation("suspicious"),
}


@limited(lane="uploads", cost=10)
def settling(request: HttpRequest) -> HttpResponse:
    settle(cost=float(request.GET["cost"]))
    return HttpResponse("ok")


def inside(request: HttpRequest) -> HttpResponse:
    with hold(lane="exports", cost=1):
        ran.append("inside")
    return HttpResponse("ok")


class Methods(View):
    """GET and POST in lanes of their own."""

    @limited(lane="reads")
    def get(self, request: HttpRequest) -> HttpResponse:
        ran.append("get")
        return HttpResponse("ok")

    @limited(lane="uploads", cost=5)
    def post(self, request: HttpRequest) -> HttpResponse:
        ran.append("post")
        return HttpResponse("ok")


@method_decorator(limited(lane="exports"), name="dispatch")
class Dispatched(View):
    """One lane for all methods."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("ok")


class Api(APIView):
    """A DRF view whose caller the middleware cannot know."""

    authentication_classes = [Token]
    throttle_lane = "reads"

    def throttle_cost(request: Request, view: APIView) -> float:  # noqa: N805 - as the contract has it: (request, view)
        return float(request.GET.get("cost", 1))

    def get(self, request: Request) -> Response:
        ran.append("api")
        return Response({"tenant": current_tenant()})


class Scoped(APIView):
    """DRF's own attribute names the lane."""

    authentication_classes = [Token]
    throttle_scope = "exports"

    def get(self, request: Request) -> Response:
        return Response({})


class Private(APIView):
    """Refuses who is not authenticated before any throttle runs."""

    authentication_classes = [Token]
    permission_classes = [IsAuthenticated]

    def get(self, request: Request) -> Response:
        return Response({})


class Nobody(BasePermission):
    """Lets nobody in."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return False


class Denied(APIView):
    """Denies whoever asks, before any throttle runs."""

    authentication_classes = [Token]
    permission_classes = [Nobody]

    def get(self, request: Request) -> Response:
        return Response({})


class Dropped(APIView):
    """A view that has dropped the throttle."""

    authentication_classes = [Token]
    throttle_classes: list[type] = []

    def get(self, request: Request) -> Response:
        return Response({})


class Items(ViewSet):
    """Actions in lanes of their own."""

    authentication_classes = [Token]

    @limited(lane="reads")
    def list(self, request: Request) -> Response:
        return Response([])

    @limited(lane="uploads", cost=7)
    def create(self, request: Request) -> Response:
        return Response({})

    @limited(lane="exports")
    @action(detail=False)
    def report(self, request: Request) -> Response:
        return Response({})


@limited(lane="exports")
@api_view(["GET"])
def function(request: Request) -> Response:
    return Response({"tenant": current_tenant()})


router = SimpleRouter()
router.register("items", Items, basename="items")

urlpatterns = [
    path("plain/", plain),
    path("awaited/", awaited),
    path("upload/", upload),
    path("export/", export),
    path("awaited-export/", awaited_export),
    path("health/", health),
    path("stream/", stream),
    path("awaited-stream/", awaited_stream),
    path("file/", file),
    path("special/<what>/", special),
    path("settling/", settling),
    path("inside/", inside),
    path("methods/", Methods.as_view()),
    path("dispatched/", Dispatched.as_view()),
    path("api/", Api.as_view()),
    path("scoped/", Scoped.as_view()),
    path("private/", Private.as_view()),
    path("denied/", Denied.as_view()),
    path("dropped/", Dropped.as_view()),
    path("function/", function),
    path("", include(router.urls)),
]
