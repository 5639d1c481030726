"""DRF's throttle: one class, one question to the store, whatever the number of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from rest_framework.exceptions import Throttled
from rest_framework.throttling import BaseThrottle

from tenantlimits.domain.decisions import Decision
from tenantlimits.gate.requests import admit_request, record_of
from tenantlimits.gate.routes import operation_of_drf
from tenantlimits.responses import problem, status_of

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView


class RequestRefused(Throttled):
    """DRF's own exception with our answer: the body of RFC 9457 as its detail, the decision for who handles it."""

    def __init__(self, decision: Decision, request: HttpRequest) -> None:
        super().__init__()
        self.decision = decision
        self.status_code = status_of(decision)
        # Set after DRF's own __init__, which would turn every number of the body into a text.
        self.detail: Any = problem(decision, request)  # Any: the type of DRF's own attribute is narrower
        self.wait = self.detail["retry_after_seconds"]


class TenantThrottle(BaseThrottle):
    """Admits a request once DRF knows who sends it. A view's `throttle_lane` and `throttle_cost` say what it is."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """True, or RequestRefused; DRF's own answer could not name the limit."""
        http: HttpRequest = request._request
        record = record_of(http)
        if record.exempt or record.is_console:
            return True
        operation = operation_of_drf(view, http)
        if operation.exempt:
            record.exempt = True
            return True
        arguments = (request, view) if operation.takes_view else (request,)
        decision = admit_request(http, record, lane=operation.lane_name, cost=operation.units(*arguments))
        if decision.refused:
            raise RequestRefused(decision, http)
        return True
