"""When a request reached this process, for whoever measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

GetResponse = Callable[[HttpRequest], Any]  # Any: a response, or what awaits to one


@sync_and_async_middleware
def stamp_arrival(get_response: GetResponse) -> GetResponse:
    """Answer X-Arrived-At, in seconds since the epoch, which `tenantlimits.testing.flood` reads. Put it first."""
    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> HttpResponseBase:
            arrived_at = time.time()
            return _stamped(await get_response(request), arrived_at)

        return middleware

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        arrived_at = time.time()
        return _stamped(get_response(request), arrived_at)

    return sync_middleware


def _stamped(response: HttpResponseBase, arrived_at: float) -> HttpResponseBase:
    response.headers["X-Arrived-At"] = f"{arrived_at:.6f}"
    return response
