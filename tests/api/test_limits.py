"""GET api/limits/: the shape of http.md, and nothing of another tenant."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from tenantlimits.engine.base import Engine, Pending
from tenantlimits.gate import admit, hold
from tenantlimits.gate.store import engine_replaced
from tenantlimits.models import Limit, Share, Tenant, Tier
from tenantlimits.policy import grant_override, set_tier
from tests import console
from tests.engine.builders import Clock, redis_engine

LIMITS = "/api/limits/"


def limit(answer: Any, name: str) -> dict[str, Any]:
    [found] = [one for one in answer.json()["limits"] if one["name"] == name]
    return found


def override(target: str, **values: Any) -> None:
    end = timezone.now() + timedelta(days=14)
    grant_override("acme", target, reason="Black Friday import", note="Secret", expires_at=end, **values)


def test_the_answer_says_what_is_in_force_and_how_much_of_it_is_used(
    store: Engine, client_of: Callable[[str], Client]
) -> None:
    """V2; the fields and values of http.md."""
    override("reads-minute", amount=600)
    admit(lane="reads", cost=492, tenant="acme")

    answer = client_of("ann").get(LIMITS)

    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"
    body = answer.json()
    assert {name: value for name, value in body.items() if name != "limits"} == {
        "as_of": "2026-11-30T12:00:00Z",
        "stale": False,
        "status": "near",
        "tenant": {"key": "acme", "name": "Acme"},
        "tier": {"slug": "pro", "name": "Pro", "override": None},
        "lanes": [
            {"name": "default", "cost": 1, "unit": "cost"},
            {"name": "reads", "cost": 1, "unit": "cost"},
            {"name": "uploads", "cost": 5, "unit": "cost"},
            {"name": "exports", "cost": 1, "unit": "cost"},
        ],
        "links": {"page": "http://testserver/limits/", "usage": "http://testserver/api/limits/usage/"},
    }
    assert limit(answer, "reads-minute") == {
        "name": "reads-minute",
        "kind": "token_bucket",
        "lane": "reads",
        "layer": "tenant",
        "subject": "acme",
        "unit": "cost",
        "period_seconds": 60,
        "amount": 600,
        "unlimited": False,
        "burst": 600,
        "used": 492,
        "remaining": 108,
        "utilization": 0.82,
        "available_after_seconds": 0,
        "full_after_seconds": 50,
        "state": "near",
        "guarantee": "contract",
        "promise": "at most 1,200 in any minute",
        "mode": "enforce",
        "source": "override",
        "tier_amount": 500,
        "changed": {"at": "2026-11-30T12:00:00Z", "from_amount": 500},
        "override": {
            "id": limit(answer, "reads-minute")["override"]["id"],
            "amount": 600,
            "reason": "Black Friday import",
            "starts_at": "2026-11-30T12:00:00Z",
            "expires_at": "2026-12-14T12:00:00Z",
        },
    }


def test_every_limit_of_the_caller_is_there_with_its_unit_and_subject(
    store: Engine, client_of: Callable[[str], Client], users: dict[str, Any]
) -> None:
    with hold(lane="exports", tenant="acme"):
        answer = client_of("ann").get(LIMITS)

    units = {one["name"]: (one["unit"], one["subject"]) for one in answer.json()["limits"]}
    assert units == {
        "all-rate": ("requests", "acme"),
        "reads-minute": ("cost", "acme"),
        "reads-day": ("cost", "acme"),
        "uploads-rate": ("cost", "acme"),
        "exports-cap": ("concurrent_requests", "acme"),
        "exports-user": ("cost", str(users["ann"].pk)),
    }
    cap = limit(answer, "exports-cap")
    assert (cap["used"], cap["remaining"], cap["utilization"]) == (1, 1, 0.5)
    assert (cap["period_seconds"], cap["burst"], cap["available_after_seconds"]) == (None, None, None)


def test_zero_is_blocked_and_unlimited_is_a_word_of_its_own(store: Engine, client_of: Callable[[str], Client]) -> None:
    """C188."""
    override("uploads-rate", amount=0)
    override("reads-minute", unlimited=True)

    answer = client_of("ann").get(LIMITS)

    blocked, free = limit(answer, "uploads-rate"), limit(answer, "reads-minute")
    assert (blocked["amount"], blocked["unlimited"], blocked["state"]) == (0, False, "blocked")
    assert (blocked["utilization"], blocked["available_after_seconds"]) == (None, None)
    assert (free["amount"], free["unlimited"], free["remaining"], free["utilization"]) == (None, True, None, None)
    assert answer.json()["status"] == "blocked"


def test_at_the_moment_of_a_refusal_the_answer_says_so(store: Engine, client_of: Callable[[str], Client]) -> None:
    """C135."""
    while admit(lane="uploads", cost=5, tenant="acme").allowed:
        pass

    found = limit(client_of("ann").get(LIMITS), "uploads-rate")

    assert (found["remaining"], found["state"], found["available_after_seconds"]) == (0, "limited", 2)


def test_a_limit_in_mode_observe_says_so_and_is_never_limited(
    store: Engine, client_of: Callable[[str], Client]
) -> None:
    Limit.objects.filter(name="uploads-rate").update(mode="observe")
    admit(lane="uploads", cost=40, tenant="acme")

    found = limit(client_of("ann").get(LIMITS), "uploads-rate")

    assert (found["mode"], found["state"]) == ("observe", "near")


def test_a_downgrade_within_the_period_is_explained(
    store: Engine, client_of: Callable[[str], Client], clock: Clock
) -> None:
    """C34."""
    small = Tier.objects.create(slug="small", name="Small")
    day = {"period_seconds": 86_400, "kind": "calendar_quota"}
    Limit.objects.create(tier=small, name="reads-day", lane="reads", amount=2500, **day)
    Limit.objects.filter(name="reads-minute").update(amount=10_000)
    admit(lane="reads", cost=8800, tenant="acme")
    set_tier("acme", "small", reason="subscription 4711 changed")

    found = limit(client_of("ann").get(LIMITS), "reads-day")

    assert (found["used"], found["amount"], found["remaining"], found["utilization"]) == (8800, 2500, 0, 3.52)
    assert found["changed"] == {"at": "2026-11-30T12:00:00Z", "from_amount": 10_000}
    assert found["full_after_seconds"] == 12 * 3600


def test_a_lent_tier_names_its_override(store: Engine, client_of: Callable[[str], Client]) -> None:
    large = Tier.objects.create(slug="large", name="Large")
    Limit.objects.create(tier=large, name="all-rate", amount=100, period_seconds=1)
    override("tier:large")

    answer = client_of("ann").get(LIMITS)

    tier = answer.json()["tier"]
    assert (tier["slug"], tier["override"]["reason"]) == ("large", "Black Friday import")
    assert "Secret" not in answer.content.decode()


def test_a_tier_without_a_row_is_no_tier(store: Engine, client_of: Callable[[str], Client]) -> None:
    Tenant.objects.filter(key="acme").update(tier=None)
    with override_settings(TENANTLIMITS=console.settings_of(DEFAULT_TIER="none")), engine_replaced(store):
        body = client_of("ann").get(LIMITS).json()

    assert (body["tier"], body["limits"], body["status"]) == (None, [], "ok")


def test_without_the_store_use_is_unknown_and_said_to_be_stale(away: None, client_of: Callable[[str], Client]) -> None:
    answer = client_of("ann").get(LIMITS)

    assert answer.status_code == 200
    assert (answer.json()["stale"], answer.json()["status"]) == (True, "unknown")
    found = limit(answer, "reads-minute")
    assert (found["amount"], found["state"], found["used"], found["remaining"]) == (500, "unknown", None, None)


# Whose data it is


def test_nobody_sees_another_tenant_whatever_the_request_says(
    store: Engine, client_of: Callable[[str], Client]
) -> None:
    """V2, T2, C186: cedar never appears in anyone else's answer."""
    admit(lane="reads", cost=77, tenant="cedar")

    for name in ("ann", "bob"):
        answer = client_of(name).get(LIMITS, headers={"X-Tenant": "cedar", "Tenant-Id": "cedar"})
        assert answer.status_code == 200
        assert "cedar" not in answer.content.decode().lower()
        assert limit(answer, "reads-minute")["used"] == 0


@pytest.mark.parametrize("name", ["tenant", "organisation", "key", "user"])
def test_a_parameter_that_asks_for_somebody_else_is_refused(
    store: Engine, client_of: Callable[[str], Client], name: str
) -> None:
    answer = client_of("ann").get(LIMITS, {name: "cedar"})

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


def test_who_authenticates_to_drf_sees_its_own_tenant(store: Engine) -> None:
    """The middleware has seen nobody; DRF knows who it is."""
    basic = base64.b64encode(b"bob:secret").decode()

    answer = Client().get(LIMITS, headers={"Authorization": f"Basic {basic}"})

    assert answer.json()["tenant"]["key"] == "bolt"


def test_wrong_credentials_and_no_tenant_are_problems(store: Engine, client_of: Callable[[str], Client]) -> None:
    wrong = Client().get(LIMITS, headers={"Authorization": f"Basic {base64.b64encode(b'bob:wrong').decode()}"})
    nobody, nora = Client().get(LIMITS), client_of("nora").get(LIMITS)

    assert [answer.status_code for answer in (wrong, nobody, nora)] == [403, 403, 403]
    for answer in (wrong, nobody, nora):
        assert answer["Content-Type"] == "application/problem+json"
        assert answer["Cache-Control"] == "private, no-store"
    assert nora.json() == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "detail": "Your login or key belongs to no tenant, so there are no limits to show.",
    }


def test_no_cache_keeps_an_answer_for_the_next_caller(store: Engine, client_of: Callable[[str], Client]) -> None:
    """C186: the site's cache middleware is on."""
    first, second = client_of("ann").get(LIMITS), client_of("bob").get(LIMITS)

    assert [answer.json()["tenant"]["key"] for answer in (first, second)] == ["acme", "bolt"]
    assert first["Cache-Control"] == "private, no-store"
    assert {"Cookie", "Authorization"} <= {name.strip() for name in first["Vary"].split(",")}


def test_looking_costs_nothing_though_the_host_throttles(store: Engine, client_of: Callable[[str], Client]) -> None:
    client = client_of("ann")

    answers = [client.get(LIMITS) for _ in range(3)]

    assert limit(answers[-1], "all-rate")["used"] == 0
    assert store.run(Pending()) == ()


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_the_answer_is_only_read(store: Engine, client_of: Callable[[str], Client], method: str) -> None:
    answer = getattr(client_of("ann"), method)(LIMITS)

    assert answer.status_code == 405
    assert answer["Content-Type"] == "application/problem+json"


POOLS = {"exports": {"capacity": 10, "queue": 100}, "reports": {"capacity": 5}}


@pytest.fixture
def shares(store: Engine, settings: Any) -> None:
    """Two pools, one of which lane exports takes its slots from; tier pro has 4 slots of it."""
    lanes = console.LANES | {"exports": {"pool": "exports"}}
    settings.TENANTLIMITS = console.settings_of(POOLS=POOLS, LANES=lanes)
    Share.objects.create(tier=Tier.objects.get(slug="pro"), pool="exports", slots=4)


def test_shares_are_listed_after_the_limits(shares: None, client_of: Callable[[str], Client]) -> None:
    """V4; the fields of http.md."""
    answer = client_of("ann").get(LIMITS)

    assert [one["name"] for one in answer.json()["limits"]][-2:] == ["exports-share", "reports-share"]
    assert limit(answer, "exports-share") == {
        "name": "exports-share",
        "kind": "share",
        "pool": "exports",
        "scope": "process",
        "lane": "exports",
        "lanes": ["exports"],
        "layer": "tenant",
        "subject": "acme",
        "unit": "concurrent_requests",
        "period_seconds": None,
        "amount": 4,
        "unlimited": False,
        "burst": None,
        "guarantee": "contract",
        "promise": "4 at once whenever slots are free; more while nobody else waits",
        "mode": "enforce",
        "source": "tier",
        "tier_amount": 4,
        "override": None,
        "changed": None,
        "used": 0,
        "borrowed": 0,
        "remaining": 4,
        "utilization": 0.0,
        "available_after_seconds": 0,
        "full_after_seconds": 0,
        "queue": {"length": 0, "max": 100, "oldest_wait_seconds": None, "estimated_wait_seconds": 0},
        "share_too_small": False,
        "state": "ok",
    }
    reports = limit(answer, "reports-share")
    assert (reports["amount"], reports["lane"], reports["lanes"]) == (1, None, [])


def test_an_overridden_share_says_why_and_never_the_note(shares: None, client_of: Callable[[str], Client]) -> None:
    override("share:exports", amount=8)

    acme, bolt = client_of("ann").get(LIMITS), client_of("bob").get(LIMITS)

    share = limit(acme, "exports-share")
    assert (share["amount"], share["tier_amount"], share["source"]) == (8, 4, "override")
    assert (share["override"]["amount"], share["override"]["reason"]) == (8, "Black Friday import")
    assert "Secret" not in acme.content.decode()
    assert limit(bolt, "exports-share")["source"] == "tier"


def test_without_the_store_shares_are_known_all_the_same(shares: None, client_of: Callable[[str], Client]) -> None:
    with engine_replaced(redis_engine("redis://127.0.0.1:1/0", "away")):
        answer = client_of("ann").get(LIMITS)

    assert answer.json()["stale"] is True
    share = limit(answer, "exports-share")
    assert (share["amount"], share["used"], share["queue"]["length"], share["state"]) == (4, None, None, "unknown")
