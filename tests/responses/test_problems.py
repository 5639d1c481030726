"""The status and body of every refusal."""

import re
from datetime import timedelta

import pytest
from retryheader import parse_retry_after
from urllib3.util.retry import Retry

from tenantlimits.domain.decisions import Code, Decision
from tenantlimits.domain.limits import ALL_LANE, DAY, MINUTE, Counts
from tenantlimits.responses import answers, problem, refusal, status_of
from tests.engine.builders import NOON, bucket, overridden, quota
from tests.responses.builders import NoPages, asking, body_of, responses

TYPES = "https://iana.org/assignments/http-problem-types#"
ROWS = [
    ("bucket", 429, [TYPES + "quota-exceeded", "rate_limited", "Quota exceeded"]),
    ("log", 429, [TYPES + "quota-exceeded", "rate_limited", "Quota exceeded"]),
    ("quota", 429, [TYPES + "quota-exceeded", "rate_limited", "Quota exceeded"]),
    ("cap", 429, [TYPES + "quota-exceeded", "concurrency_limited", "Quota exceeded"]),
    ("share", 429, [TYPES + "quota-exceeded", "concurrency_limited", "Quota exceeded"]),
    ("queue", 429, [TYPES + "quota-exceeded", "queue_full", "Quota exceeded"]),
    ("waited", 429, [TYPES + "quota-exceeded", "queue_timeout", "Quota exceeded"]),
    ("capacity", 503, [TYPES + "temporary-reduced-capacity", "capacity_full", "Temporarily reduced capacity"]),
    ("fuse", 429, [TYPES + "abnormal-usage-detected", "fuse", "Abnormal usage detected"]),
    ("store", 503, [TYPES + "temporary-reduced-capacity", "store_unavailable", "Temporarily reduced capacity"]),
    ("never", 422, ["urn:tenantlimits:problem:cost-exceeds-limit", "cost_exceeds_limit", "Cost exceeds the limit"]),
    ("block", 403, ["urn:tenantlimits:problem:blocked", "blocked", "Blocked"]),
    ("nobody", 403, ["urn:tenantlimits:problem:blocked", "blocked", "Blocked"]),
]


@pytest.mark.parametrize(("kind", "status", "told"), ROWS, ids=[row[0] for row in ROWS])
def test_every_refusal_has_its_status_type_code_and_title(refused, kind, status, told):
    decision = refused(kind)

    response = refusal(decision, asking())

    body = body_of(response)
    assert (response.status_code, status_of(decision), body["status"]) == (status, status, status)
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    assert [body["type"], body["code"], body["title"]] == told


@pytest.mark.parametrize(
    "kind", ["bucket", "log", "quota", "cap", "share", "queue", "waited", "capacity", "fuse", "store"]
)
def test_who_may_try_again_is_told_when_in_whole_seconds(refused, kind):
    """R2, C166."""
    response = refusal(refused(kind), asking())

    wait = response["Retry-After"]
    assert re.fullmatch(r"[1-9][0-9]*", wait)
    assert parse_retry_after(wait, strict=True) == int(wait)
    assert Retry(retry_after_max=DAY).parse_retry_after(wait) == int(wait)
    assert body_of(response)["retry_after_seconds"] == int(wait)
    assert body_of(response)["retryable"] is True


@pytest.mark.parametrize("kind", ["never", "block", "nobody"])
def test_who_need_not_try_again_is_not_told_to_wait(refused, kind):
    response = refusal(refused(kind), asking())

    assert not response.has_header("Retry-After")
    assert body_of(response)["retry_after_seconds"] is None
    assert body_of(response)["retryable"] is False


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("share", "4 are running in exports, and your share is 4."),
        ("queue", "4 are running in exports and 12 wait: there is no room for more to wait."),
        ("waited", "No slot of exports came free in time: 4 are running, your share is 4."),
        ("capacity", "All slots of exports are in use right now, though your share of 4 is not."),
    ],
)
def test_a_pool_that_refuses_says_what_is_in_use_and_when_to_try_again(refused, kind, words):
    """C4, V4: the share by its name, as in the API."""
    response = refusal(refused(kind), asking())

    body = body_of(response)
    assert body["detail"].startswith(f"{words} Try again in 8 seconds.")
    assert (response["Retry-After"], body["retry_after_seconds"]) == ("8", 8)
    assert body["violated-policies"] == ["exports-share"]
    assert body["limit"] == {
        "name": "exports-share", "pool": "exports", "lane": "exports", "layer": "tenant", "unit": "concurrent_requests",
        "amount": 4, "period_seconds": None, "burst": None, "used": 4, "requested": 1, "source": "tier",
    }  # fmt: skip
    assert response["RateLimit-Policy"] == '"exports-share";q=4;qu="concurrent-requests"'
    assert response["RateLimit"] == '"exports-share";r=0'


def test_every_code_has_a_row():
    assert {told[1] for _, _, told in ROWS} == set(Code)


def exports_spent(caller, clock) -> Decision:
    """The example of the specification: a lane's own bucket is spent, the total is not."""
    acme = caller(
        bucket(100, 1, name="all-rate", lane=ALL_LANE, burst=300),
        bucket(3, MINUTE, name="exports-rate", lane="exports", burst=20),
    )
    clock.step(0.25)
    acme.admit(20, lane="exports")
    clock.step(0.001)
    return acme.admit(1, lane="exports")


def test_a_refusal_answers_the_body_and_fields_of_the_specification(caller, clock, monkeypatch):
    monkeypatch.setattr(answers, "entropy", bytes)

    with responses(upgrade_url="https://app.example.com/limits/requests/new/?limit=exports-rate"):
        response = refusal(exports_spent(caller, clock), asking("application/json"))

    assert response["RateLimit-Policy"] == '"exports-rate";q=20;w=400, "all-rate";q=300;w=3'
    assert response["RateLimit"] == '"exports-rate";r=0;t=20'
    assert response["Retry-After"] == "20"
    assert response["Vary"] == "Accept"
    assert body_of(response) == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": "Limit exports-rate of plan Pro reached: 3 units per minute, burst 20. "
        "Used 20, this request needs 1. Try again in 20 seconds. See http://app.example.com/limits/",
        "instance": "urn:tenantlimits:decision:01M8P570QV" + "0" * 16,
        "violated-policies": ["exports-rate"],
        "code": "rate_limited",
        "lane": "exports",
        "limit": {
            "name": "exports-rate", "lane": "exports", "layer": "tenant", "unit": "cost",
            "amount": 3, "period_seconds": 60, "burst": 20, "used": 20, "requested": 1, "source": "tier",
        },
        "tier": "pro",
        "retry_after_seconds": 20,
        "retryable": True,
        "reset_at": "2026-11-30T12:00:21Z",
        "usage_url": "http://app.example.com/limits/",
        "increase_url": "https://app.example.com/limits/requests/new/?limit=exports-rate",
    }  # fmt: skip


def test_no_link_is_told_that_leads_nowhere(refused, settings):
    settings.ROOT_URLCONF = NoPages

    body = problem(refused("bucket"), asking())

    assert body.keys().isdisjoint({"usage_url", "increase_url", "docs_url"})
    assert "See" not in body["detail"]


def test_links_of_the_settings_are_absolute(refused):
    with responses(upgrade_url="/more/", docs_url="https://docs.example.com/limits"):
        body = problem(refused("bucket"), asking())

    assert body["increase_url"] == "http://app.example.com/more/"
    assert body["docs_url"] == "https://docs.example.com/limits"


def test_the_base_of_the_problem_types_is_a_setting(refused):
    with responses(problem_base="https://example.com/problems#"):
        assert problem(refused("fuse"), asking())["type"] == "https://example.com/problems#abnormal-usage-detected"
        assert problem(refused("block"), asking())["type"] == "urn:tenantlimits:problem:blocked"


def test_a_cost_that_never_fits_names_the_most_that_does(caller):
    acme = caller(bucket(20, name="small"), quota(50, name="day"), bucket(9, name="calls", counts=Counts.REQUESTS))

    body = problem(acme.admit(60), asking())

    assert body["max_cost"] == 20
    assert body["violated-policies"] == ["small", "day"]
    assert acme.admit(body["max_cost"]).allowed


def test_an_allowed_decision_is_no_refusal(caller):
    with pytest.raises(ValueError, match="An allowed decision"):
        status_of(caller(bucket(1)).admit())


def test_numbers_of_the_body_are_exact_to_a_thousandth(caller, clock):
    acme = caller(bucket(60, MINUTE, burst=20))
    acme.admit(20)
    clock.step(0.25)

    limit = problem(acme.admit(0.5), asking())["limit"]

    assert (limit["used"], limit["requested"], limit["amount"]) == (19.75, 0.5, 60)


def test_a_limit_in_force_by_override_says_so(caller, clock):
    raised = overridden(bucket(3), bucket(5), until=NOON + timedelta(days=1))
    acme = caller(raised)
    acme.admit(5)

    assert problem(acme.admit(), asking())["limit"]["source"] == "override"
