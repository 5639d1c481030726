"""What a view says of itself: its lane, its cost, or that it is exempt."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.http import HttpRequest

from tenantlimits.conf import conf

View = Callable[..., Any]
Cost = float | Callable[..., float]
"""Units, or a function that answers them for a request."""

_ATTRIBUTE = "tenantlimits_operation"
_METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a view does, as far as limits go. None: the default lane, the lane's own cost.

    A cost that is a function takes the request, or request and view where `takes_view`.
    """

    lane: str | None = None
    cost: Cost | None = None
    exempt: bool = False
    takes_view: bool = False

    @property
    def lane_name(self) -> str:
        """The lane that counts."""
        return self.lane or conf.DEFAULT_LANE

    def units(self, *arguments: object) -> float | None:
        """The cost for a request; the arguments are what a cost that is a function takes."""
        return self.cost(*arguments) if callable(self.cost) else self.cost


_UNDECLARED = Operation()


def declare(view: View, operation: Operation) -> None:
    """Say of a view, a method or an action of one, what it does."""
    setattr(view, _ATTRIBUTE, operation)


def declared(view: object) -> Operation | None:
    """What was said of exactly this view, method or action."""
    found = getattr(view, _ATTRIBUTE, None)
    return found if isinstance(found, Operation) else None


def operation_of(view: View, request: HttpRequest) -> Operation:
    """What a view function does for this request: its method or action says so first, then the view itself."""
    return kind_of(view, request.method or "").operation


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be said of a view and a method, whatever the request."""

    operation: Operation
    is_console: bool
    is_drf: bool


def kind_of(view: View, method: str = "") -> Kind:
    """What can be said of a view; looked up once for each view and method."""
    try:
        return _kind(view, method)
    except TypeError:  # an instance that cannot be hashed serves as a view
        return _kind.__wrapped__(view, method)


@lru_cache(maxsize=4096)
def _kind(view: View, method: str) -> Kind:
    operation = declared(_handler(view, method)) or declared(view) or _UNDECLARED
    return Kind(operation, _is_console(view), hasattr(_class_of(view), "throttle_classes"))


def operation_of_drf(view: object, request: HttpRequest) -> Operation:
    """The same for an instance of a DRF view, whose class may say it as `throttle_lane` and `throttle_cost`.

    DRF's own `throttle_scope` is read where there is no `throttle_lane`. A cost that is a function takes request and
    view, or is a method that takes the request.
    """
    handler = getattr(view, (request.method or "").lower(), None)
    outside = request.resolver_match.func if request.resolver_match else None
    return declared(handler) or declared(outside) or _by_attributes(view) or _UNDECLARED


def lanes_named_by(view: View) -> set[str]:
    """Every lane that the view may be in, for checks."""
    cls = _class_of(view)
    members = [view, *(getattr(cls, name, None) for name in {*_METHODS, *_actions(view).values()})]
    named = {operation.lane for operation in map(declared, members) if operation}
    named.add(_lane_attribute(cls) if _has_our_throttle(view) else None)
    return {lane for lane in named if lane is not None}


def _has_our_throttle(view: View) -> bool:
    """Whether the view's `throttle_scope` names a lane of ours, and not a rate of DRF's own throttle."""
    options: dict[str, Any] = getattr(view, "initkwargs", None) or {}
    throttles = options.get("throttle_classes", getattr(_class_of(view), "throttle_classes", ()))
    return any(base.__module__ == "tenantlimits.throttling" for throttle in throttles for base in throttle.__mro__)


def view_name(view: View) -> str:
    """Dotted name of the view, or of the class behind it, for messages."""
    named = _class_of(view) or view
    return f"{named.__module__}.{getattr(named, '__qualname__', named)}"


def is_drf(view: View) -> bool:
    """Whether DRF authenticates inside the view, so that only its throttle can know who asks."""
    return kind_of(view).is_drf


def is_console(view: View) -> bool:
    """Whether it belongs to a Django admin or to this app's own pages, by what it is and not by its address."""
    return kind_of(view).is_console


def _is_console(view: View) -> bool:
    site = getattr(view, "__self__", None)
    if hasattr(view, "admin_site") or hasattr(view, "model_admin") or hasattr(site, "admin_view"):
        return True
    module: str = getattr(_class_of(view) or view, "__module__", "")
    return module.startswith(("tenantlimits.views", "tenantlimits.api."))


def _class_of(view: View) -> object:
    """The class behind a view function, Django's or DRF's."""
    return getattr(view, "cls", None) or getattr(view, "view_class", None)


def _actions(view: View) -> dict[str, str]:
    """Method to action of a DRF view set: get is `list`, say."""
    return getattr(view, "actions", None) or {}


def _handler(view: View, method: str) -> object:
    """The method of a class that serves the request; Django serves HEAD by get."""
    cls, actions, name = _class_of(view), _actions(view), method.lower()
    found = getattr(cls, actions.get(name, name), None)
    return getattr(cls, actions.get("get", "get"), None) if found is None and name == "head" else found


def _lane_attribute(view: object) -> str | None:
    lane: str | None = getattr(view, "throttle_lane", None) or getattr(view, "throttle_scope", None)
    return lane


def _by_attributes(view: object) -> Operation | None:
    lane, cost = _lane_attribute(view), getattr(view, "throttle_cost", None)
    if lane is None and cost is None:
        return None
    if callable(cost):
        return Operation(lane=lane, cost=_cost_function(view, cost), takes_view=True)
    return _by_values(lane, cost)


@lru_cache(maxsize=1024)
def _by_values(lane: str | None, cost: float | None) -> Operation:
    return Operation(lane=lane, cost=cost, takes_view=True)


def _cost_function(view: object, bound: Callable[..., float]) -> Callable[..., float]:
    """The cost as a function of request and view, though a class binds what is written in its body."""
    written = inspect.getattr_static(view, "throttle_cost")
    if isinstance(written, staticmethod) or not inspect.ismethod(bound):
        return bound
    if next(iter(inspect.signature(written).parameters), "") == "self":
        return lambda request, _: bound(request)
    function: Callable[..., float] = bound.__func__
    return function
