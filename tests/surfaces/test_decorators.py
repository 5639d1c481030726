"""@limited and @exempt on functions, methods and classes."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory

from tenantlimits.decorators import exempt, limited
from tenantlimits.gate.routes import lanes_named_by, operation_of
from tenantlimits.middleware import TenantLimitsMiddleware
from tenantlimits.models import Limit, Tier
from tests.surfaces import urls
from tests.surfaces.test_middleware import close, used


def test_the_cost_is_charged_in_the_lane_and_one_in_all(acme: Client) -> None:
    """K1: work is counted by cost, and every request once."""
    acme.get("/upload/?mb=12.5")

    assert (used("acme", "uploads-rate"), used("acme", "all-rate")) == (12.5, 1)


def test_a_cost_that_can_never_fit_is_an_answer_of_its_own(acme: Client) -> None:
    """C50, C49: refused, nothing consumed, no promise."""
    response = acme.get("/upload/?mb=21")

    assert response.status_code == 422
    assert response.json()["code"] == "cost_exceeds_limit"
    assert not response.has_header("Retry-After")
    assert (used("acme", "uploads-rate"), used("acme", "all-rate")) == (0, 0)


def test_methods_of_a_class_have_lanes_of_their_own(acme: Client) -> None:
    """C121."""
    acme.get("/methods/")
    acme.post("/methods/")

    assert (used("acme", "uploads-rate"), used("acme", "all-rate")) == (5, 2)


def test_a_decorated_dispatch_is_one_lane_for_all_methods(acme: Client, tier: Tier) -> None:
    """C121."""
    Limit.objects.create(tier=tier, name="exports-rate", lane="exports", amount=9, period_seconds=3600)

    acme.get("/dispatched/")

    assert (used("acme", "exports-rate"), used("acme", "all-rate")) == (1, 1)


def test_a_view_whose_lane_is_hidden_is_still_refused_in_it(tier: Tier, rf: RequestFactory) -> None:
    """C45: a decorator between hides the lane; the operation is asked inside the request, which `all` counts once."""
    hidden = limited(lane="uploads", cost=15)(lambda request: HttpResponse("ok"))

    def view(request: HttpRequest) -> HttpResponse:
        return hidden(request)

    def ask() -> int:
        request = rf.get("/")
        request.user = urls.Member("acme", "ann")
        middleware = TenantLimitsMiddleware(lambda asked: middleware.process_view(asked, view, (), {}) or view(asked))
        return middleware(request).status_code

    assert [ask(), ask()] == [200, 429]
    assert (used("acme", "uploads-rate"), used("acme", "all-rate")) == (15, 2)


async def test_an_async_view_keeps_being_one(acme: Client) -> None:
    """C123."""
    response = await AsyncClient().get("/awaited-export/", headers={"X-Session": "acme/ann"})

    assert response.status_code == 200
    assert urls.ran == ["awaited export"]


def test_settle_corrects_the_cost_of_the_request_under_way(acme: Client) -> None:
    """K6: the difference is given back, or charged."""
    acme.get("/settling/?cost=4")
    given_back = used("acme", "uploads-rate")
    acme.get("/settling/?cost=13")

    assert (given_back, used("acme", "uploads-rate")) == (4, 17)


def test_a_hold_inside_a_view_is_an_operation_of_its_own_that_all_does_not_count(acme: Client) -> None:
    """R7: the slot is held inside the block; a refusal there is the answer of the request."""
    busy = acme.get("/stream/")

    refused = acme.get("/inside/")
    list(busy.streaming_content)
    served = acme.get("/inside/")

    assert (refused.status_code, refused.json()["code"]) == (429, "concurrency_limited")
    assert (served.status_code, urls.ran) == (200, ["inside"])
    assert used("acme", "all-rate") == 3


def test_what_views_say_of_themselves_can_be_listed(site: None) -> None:
    """C45: so that a check finds a lane that no setting names."""
    assert lanes_named_by(urls.Items.as_view({"get": "list", "post": "create"})) == {"reads", "uploads"}
    assert lanes_named_by(urls.Scoped.as_view()) == {"exports"}
    assert lanes_named_by(urls.Methods.as_view()) == {"reads", "uploads"}


def test_exempt_marks_and_changes_nothing_else(rf: RequestFactory) -> None:
    """C118."""

    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    assert exempt(view) is view
    assert operation_of(view, rf.get("/")).exempt


@pytest.mark.parametrize("arguments", [(), ("no request",)])
def test_what_is_no_view_is_told_so(arguments: tuple[Any, ...]) -> None:
    """C45."""
    with pytest.raises(TypeError, match="belongs on a view"):
        limited(lane="uploads")(print)(*arguments)


def test_a_refused_stream_gives_nothing_back_twice(acme: Client) -> None:
    """C70: closing again frees nobody else's slot."""
    first = acme.get("/stream/")
    list(first.streaming_content)
    second = acme.get("/stream/")

    close(first)

    assert used("acme", "exports-cap") == 1
    list(second.streaming_content)
