"""What the door remembers: for how long, of whom, and how much at most."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory
from django.urls import ResolverMatch

from tenantlimits.gate.door import MOST_REMEMBERED, REMEMBERED_SECONDS, Door
from tenantlimits.gate.door import door as door_of_process


class Clock:
    """Seconds, moved by the test."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def door(clock: Clock, settings: Any) -> Door:
    settings.TENANTLIMITS = {"TENANT_RESOLVER": len, "DEFAULT_TIER": "free"}
    return Door(clock)


def presenting(*, method: str = "GET", route: str = "api/", address: str = "192.0.2.1", **fields: str) -> HttpRequest:
    """A request with such header fields, for a route."""
    fields = {f"HTTP_{name}": value for name, value in fields.items()}
    request = RequestFactory().generic(method, "/", REMOTE_ADDR=address, **fields)
    request.resolver_match = ResolverMatch(lambda: None, (), {}, route=route)
    return request


def test_a_failure_is_known_until_its_time_is_over(door: Door, clock: Clock) -> None:
    """C93: what becomes valid is not kept out for longer."""
    door.remember(presenting(AUTHORIZATION="Bearer a"))
    clock.now += REMEMBERED_SECONDS / 2

    before = door.knows(presenting(AUTHORIZATION="Bearer a"))
    clock.now += REMEMBERED_SECONDS / 2

    assert (before, door.knows(presenting(AUTHORIZATION="Bearer a"))) == (True, False)


@pytest.mark.parametrize(
    "other",
    [
        {"AUTHORIZATION": "Bearer b"},
        {"AUTHORIZATION": "Bearer a", "X_API_KEY": "k"},
        {"AUTHORIZATION": "Bearer a", "X_FORWARDED_CLIENT_CERT": "c"},
        {"AUTHORIZATION": "Bearer a", "COOKIE": "sessionid=s"},
        {"AUTHORIZATION": "Bearer a", "address": "192.0.2.2"},
        {"AUTHORIZATION": "Bearer a", "method": "POST"},
        {"AUTHORIZATION": "Bearer a", "route": "api/<int:pk>/"},
        {"X_AUTHORIZATION": "Bearer a"},
        {},
    ],
)
def test_whoever_presents_anything_else_is_somebody_else(door: Door, other: dict[str, str]) -> None:
    """C93: valid callers behind the address are served, whatever way they have to say who they are."""
    door.remember(presenting(AUTHORIZATION="Bearer a"))

    assert not door.knows(presenting(**other))


def test_what_changes_with_every_request_makes_nobody_somebody_else(door: Door) -> None:
    door.remember(presenting(AUTHORIZATION="Bearer a"))

    again = presenting(AUTHORIZATION="Bearer a", X_REQUEST_ID="7", IDEMPOTENCY_KEY="8", COOKIE="seen=1", DATE="today")
    assert door.knows(again)


@pytest.mark.parametrize(
    "fields", [{}, {"COOKIE": "sessionid=s"}, {"COOKIE": "sessionid=s", "X_CSRFTOKEN": "t"}, {"SEC_FETCH_USER": "?1"}]
)
def test_who_presents_no_credential_is_never_known(door: Door, fields: dict[str, str]) -> None:
    """A valid session fails for want of a CSRF token, too."""
    door.remember(presenting(**fields))

    assert len(door) == 0
    assert not door.knows(presenting(**fields))


def test_a_request_that_met_no_view_is_not_remembered(door: Door) -> None:
    request = presenting(AUTHORIZATION="Bearer a")
    request.resolver_match = None

    door.remember(request)

    assert len(door) == 0


def test_the_oldest_failure_makes_room_for_the_newest(door: Door) -> None:
    """C93: a flood of ever new credentials takes no more memory than that."""
    for n in range(MOST_REMEMBERED + 100):
        door.remember(presenting(AUTHORIZATION=f"Bearer {n}"))

    assert len(door) == MOST_REMEMBERED
    assert not door.knows(presenting(AUTHORIZATION="Bearer 0"))
    assert door.knows(presenting(AUTHORIZATION=f"Bearer {MOST_REMEMBERED + 99}"))


def test_a_valid_credential_is_forgotten_alone(door: Door) -> None:
    for token in "ab":
        door.remember(presenting(AUTHORIZATION=f"Bearer {token}"))

    door.forget(presenting(AUTHORIZATION="Bearer a"))

    assert [door.knows(presenting(AUTHORIZATION=f"Bearer {token}")) for token in "ab"] == [False, True]


@pytest.mark.parametrize("hostile", ["", "Bearer \udcff", "é" * 10_000, "a\x00b"])
def test_any_text_may_be_a_credential(door: Door, hostile: str) -> None:
    """C86."""
    door.remember(presenting(AUTHORIZATION=hostile))

    assert door.knows(presenting(AUTHORIZATION=hostile))


def test_one_field_never_runs_into_the_next(door: Door) -> None:
    """C86."""
    door.remember(presenting(X_API_KEY="a", X_API_TOKEN="b"))

    assert not door.knows(presenting(X_API_KEY="aHTTP_X_API_TOKENb"))


def test_new_settings_forget_what_failed_by_the_old_ones(settings: Any) -> None:
    settings.TENANTLIMITS = {"TENANT_RESOLVER": len, "DEFAULT_TIER": "free"}
    door_of_process.remember(presenting(AUTHORIZATION="Bearer a"))
    settings.TENANTLIMITS = {"TENANT_RESOLVER": len, "DEFAULT_TIER": "pro"}

    assert len(door_of_process) == 0
