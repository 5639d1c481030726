"""Bad credentials are charged to their address, and refused at the door when it is spent; valid ones are served."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
from django.db import connection
from django.test import AsyncClient, Client, override_settings

from tenantlimits.engine.base import Collect, Member
from tenantlimits.engine.keys import Identity, shard_of
from tenantlimits.gate import requests
from tenantlimits.gate.counts import ask
from tenantlimits.gate.door import MOST_REMEMBERED, REMEMBERED_SECONDS, Door
from tenantlimits.gate.store import stores
from tenantlimits.models import Limit, Tier
from tenantlimits.testing import memory_engine
from tests.surfaces import urls
from tests.surfaces.conftest import LANES, SITE, settings_of
from tests.surfaces.test_middleware import used
from tests.surfaces.test_throttling import ANN

BAD = {"Authorization": "Token of-nobody"}
SAM = {"Authorization": "Token /sam"}
BURST = 3


@pytest.fixture
def anonymous(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> Tier:
    """The anonymous tier, enforced: BURST requests, hardly one more while a test runs; a door that forgets nothing."""
    monkeypatch.setattr(requests, "door", Door(clock=lambda: 0.0))
    Tier.objects.filter(slug="anonymous").update(mode="enforce")
    Limit.objects.filter(tier__slug="anonymous").update(amount=1, period_seconds=3600, burst=BURST)
    return Tier.objects.get(slug="anonymous")


@pytest.fixture
def remembering(anonymous: Tier) -> Door:
    """A door that knows BAD: its address is spent, and it was refused once."""
    for _ in range(BURST + 1):
        Client().get("/api/", headers=BAD)
    urls.looked_up.clear()
    return requests.door


def refused_in_usage(address: str = "127.0.0.1") -> int:
    """How many requests of an address were counted as refused."""
    member = Member(shard_of(Identity(tenant="", user=address)), "")
    counted = ask(stores.engine, Collect(member))
    hours = [*counted.closed, counted.running] if counted.running else counted.closed
    return sum(lane.refused for hour in hours for lane in hour.lanes.values())


def test_of_a_thousand_wrong_tokens_few_are_looked_up_and_valid_ones_are_all_served(anonymous: Tier) -> None:
    """C93, T3."""
    client, valid = Client(), Counter[int]()
    bad = []
    for n in range(1000):
        bad.append(client.get("/api/", headers=BAD).status_code)
        if n % 20 == 0:
            valid[client.get("/api/", headers={"Authorization": "Token cedar/cat"}).status_code] += 1

    assert bad == [401] * BURST + [429] * (1000 - BURST)
    assert valid == {200: 50}
    assert urls.looked_up.count("of-nobody") == BURST + 1
    assert refused_in_usage() == 1000 - BURST


def test_ever_new_wrong_tokens_are_refused_and_what_is_remembered_stays_bounded(
    anonymous: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C93: a new token has to be looked up, but 401 is no longer told."""
    monkeypatch.setattr("tenantlimits.gate.door.MOST_REMEMBERED", 20)
    bad = [Client().get("/api/", headers={"Authorization": f"Token {n}"}).status_code for n in range(100)]

    assert bad == [401] * BURST + [429] * (100 - BURST)
    assert len(requests.door) == 20 < MOST_REMEMBERED
    assert Client().get("/api/", headers=ANN).status_code == 200


async def test_the_door_is_the_same_under_asgi(anonymous: Tier) -> None:
    """C93."""
    client = AsyncClient()

    bad = [(await client.get("/api/", headers=BAD)).status_code for _ in range(20)]
    valid = [(await client.get("/api/", headers=ANN)).status_code for _ in range(5)]

    assert bad == [401] * BURST + [429] * (20 - BURST)
    assert valid == [200] * 5
    assert urls.looked_up.count("of-nobody") == BURST + 1


def test_the_door_asks_neither_the_database_nor_the_hosts_authentication(
    remembering: Door, django_assert_num_queries: Any, client: Client
) -> None:
    """T3: refused before the view."""
    connection.run_on_commit.clear()  # as good as committed, so that the policy is kept
    client.get("/plain/")

    with django_assert_num_queries(0):
        answer = client.get("/api/", headers=BAD)

    assert answer.status_code == 429
    assert urls.looked_up == urls.ran == []


@pytest.mark.parametrize("headers", [BAD, {}, {"Authorization": "Token new"}], ids=["door", "none", "afterwards"])
def test_the_refusal_is_that_of_any_request_of_the_address(
    remembering: Door, client: Client, headers: dict[str, str]
) -> None:
    """Same body, same fields, whether it is given before the view, after it, or in place of it."""
    answer, plain = client.get("/private/", headers=headers), client.get("/plain/")

    told = {name: value for name, value in answer.json().items() if name not in ("instance", "limit")}
    assert told == {name: plain.json()[name] for name in told}
    assert (told["tier"], told["lane"], answer.json()["limit"]["name"]) == ("anonymous", "default", "anonymous-rate")
    assert int(answer["Retry-After"]) == told["retry_after_seconds"] >= 1
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["Cache-Control"] == "no-store"
    assert answer["RateLimit"].startswith('"anonymous-rate";r=0')
    assert not answer.has_header("WWW-Authenticate")


def test_a_browser_gets_the_page(remembering: Door, client: Client) -> None:
    html = {"Accept": "text/html, application/json;q=0.1"}

    pages = [client.get("/api/", headers=BAD | html), client.get("/private/", headers=html)]

    assert [(page.status_code, page["Content-Type"]) for page in pages] == [(429, "text/html; charset=utf-8")] * 2


def test_in_observe_nobody_is_refused(anonymous: Tier, client: Client) -> None:
    """R3: the tier as the migration makes it."""
    Tier.objects.filter(slug="anonymous").update(mode="observe")

    assert {client.get("/api/", headers=BAD).status_code for _ in range(20)} == {401}
    assert len(requests.door) == 0


def test_a_limit_that_is_turned_to_observe_opens_the_door(remembering: Door, client: Client) -> None:
    """What is remembered decides nothing by itself."""
    anonymous = Tier.objects.get(slug="anonymous")
    anonymous.mode = "observe"
    anonymous.save()

    assert client.get("/api/", headers=BAD).status_code == 401


def test_the_same_token_from_elsewhere_or_for_something_else_is_looked_up(remembering: Door, client: Client) -> None:
    """What failed in one view may be served in another, and at another address nothing has failed yet."""
    elsewhere = client.get("/api/", headers=BAD, REMOTE_ADDR="203.0.113.5").status_code
    client.get("/private/", headers=BAD)
    client.post("/api/", headers=BAD)
    client.get("/api/", headers={**BAD, "X-Api-Key": "another"})

    assert elsewhere == 401
    assert urls.looked_up == ["of-nobody"] * 4


def test_a_token_that_becomes_valid_is_served_when_its_failure_is_forgotten(
    anonymous: Tier, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C93: also while the address stays spent."""
    now = [0.0]
    monkeypatch.setattr(requests, "door", Door(clock=lambda: now[0]))
    urls.revoked.add("acme/ann")
    bad = [client.get("/api/", headers=ANN).status_code for _ in range(BURST + 2)]
    urls.revoked.clear()
    too_early = client.get("/api/", headers=ANN).status_code
    now[0] += REMEMBERED_SECONDS

    assert (bad[-1], too_early) == (429, 429)
    assert client.get("/api/", headers=ANN).status_code == 200


def test_a_token_that_becomes_valid_is_served_and_forgotten_as_soon_as_its_address_has_room(
    anonymous: Tier, client: Client
) -> None:
    """It is asked for at the door, and then charged to its tenant like any other."""
    urls.revoked.add("acme/ann")
    for _ in range(BURST + 1):
        client.get("/api/", headers=ANN)
    urls.revoked.clear()
    _raise_burst(BURST + 5)

    served = [client.get("/api/", headers=ANN).status_code for _ in range(2)]

    assert served == [200, 200]
    assert len(requests.door) == 0
    assert used("acme", "all-rate") == 2


def test_who_is_let_in_and_fails_again_has_paid_once(remembering: Door, client: Client) -> None:
    """One request, one charge, at the door or afterwards."""
    _raise_burst(BURST + 5)

    answers = [client.get("/api/", headers=BAD).status_code for _ in range(7)]

    assert answers == [401] * 5 + [429] * 2
    assert urls.looked_up == ["of-nobody"] * 5


def test_a_denied_tenant_is_charged_and_refused_by_its_own_limit(anonymous: Tier, client: Client) -> None:
    """T3: 403 while its limit has room, then 429; its credential is valid, so nothing is remembered."""
    denied = [client.get("/denied/", headers=ANN) for _ in range(7)]
    stranger = client.get("/private/").status_code

    assert [answer.status_code for answer in denied] == [403] * 5 + [429] * 2
    assert (denied[-1].json()["tier"], denied[-1].json()["limit"]["name"]) == ("pro", "all-rate")
    assert stranger == 401
    assert len(requests.door) == 0


def test_a_login_without_a_tenant_is_never_taken_for_a_failure(anonymous: Tier, client: Client) -> None:
    """Staff that is denied is charged to its address, but its credential is valid."""
    denied = [client.get("/denied/", headers=SAM).status_code for _ in range(BURST + 2)]

    assert denied == [403] * BURST + [429] * 2
    assert len(requests.door) == 0


@pytest.mark.parametrize(("path", "status"), [("/nowhere/", 404), ("/dropped/", 200)])
def test_what_is_no_denial_keeps_its_answer(remembering: Door, client: Client, path: str, status: int) -> None:
    assert client.get(path).status_code == status


def test_a_denial_by_a_middleware_is_refused_when_its_address_is_spent(anonymous: Tier) -> None:
    """T3: a view never ran, and nobody was asked."""
    middleware = [*SITE["MIDDLEWARE"][:1], "django.middleware.csrf.CsrfViewMiddleware", *SITE["MIDDLEWARE"][1:]]
    client = Client(enforce_csrf_checks=True)
    with override_settings(MIDDLEWARE=middleware):
        answers = [client.post("/plain/", headers=BAD).status_code for _ in range(BURST + 2)]

    assert answers == [403] * BURST + [429] * 2


def test_a_view_that_was_admitted_keeps_its_own_denial(anonymous: Tier, acme: Client) -> None:
    """A 403 of a view is its own answer."""
    for _ in range(BURST + 1):
        Client().get("/private/", headers=BAD)

    assert [acme.get("/special/denied/").status_code for _ in range(2)] == [403, 403]


def test_what_is_free_stays_free(remembering: Door, client: Client, settings: Any) -> None:
    """C118: a preflight, and what the host exempts."""
    preflight = {**BAD, "Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
    settings.TENANTLIMITS = {**settings.TENANTLIMITS, "EXEMPT": lambda request: request.path == "/private/"}

    assert client.options("/api/", headers=preflight).status_code == 401
    assert {client.get("/private/", headers=BAD).status_code for _ in range(9)} == {401}


def test_without_an_anonymous_tier_a_failed_login_is_told_how_to_log_in(anonymous: Tier, key_prefix: str) -> None:
    """A block has nothing to do with how often."""
    with override_settings(TENANTLIMITS=settings_of(key_prefix, ANONYMOUS_TIER=None)):
        answers = [Client().get("/api/", headers=BAD) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [401] * 3
    assert answers[-1]["WWW-Authenticate"] == "Token"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("refuse", [503] * 8), ("local", [401] * BURST + [429] * (8 - BURST)), ("allow", [401] * 8)],
)
def test_without_the_store_the_door_does_what_the_lane_declares(
    anonymous: Tier, key_prefix: str, mode: str, expected: list[int], monkeypatch: Any
) -> None:
    """V6: nothing is a 500."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    dead = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
    lanes = {**LANES, "default": {"on_store_failure": mode}}
    with override_settings(CACHES=dead, TENANTLIMITS=settings_of(key_prefix, LANES=lanes)):
        answers = [Client().get("/api/", headers=BAD).status_code for _ in range(8)]

    assert answers == expected


def test_a_bare_cookie_is_never_taken_for_a_failed_credential(anonymous: Tier, client: Client) -> None:
    """A valid session fails for want of a CSRF token, too."""
    client.cookies["sessionid"] = "of-somebody"
    headers = {"X-CSRFToken": "wrong"}

    assert [client.get("/private/", headers=headers).status_code for _ in range(5)] == [401] * BURST + [429] * 2
    assert len(requests.door) == 0


def test_bad_logins_of_the_admin_are_under_its_own_limit(anonymous: Tier, client: Client) -> None:
    """The admin's limit is constant: the address keeps its requests for the site."""
    login = {"username": "root", "password": "wrong"}
    with override_settings(ROOT_URLCONF="tests.admin.urls"), memory_engine(clock=lambda: 1.8e15):
        answers = [client.post("/admin/login/", login, headers=BAD).status_code for _ in range(65)]

        assert answers == [200] * 60 + [429] * 5
        assert refused_in_usage() == 0
        assert len(requests.door) == 0


def test_no_credential_is_kept_or_logged(anonymous: Tier, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a token nor an address stands anywhere."""
    with caplog.at_level(logging.DEBUG):
        for _ in range(BURST + 3):
            client.get("/api/", headers=BAD)

    assert "of-nobody" not in caplog.text
    assert {len(digest) for digest in requests.door._until} == {16}


def _raise_burst(burst: int) -> None:
    limit = Limit.objects.get(tier__slug="anonymous")
    limit.burst = burst
    limit.save()
