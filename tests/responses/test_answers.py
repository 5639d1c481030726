"""What a refusal is told once: how long to wait, until when, and its id; and that it is logged."""

import logging
import re
from datetime import UTC, datetime

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from retryheader import delay_from_headers, parse_ratelimit, parse_ratelimit_policy

from tenantlimits.domain.limits import DAY, MAX_AMOUNT, MINUTE
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.responses import answers, problem, refusal
from tenantlimits.tenancy import tag_log_records
from tests.engine.builders import Caller, Clock, bucket, counter, log, quota
from tests.responses.builders import asking, body_of, responses

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def test_a_long_wait_is_the_true_number_with_the_instant_of_the_reset(caller):
    """C168: a day's quota is spent 11 hours before its end."""
    acme = Caller(MemoryEngine(clock=(clock := Clock(datetime(2026, 11, 30, 13, tzinfo=UTC)))), clock, (quota(3, DAY),))
    acme.admit(3)

    response = refusal(acme.admit(), asking())

    assert response["Retry-After"] == "39600"
    assert body_of(response)["reset_at"] == "2026-12-01T00:00:00Z"
    assert "Try again in 11 hours." in body_of(response)["detail"]


@pytest.mark.parametrize("kind", ["cap", "store", "never", "block"])
def test_no_instant_is_told_where_nobody_knows_it(refused, kind):
    assert "reset_at" not in problem(refused(kind), asking())


def test_a_wait_beyond_all_calendars_is_still_an_answer(caller):
    acme = caller(bucket(1, 366 * DAY, burst=MAX_AMOUNT))
    acme.admit(MAX_AMOUNT)

    response = refusal(acme.admit(MAX_AMOUNT), asking())

    assert re.fullmatch(r"[1-9][0-9]+", response["Retry-After"])
    assert "reset_at" not in body_of(response)
    assert parse_ratelimit_policy(response["RateLimit-Policy"])[0].window == 999_999_999_999_999
    assert parse_ratelimit(response["RateLimit"])[0].remaining == 0


@pytest.mark.parametrize(("drawn", "wait"), [(0.0, 2), (0.5, 7), (0.99, 12)])
def test_jitter_only_adds_and_every_part_tells_the_same(caller, monkeypatch, drawn, wait):
    """C169."""
    monkeypatch.setattr(answers, "chance", lambda: drawn)
    acme = caller(log(1, 2))
    acme.admit()

    with responses(jitter=10):
        response = refusal(acme.admit(), asking())

    assert response["Retry-After"] == str(wait)
    assert body_of(response)["retry_after_seconds"] == wait
    assert f"Try again in {wait} seconds." in body_of(response)["detail"]
    assert body_of(response)["reset_at"] == "2026-11-30T12:00:02Z"
    assert parse_ratelimit(response["RateLimit"])[0].window == 2


@pytest.mark.parametrize(
    "limit", [bucket(7, MINUTE, burst=5), log(5, 3), quota(5, DAY), counter(5, 3)], ids=lambda one: one.kind
)
@given(first=st.floats(0.001, 5), seconds=st.floats(0, 100), cost=st.floats(0.001, 5))
def test_retry_after_is_long_enough_and_never_earlier_than_t(limit, first, seconds, cost):
    """R2, C167."""
    clock = Clock()
    acme = Caller(MemoryEngine(clock=clock), clock, (limit,))
    acme.admit(5 - first if first < 5 else first)
    acme.admit(first)
    clock.step(seconds)
    decision = acme.admit(cost)
    if decision.allowed:
        return

    headers = refusal(decision, asking()).headers

    wait = int(headers["Retry-After"])
    told = parse_ratelimit(headers["RateLimit"])[0]
    assert told.window is not None
    assert told.window <= wait
    assert delay_from_headers(headers) == wait
    clock.step(wait)
    assert acme.admit(cost).allowed


def test_an_id_sorts_by_time_and_says_when():
    """The timestamp of https://github.com/ulid/spec."""
    assert answers.decision_id(1_469_918_176_385_000, bytes(10)) == "01ARYZ6S410000000000000000"
    assert answers.decision_id(0, b"\xff" * 10) == "0000000000" + "Z" * 16
    assert answers.decision_id(1e15, b"\xff" * 10) < answers.decision_id(1e15 + 1000, bytes(10))


def test_a_refusal_has_one_id_whichever_part_of_it_is_asked(refused, caplog):
    caplog.set_level(logging.INFO, "tenantlimits.responses")
    decision = refused("bucket")

    first, second = problem(decision, asking()), body_of(refusal(decision, asking()))

    assert first == second
    assert ULID.fullmatch(first["instance"].removeprefix("urn:tenantlimits:decision:"))
    assert len(caplog.records) == 1
    assert problem(refused("bucket"), asking())["instance"] != first["instance"]


def test_a_refusal_is_logged_with_what_is_needed_to_find_it_and_nothing_secret(caller, caplog):
    tag_log_records()
    caplog.set_level(logging.INFO, "tenantlimits.responses")
    acme = caller(bucket(1, name="reads-minute"))
    acme.admit()
    request = RequestFactory().post("/?token=s3cret", {"body": "s3cret"}, headers={"Authorization": "Bearer s3cret"})
    request.META["HTTP_HOST"] = "app.example.com"

    body = problem(acme.admit(), request)

    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert (record.tenant, record.lane, record.limit, record.code) == ("acme", "reads", "reads-minute", "rate_limited")
    assert body["instance"].endswith(record.decision)
    assert "s3cret" not in str(vars(record))


def test_a_refusal_without_tenant_or_limit_is_logged_too(refused, caplog):
    tag_log_records()
    caplog.set_level(logging.INFO, "tenantlimits.responses")

    problem(refused("nobody"), asking())

    (record,) = caplog.records
    assert (record.tenant, record.lane, record.limit, record.code) == ("", "exports", "", "blocked")
