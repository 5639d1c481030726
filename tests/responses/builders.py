"""Requests, settings and refusals without a limit, and the urls of a host."""

import json

from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from django.urls import include, path

from tenantlimits.domain.decisions import Decision
from tests.engine.builders import NOBODY, Clock, plan_of


def page(request: HttpRequest) -> HttpResponse:
    """Stands where the usage page is."""
    return HttpResponse()


urlpatterns = [path("limits/", include(([path("", page, name="usage")], "tenantlimits")))]


class NoPages:
    """The urls of a host that does not include ours."""

    urlpatterns = []


def asking(accept: str | None = None) -> HttpRequest:
    """A request of a client that accepts this."""
    headers = {} if accept is None else {"Accept": accept}
    return RequestFactory().get("/exports/", headers={"Host": "app.example.com", **headers})


def responses(**values) -> override_settings:
    """The setting RESPONSES."""
    return override_settings(
        TENANTLIMITS={"TENANT_RESOLVER": "project.tenancy.tenant_of", "DEFAULT_TIER": "free", "RESPONSES": values}
    )


def body_of(response: HttpResponse) -> dict:
    return json.loads(response.content)


def without_limit(clock: Clock, **values) -> Decision:
    """A refusal in which no limit had a part."""
    plan = plan_of((), now_us=clock(), lane="exports", identity=values.pop("identity", NOBODY))
    return Decision(plan=plan, allowed=False, cost=1000, now_us=clock(), states=(), fits=(), **values)
