"""The same trivial view with nothing, with one and four of DRF's throttles, and with all that we do."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenantlimits.decorators import limited
from tenantlimits.throttling import TenantThrottle
from tests.benchmarks.site.throttles import FOUR, EveryMinute


def tenant_of(request: HttpRequest) -> str:
    """Always the same one."""
    tenant: str = request.META.get("HTTP_X_TENANT", "acme")
    return tenant


class Trivial(APIView):
    """Answers one small object."""

    throttle_lane = "reads"

    def get(self, request: Request) -> Response:
        """A small object."""
        return Response({"id": 1, "name": "one"})


async def plain(request: HttpRequest) -> HttpResponse:
    """The same without DRF, from an event loop."""
    return JsonResponse({"id": 1, "name": "one"})


urlpatterns = [
    path("bare/", Trivial.as_view(throttle_classes=[])),
    path("one/", Trivial.as_view(throttle_classes=[EveryMinute])),
    path("four/", Trivial.as_view(throttle_classes=FOUR)),
    path("ours/", Trivial.as_view(throttle_classes=[TenantThrottle])),
    path("async-bare/", plain),
    path("async-ours/", limited(lane="reads")(plain)),
]
OURS = ("ours", "async-ours")
"""The paths that pass our middleware."""
