"""Two applications side by side, without our middleware and with it, for WSGI and ASGI; the path says which."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import django
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.test import override_settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.benchmarks.site.settings")
django.setup()

from tests.benchmarks.site.views import OURS  # noqa: E402 - views need Django to be set up

_PATHS = tuple(f"/{name}/" for name in OURS)
_bare, _async_bare = WSGIHandler(), ASGIHandler()
# A handler reads its middleware once, when it is made.
with override_settings(MIDDLEWARE=["tenantlimits.middleware.TenantLimitsMiddleware"]):
    _ours, _async_ours = WSGIHandler(), ASGIHandler()


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """For gunicorn, and for requests within this process."""
    handler = _ours if environ["PATH_INFO"] in _PATHS else _bare
    return handler(environ, start_response)


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """For uvicorn."""
    handler = _async_ours if scope["path"] in _PATHS else _async_bare
    await handler(scope, receive, send)
