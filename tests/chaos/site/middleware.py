"""How long each request was inside calls to the store, and what it met there. For threads, not for event loops."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tenantlimits.engine.connections import Connections
from tenantlimits.gate.requests import record_of
from tenantlimits.gate.store import stores

VARIABLE = "SITE_STORE_TIMES"
"""Where the longest are written down, a line each: seconds inside calls to the store."""
LONG_SECONDS = 0.02

_exchange = Connections.exchange


class _Met(threading.local):
    """What this thread's request met."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.seconds, self.errors = 0.0, list[str]()


_met = _Met()


def _timed(connections: Connections, commands: Sequence[bytes]) -> list[Any]:
    began = time.monotonic()
    try:
        return _exchange(connections, commands)
    except redis.RedisError as error:
        _met.errors.append(type(error).__name__)
        raise
    finally:
        _met.seconds += time.monotonic() - began


Connections.exchange = _timed  # type: ignore[method-assign]  # it measures, and changes nothing


def tell_store(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Answer X-Degraded, X-Store-Errors, and X-Openings: how often this process has left its store alone so far."""

    def told(request: HttpRequest) -> HttpResponseBase:
        _met.begin()
        response = get_response(request)
        decision = record_of(request).decision
        response["X-Degraded"] = int(decision is not None and decision.degraded)
        response["X-Store-Errors"] = " ".join(_met.errors)
        response["X-Openings"] = stores.health.openings
        # After the closer that gives the slots back, which asks the store, too.
        response._resource_closers.append(_write)  # type: ignore[attr-defined]  # where Django keeps them
        return response

    return told


def _write() -> None:
    if _met.seconds >= LONG_SECONDS:
        file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND)
        os.write(file, f"{_met.seconds:.4f}\n".encode())
        os.close(file)
