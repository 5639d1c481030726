"""What views say of themselves: @limited and @exempt, for functions and methods, sync and async."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase

from tenantlimits.gate.requests import aadmit_request, admit_request, record_of
from tenantlimits.gate.routes import Cost, Operation, View, declare, is_drf
from tenantlimits.responses import refusal

V = TypeVar("V", bound=View)


def limited(*, lane: str | None = None, cost: Cost | None = None) -> Callable[[V], V]:
    """Put a view into a lane, at a cost in units or by a function of the request.

    The middleware admits the request before the view runs. Where something between them hides this decorator, the view
    asks by itself when it is called, so that it never runs unlimited. On a class, set it on the methods or use
    method_decorator; on DRF's @api_view, set it above.
    """
    operation = Operation(lane=lane, cost=cost)
    return lambda view: _declared(view, operation)


def exempt(view: V) -> V:
    """Never limit this view; it costs no call to the store."""
    declare(view, Operation(exempt=True))
    return view


def _declared(view: V, operation: Operation) -> V:
    if is_drf(view):
        # DRF authenticates inside, so nobody out here could know whose request it is: its throttle reads what we say.
        declare(view, operation)
        return view
    wrapper = _awaiting(view, operation) if iscoroutinefunction(view) else _asking(view, operation)
    declare(wrapper, operation)
    return wrapper  # type: ignore[return-value] # functools.wraps keeps what it looks like


def _asking(view: View, operation: Operation) -> View:
    @wraps(view)
    def asked(*args: Any, **kwargs: Any) -> HttpResponseBase:  # Any: the view's own arguments, handed on
        request = _request(args)
        record = record_of(request)
        if not record.exempt:
            decision = admit_request(request, record, lane=operation.lane_name, cost=operation.units(request))
            if decision.refused:
                return refusal(decision, request)
        return cast(HttpResponseBase, view(*args, **kwargs))

    return asked


def _awaiting(view: View, operation: Operation) -> View:
    @wraps(view)
    async def asked(*args: Any, **kwargs: Any) -> HttpResponseBase:  # Any: the view's own arguments, handed on
        request = _request(args)
        record = record_of(request)
        if not record.exempt:
            decision = await aadmit_request(request, record, lane=operation.lane_name, cost=operation.units(request))
            if decision.refused:
                return refusal(decision, request)
        return cast(HttpResponseBase, await view(*args, **kwargs))

    return asked


def _request(args: tuple[Any, ...]) -> HttpRequest:
    """The request of a view's arguments: the first of a function's, the second of a method's."""
    for one in args[:2]:
        if isinstance(one, HttpRequest):
            return one
        if isinstance(inner := getattr(one, "_request", None), HttpRequest):
            return inner
    raise TypeError("@limited belongs on a view: its first argument, or the one after self, is the request.")
