"""Every request passes here: who asks, is it admitted, and when is its slot free again.

The middleware admits plain views before they run, and waits for the throttle of DRF's, which authenticates inside the
view. A request that ends without anybody having asked is charged afterwards; where there is nothing left to charge, a
denial becomes a refusal, and the same credential is next refused at the door.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.errors import LimitExceeded
from tenantlimits.gate.requests import (
    Record,
    aadmit_request,
    aask_at_door,
    admit_console,
    admit_request,
    ask_at_door,
    charge_afterwards,
    is_exempt,
    is_spent,
    note_failure,
    open_record,
    record_of,
)
from tenantlimits.gate.routes import View, kind_of
from tenantlimits.gate.store import stores
from tenantlimits.responses import add_fields, refusal
from tenantlimits.tenancy import enter, leave

_closing: set[asyncio.Task[None]] = set()
_DENIED = (401, 403)


class TenantLimitsMiddleware:
    """Put it after AuthenticationMiddleware, and after whatever else tells who sends the request."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        conf.validate()
        stores.validate()
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)
            self.process_view: Callable[..., Any] = self._aprocess_view
        else:
            self.process_view = self._process_view

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """The response, in the way that the server calls us."""
        return self._acall(request) if self.is_async else self._call(request)

    def _call(self, request: HttpRequest) -> HttpResponseBase:
        record = open_record(request)
        token = enter(record)
        try:
            response = cast(HttpResponseBase, self.get_response(request))
            return _finished(record, _charged(request, record, response))
        except BaseException:
            record.close()
            raise
        finally:
            leave(token)

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        record = open_record(request)
        token = enter(record)
        try:
            response = cast(HttpResponseBase, await self.get_response(request))
            if record.decision is None and not record.exempt:
                response = await sync_to_async(_charged)(request, record, response)
            return _finished(record, response)
        except BaseException:
            await _close_behind_the_view(record)
            raise
        finally:
            leave(token)

    def _process_view(self, request: HttpRequest, view: View, args: Any, kwargs: Any) -> HttpResponseBase | None:
        record, kind = record_of(request), kind_of(view, request.method or "")
        operation = kind.operation
        record.exempt = operation.exempt or is_exempt(request)
        if record.exempt:
            return None
        if kind.is_console:
            return _refusal(admit_console(request, record), request)
        if kind.is_drf:
            return _refusal(ask_at_door(request, record), request)
        decision = admit_request(request, record, lane=operation.lane_name, cost=operation.units(request))
        return _refusal(decision, request)

    async def _aprocess_view(self, request: HttpRequest, view: View, args: Any, kwargs: Any) -> HttpResponseBase | None:
        record, kind = record_of(request), kind_of(view, request.method or "")
        operation = kind.operation
        if not operation.exempt and kind.is_console:
            return await sync_to_async(self._process_view)(request, view, args, kwargs)
        record.exempt = operation.exempt or await _ais_exempt(request)
        if record.exempt:
            return None
        if kind.is_drf:
            return _refusal(await aask_at_door(request, record), request)
        decision = await aadmit_request(request, record, lane=operation.lane_name, cost=operation.units(request))
        return _refusal(decision, request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponseBase | None:
        """A refusal inside a view, by `hold`, is answered as a refusal of the request."""
        return refusal(error.decision, request) if isinstance(error, LimitExceeded) else None


def _refusal(decision: Decision | None, request: HttpRequest) -> HttpResponseBase | None:
    return refusal(decision, request) if decision is not None and decision.refused else None


async def _ais_exempt(request: HttpRequest) -> bool:
    # The host's EXEMPT may ask the database; without one there is nothing that could block.
    return await sync_to_async(is_exempt)(request) if conf.EXEMPT else is_exempt(request)


def _is_owed(request: HttpRequest, record: Record) -> bool:
    """Whether the request ended without anybody having asked: bad credentials, no such page, no throttle."""
    return record.decision is None and not record.exempt and not is_exempt(request)


def _charged(request: HttpRequest, record: Record, response: HttpResponseBase) -> HttpResponseBase:
    """The answer to a request that may be owed: where nothing is left to charge, a denial becomes our refusal."""
    if not _is_owed(request, record):
        return response
    decision = charge_afterwards(request, record)
    if response.status_code not in _DENIED:
        return response
    note_failure(request, record)
    if not is_spent(decision):
        return response
    refused = refusal(decision, request)
    refused._resource_closers.extend(response._resource_closers)  # type: ignore[attr-defined] # where Django keeps them
    return refused


def _finished(record: Record, response: HttpResponseBase) -> HttpResponseBase:
    if record.decision is not None and not record.is_console:
        add_fields(response, record.decision)
    if record.holds_slots:
        # Django closes a response when its body has been sent, and servers do when the client has gone; whoever drops
        # it unclosed (a middleware outside of us, a server's own error) leaves it to be collected.
        response._resource_closers.append(record.close)  # type: ignore[attr-defined] # where Django keeps its own
        response._tenantlimits = _WhenCollected(record)  # type: ignore[attr-defined] # for it to live as long
    return response


class _WhenCollected:
    """Gives a request's slots back when the response that holds this is collected; a finalizer costs ten times that."""

    __slots__ = ("_record",)

    def __init__(self, record: Record) -> None:
        self._record = record

    def __del__(self) -> None:
        if self._record.holds_slots and not sys.is_finalizing():
            self._record.close()


async def _close_behind_the_view(record: Record) -> None:
    """Give the slots back when a view that runs in a thread is done: a client that has gone does not end it.

    The request's thread takes one thing after another, so what is put there now comes after the view. One turn of the
    loop puts it there; a second cancellation, which may interrupt this wait, comes too late to prevent that.
    """
    if not record.holds_slots:
        return
    task = asyncio.ensure_future(sync_to_async(record.close)())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
