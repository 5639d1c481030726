"""DRF's throttle: who asks is known only inside the view, and one request is admitted once."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from rest_framework.test import APIRequestFactory

from tenantlimits.models import Limit, Tier
from tests.surfaces import urls
from tests.surfaces.test_middleware import used

ANN = {"Authorization": "Token acme/ann"}


def test_a_drf_view_is_charged_to_the_tenant_of_its_token_once(tier: Tier, client: Client) -> None:
    """C44, K1: middleware and throttle on one view, one charge; the declared cost in its lane, one in `all`."""
    Limit.objects.create(tier=tier, name="reads-rate", lane="reads", amount=50, period_seconds=3600)

    response = client.get("/api/?cost=3", headers=ANN)

    assert response.json() == {"tenant": "acme"}
    assert (used("acme", "all-rate"), used("acme", "reads-rate")) == (1, 3)


def test_a_refused_drf_view_never_runs_and_answers_the_problem(tier: Tier, client: Client) -> None:
    """C41, C174: the body of RFC 9457 by DRF's own exception."""
    for _ in range(5):
        client.get("/api/", headers=ANN)
    urls.ran.clear()

    response = client.get("/api/", headers=ANN)

    assert response.status_code == 429
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    assert int(response["Retry-After"]) == response.json()["retry_after_seconds"] >= 1
    assert (response.json()["limit"]["name"], response.json()["limit"]["lane"]) == ("all-rate", "all")
    assert urls.ran == []


def test_the_headers_stand_once_and_tell_the_tightest_limit(tier: Tier, client: Client) -> None:
    """C44."""
    response = client.get("/api/", headers=ANN)

    assert response.headers["RateLimit"].startswith('"all-rate";r=4')
    assert response.headers["RateLimit-Policy"].count("all-rate") == 1


@pytest.mark.parametrize("tokens", [["Token acme/ann", "Token acme/ben", "Token acme/cyd"]])
def test_more_logins_are_not_more_budgets(tier: Tier, client: Client, tokens: list[str]) -> None:
    """K2, C89: the tenant layer caps the organisation, whoever asks by whatever credential."""
    answers = [client.get("/api/", headers={"Authorization": tokens[n % 3]}).status_code for n in range(9)]

    assert answers == [200] * 5 + [429] * 4


def test_one_person_in_two_tenants_is_two_users(tier: Tier, client: Client) -> None:
    """C88."""
    Limit.objects.create(tier=tier, name="user-rate", lane="reads", layer="user", amount=2, period_seconds=3600)

    in_acme = [client.get("/api/", headers=ANN).status_code for _ in range(3)]
    in_bolt = client.get("/api/", headers={"Authorization": "Token bolt/ann"}).status_code
    colleague = client.get("/api/", headers={"Authorization": "Token acme/ben"}).status_code

    assert (in_acme, in_bolt, colleague) == ([200, 200, 429], 200, 200)


def test_throttle_scope_names_the_lane_where_there_is_no_throttle_lane(tier: Tier, client: Client) -> None:
    """C121."""
    client.get("/scoped/", headers=ANN)

    assert used("acme", "exports-cap") == 0
    assert used("acme", "all-rate") == 1


@pytest.mark.parametrize(
    ("method", "path", "uploads"), [("get", "/items/", 0), ("post", "/items/", 7), ("get", "/items/report/", 0)]
)
def test_actions_of_a_view_set_have_lanes_and_costs_of_their_own(
    tier: Tier, client: Client, method: str, path: str, uploads: float
) -> None:
    """C121."""
    response = getattr(client, method)(path, headers=ANN)

    assert response.status_code == 200
    assert (used("acme", "uploads-rate"), used("acme", "all-rate")) == (uploads, 1)


def test_a_function_view_names_its_lane_above_api_view(tier: Tier, client: Client) -> None:
    """C121."""
    Limit.objects.create(tier=tier, name="exports-rate", lane="exports", amount=9, period_seconds=3600)

    response = client.get("/function/", headers={"X-Session": "acme/ann"})

    assert response.json() == {"tenant": "acme"}
    assert used("acme", "exports-rate") == 1


def test_bad_credentials_are_charged_to_their_address_afterwards(tier: Tier, client: Client) -> None:
    """T3: nothing that reaches the site is free, whatever its status."""
    Tier.objects.filter(slug="anonymous").update(mode="enforce")
    Limit.objects.filter(tier__slug="anonymous").update(amount=1, period_seconds=3600, burst=2)

    answers = [client.get("/api/", headers={"Authorization": "Token broken"}).status_code for _ in range(2)]
    spent = client.get("/plain/").status_code
    valid = client.get("/api/", headers=ANN).status_code

    assert (answers, spent, valid) == ([401, 401], 429, 200)


def test_a_denied_request_is_charged_to_the_tenant_that_is_known(tier: Tier, client: Client) -> None:
    """T3."""
    assert client.get("/private/").status_code == 401
    assert client.get("/dropped/", headers=ANN).status_code == 200

    assert used("acme", "all-rate") == 1


def test_the_throttle_without_the_middleware_says_what_to_add(tier: Tier) -> None:
    """C45: never an unlimited route."""
    request = APIRequestFactory().get("/api/", headers=ANN)

    with pytest.raises(ImproperlyConfigured, match="TenantLimitsMiddleware"):
        urls.Api.as_view()(request)


def test_an_exempt_drf_view_is_free(tier: Tier, client: Client, settings: Any) -> None:
    """C118."""
    settings.TENANTLIMITS = {**settings.TENANTLIMITS, "EXEMPT": lambda request: request.path == "/api/"}

    assert {client.get("/api/", headers=ANN).status_code for _ in range(9)} == {200}
    assert used("acme", "all-rate") == 0
