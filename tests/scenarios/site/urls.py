"""Views of every sort. Those of lane exports write in the journal how long they really run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from tempfile import TemporaryFile
from typing import Any

from django.contrib import admin
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenantlimits.decorators import exempt, limited
from tests.scenarios.site.fleet import awaited_pooled, pooled
from tests.scenarios.site.journal import under_way

STEP_SECONDS = 0.1


def _seconds(request: HttpRequest) -> float:
    return float(request.GET.get("seconds", 0))


def _label(request: HttpRequest) -> str:
    return request.GET.get("label", "")


@exempt
def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


def whoami(request: HttpRequest) -> HttpResponse:
    time.sleep(_seconds(request))
    return HttpResponse("ok")


@limited(lane="uploads", cost=2.5)
def upload(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


@limited(lane="exports")
def work(request: HttpRequest) -> HttpResponse:
    with under_way(_label(request)):
        time.sleep(_seconds(request))
    return HttpResponse("ok")


@limited(lane="exports")
async def awaited_work(request: HttpRequest) -> HttpResponse:
    with under_way(_label(request)):
        await asyncio.sleep(_seconds(request))
    return HttpResponse("ok")


@limited(lane="exports")
def broken(request: HttpRequest) -> HttpResponse:
    with under_way(_label(request)):
        time.sleep(_seconds(request))
        raise RuntimeError("This view is broken on purpose.")


@limited(lane="exports")
async def awaited_broken(request: HttpRequest) -> HttpResponse:
    with under_way(_label(request)):
        await asyncio.sleep(_seconds(request))
        raise RuntimeError("This view is broken on purpose.")


@limited(lane="exports")
def stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(_chunks(request))


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    with under_way(_label(request)):
        for _ in range(round(_seconds(request) / STEP_SECONDS)):
            yield b"chunk"
            time.sleep(STEP_SECONDS)


@limited(lane="exports")
async def awaited_stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(_awaited_chunks(request))


async def _awaited_chunks(request: HttpRequest) -> AsyncIterator[bytes]:
    with under_way(_label(request)):
        for _ in range(round(_seconds(request) / STEP_SECONDS)):
            yield b"chunk"
            await asyncio.sleep(STEP_SECONDS)


@limited(lane="exports")
def file(request: HttpRequest) -> FileResponse:
    """A file far larger than what sockets buffer: it has been sent when the client has read it."""
    content = TemporaryFile()  # noqa: SIM115 - the response closes it
    content.truncate(int(request.GET["mb"]) << 20)
    return FileResponse(content)


class Reads(APIView):
    """DRF authenticates inside the view and asks by its throttle."""

    throttle_lane = "reads"

    def get(self, request: Request, **kwargs: Any) -> Response:
        return Response({})


urlpatterns = [
    path("admin/", admin.site.urls),
    path("health/", health),
    path("whoami/", whoami),
    path("upload/", upload),
    path("sleep/", work),
    path("awaited-sleep/", awaited_work),
    path("broken/", broken),
    path("awaited-broken/", awaited_broken),
    path("stream/", stream),
    path("awaited-stream/", awaited_stream),
    path("file/", file),
    path("reads/", Reads.as_view()),
    path("pooled/", pooled),
    path("awaited-pooled/", awaited_pooled),
]
