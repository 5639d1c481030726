"""What the middleware does to requests, under WSGI and ASGI."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import AsyncClient, Client, RequestFactory, override_settings

from tenantlimits.decorators import limited
from tenantlimits.domain.errors import InvalidTenant
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.overview import overview
from tenantlimits.middleware import TenantLimitsMiddleware
from tenantlimits.models import Limit, Switch, Tenant, Tier
from tenantlimits.tenancy import current_tenant
from tests.surfaces import urls
from tests.surfaces.conftest import LANES, SITE, settings_of

ACME = {"X-Session": "acme/ann"}


def used(tenant: str, limit: str) -> float:
    """Units that a tenant has used of a limit, but for what drains while a test runs."""
    return next(round(one.used, 1) for one in overview(Identity(tenant=tenant)).readings if one.limit.name == limit)


def close(response: Any) -> None:
    """End a response as a server does, but for the database connection, which is the test's."""
    request_finished.disconnect(close_old_connections)
    try:
        response.close()
    finally:
        request_finished.connect(close_old_connections)


def test_a_plain_view_is_admitted_until_the_limit_and_then_never_run(acme: Client) -> None:
    """C41, R1: the view runs exactly as often as the limit says."""
    answers = [acme.get("/plain/").status_code for _ in range(15)]

    assert answers == [200] * 5 + [429] * 10
    assert urls.ran == ["plain"] * 5


def test_one_tenants_flood_takes_nothing_of_anothers(acme: Client, bolt: Client) -> None:
    """R1."""
    for _ in range(20):
        acme.get("/plain/")

    assert bolt.get("/plain/").status_code == 200


async def test_an_async_view_is_admitted_until_the_limit(acme: Client) -> None:
    """C123: the same middleware, awaited."""
    client = AsyncClient()

    answers = [(await client.get("/awaited/", headers=ACME)).status_code for _ in range(8)]

    assert answers == [200] * 5 + [429] * 3
    assert urls.ran == ["awaited"] * 5


def test_the_middleware_can_do_both_and_is_no_hop_for_either() -> None:
    """C123."""
    assert TenantLimitsMiddleware.sync_capable
    assert TenantLimitsMiddleware.async_capable


def test_a_view_and_its_helpers_know_the_tenant_and_nobody_does_afterwards(acme: Client) -> None:
    """T1, C90, C91."""
    response = acme.get("/plain/")

    assert response.content == b"acme"
    assert current_tenant() is None


async def test_interleaved_requests_never_see_each_others_tenant(acme: Client) -> None:
    """C91."""
    client, names = AsyncClient(), ("t1", "t2", "t3")

    async def ask(name: str) -> tuple[str, bytes]:
        return name, (await client.get("/awaited/", headers={"X-Session": f"{name}/x"})).content

    answers = await asyncio.gather(*(ask(name) for name in names * 10))

    assert all(content == name.encode() for name, content in answers)
    assert current_tenant() is None


def test_every_log_record_of_a_request_carries_its_tenant(acme: Client, caplog: pytest.LogCaptureFixture) -> None:
    """T1."""
    with caplog.at_level(logging.WARNING, logger="django.request"):
        acme.get("/special/missing/")

    assert {record.tenant for record in caplog.records if record.name == "django.request"} <= {"acme", ""}
    with override_settings(**SITE):
        logging.getLogger("outside").warning("nobody's")
    assert caplog.records[-1].tenant == ""


def test_headers_that_the_caller_sets_change_nothing(acme: Client) -> None:
    """T2, C82: whatever a request says of itself, it is counted against its real tenant."""
    spoof = {"X-Tenant-ID": "bolt", "X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9", "Forwarded": "for=1"}

    answers = [acme.get("/plain/?tenant=bolt", headers=spoof).status_code for _ in range(7)]

    assert answers == [200] * 5 + [429] * 2
    assert used("bolt", "all-rate") == 0


def test_anonymous_callers_share_nothing_with_a_tenant_and_count_by_address(tier: Tier) -> None:
    """T3, C82: an address has its bucket; rotating headers does not get another one."""
    Tier.objects.filter(slug="anonymous").update(mode="enforce")
    Limit.objects.filter(tier__slug="anonymous").update(amount=1, period_seconds=3600, burst=3)
    client = Client()

    answers = [client.get("/plain/", headers={"X-Forwarded-For": f"198.51.100.{n}"}).status_code for n in range(5)]
    other = client.get("/plain/", REMOTE_ADDR="203.0.113.5").status_code

    assert answers == [200] * 3 + [429] * 2
    assert other == 200


def test_one_ipv6_network_is_one_address(tier: Tier) -> None:
    """C85."""
    Tier.objects.filter(slug="anonymous").update(mode="enforce")
    Limit.objects.filter(tier__slug="anonymous").update(amount=1, period_seconds=3600, burst=3)
    client = Client()

    answers = [client.get("/plain/", REMOTE_ADDR=f"2001:db8::{n:x}").status_code for n in range(5)]
    mapped = [client.get("/plain/", REMOTE_ADDR=a).status_code for a in ("1.2.3.4", "::ffff:1.2.3.4") * 2]

    assert answers == [200] * 3 + [429] * 2
    assert mapped == [200] * 3 + [429]


def test_behind_a_trusted_proxy_its_own_entry_counts(tier: Tier, key_prefix: str) -> None:
    """C82, C83: with one proxy the last entry; what stands before it the caller wrote."""
    Tier.objects.filter(slug="anonymous").update(mode="enforce")
    Limit.objects.filter(tier__slug="anonymous").update(amount=1, period_seconds=3600, burst=3)
    with override_settings(TENANTLIMITS=settings_of(key_prefix, TRUSTED_PROXIES=1)):
        answers = [
            Client().get("/plain/", REMOTE_ADDR=f"10.0.0.{n}", headers={"X-Forwarded-For": f"9.9.9.{n}, 192.0.2.1"})
            for n in range(5)
        ]

    assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2


def test_without_an_anonymous_tier_nobody_gets_in_without_a_tenant(tier: Tier, key_prefix: str) -> None:
    """T3: ANONYMOUS_TIER None refuses."""
    with override_settings(TENANTLIMITS=settings_of(key_prefix, ANONYMOUS_TIER=None)):
        assert Client().get("/plain/").status_code == 403


def test_an_unknown_tenant_gets_the_default_tier_and_a_row(tier: Tier) -> None:
    """T3: nobody is unlimited by accident."""
    response = Client(headers={"X-Session": "newcomer/nora"}).get("/plain/")

    assert response.status_code == 200
    assert Tenant.objects.get(key="newcomer").tier is None
    assert used("newcomer", "all-rate") == 1


def test_the_tier_resolver_says_where_a_newcomer_begins(tier: Tier, key_prefix: str) -> None:
    """T3."""
    with override_settings(TENANTLIMITS=settings_of(key_prefix, TIER_RESOLVER=lambda request: "pro")):
        Client(headers={"X-Session": "newcomer/nora"}).get("/plain/")

    assert Tenant.objects.get(key="newcomer").tier == tier


@pytest.mark.parametrize("answer", ["", "x" * 256, 7, b"acme", "a\x00b", "\ud800"])
def test_a_resolver_that_answers_no_key_is_told_so(tier: Tier, key_prefix: str, answer: object) -> None:
    """C86: empty, huge and non-text keys are errors in words, never a shared bucket."""
    with (
        override_settings(TENANTLIMITS=settings_of(key_prefix, TENANT_RESOLVER=lambda request: answer)),
        pytest.raises(InvalidTenant, match="TENANT_RESOLVER answered"),
    ):
        Client().get("/plain/")


def test_hostile_keys_each_have_a_bucket_of_their_own(tier: Tier, key_prefix: str) -> None:
    """C86."""
    keys = ["a:b", "a", "b", "a:b:c", "*", "?", "[x]", "x\nDEL", "{a}", "}{", " ", "ACME", "acme", "é", "e\u0301", "😀"]
    with override_settings(TENANTLIMITS=settings_of(key_prefix, TENANT_RESOLVER=lambda r: keys[int(r.GET["n"])])):
        for n in range(len(keys)):
            assert Client().get(f"/plain/?n={n}").status_code == 200

    assert all(used(key, "all-rate") == 1 for key in keys)


def test_a_preflight_is_free_and_a_plain_options_is_not(acme: Client) -> None:
    """C117."""
    asking = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "PUT"}

    answers = [acme.options("/plain/", headers=asking).status_code for _ in range(20)]
    acme.options("/plain/")

    assert answers == [200] * 20
    assert used("acme", "all-rate") == 1


def test_head_is_charged_once_as_the_read_that_it_is(acme: Client) -> None:
    """C127."""
    acme.get("/methods/")
    acme.head("/methods/")

    assert used("acme", "all-rate") == 2


def test_an_exempt_view_never_asks_the_store(acme: Client, key_prefix: str, redis_client: Any) -> None:
    """C118."""
    before = redis_client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)

    answers = {acme.get("/health/").status_code for _ in range(50)}

    assert answers == {200}
    assert not redis_client.keys(f"{key_prefix}*")
    assert before is not None


def test_the_hosts_exemption_is_asked_about_the_request(acme: Client, key_prefix: str) -> None:
    """C119: by what the host decides on the request, never by a prefix of ours."""
    exempting = settings_of(key_prefix, EXEMPT=lambda request: request.path == "/plain/")
    with override_settings(TENANTLIMITS=exempting):
        assert {acme.get("/plain/").status_code for _ in range(20)} == {200}
        assert acme.get("/awaited/").status_code == 200

    assert used("acme", "all-rate") == 1


def test_a_request_that_no_view_serves_is_charged_afterwards(acme: Client) -> None:
    """T3: everything but a preflight is charged, whatever its status."""
    assert acme.get("/nothing-here/").status_code == 404

    assert used("acme", "all-rate") == 1


@pytest.mark.parametrize(
    ("what", "status"),
    [("json", 200), ("not-modified", 304), ("template", 200), ("missing", 404), ("denied", 403), ("suspicious", 400)],
)
def test_every_sort_of_answer_keeps_its_status_and_gives_its_slot_back(acme: Client, what: str, status: int) -> None:
    """C125."""
    assert acme.get(f"/special/{what}/").status_code == status

    assert used("acme", "exports-cap") == 0


@pytest.mark.parametrize("what", ["error", "none"])
def test_a_view_that_breaks_gives_its_slot_back(acme: Client, what: str) -> None:
    """C125, C7."""
    acme.raise_request_exception = False

    assert acme.get(f"/special/{what}/").status_code == 500

    assert used("acme", "exports-cap") == 0


def test_a_stream_keeps_its_slot_until_it_has_been_sent(acme: Client) -> None:
    """C64, R7."""
    first = acme.get("/stream/")
    during = used("acme", "exports-cap")
    refused = acme.get("/export/").status_code

    content = b"".join(first.streaming_content)
    close(first)

    assert (during, refused, content) == (1, 429, b"onetwo")
    assert urls.closed == ["chunks"]
    assert used("acme", "exports-cap") == 0


def test_a_stream_that_is_closed_early_gives_its_slot_back(acme: Client, rf: RequestFactory) -> None:
    """C63: the server closes what the client does not read to its end."""
    request = rf.get("/stream/")
    request.user = urls.Member("acme", "ann")
    response = TenantLimitsMiddleware(urls.stream)(request)
    content = iter(response.streaming_content)
    assert next(content) == b"one"

    close(response)

    assert urls.closed == ["chunks"]
    assert used("acme", "exports-cap") == 0


def test_a_file_is_sent_whole_and_gives_its_slot_back(acme: Client) -> None:
    """C64."""
    response = acme.get("/file/")

    assert response["Content-Length"] == "4"
    assert b"".join(response.streaming_content) == b"file"
    close(response)
    assert used("acme", "exports-cap") == 0


def test_a_response_that_is_dropped_unclosed_gives_its_slot_back_when_it_is_collected(acme: Client) -> None:
    """C63, C67: a middleware outside of ours answered something else."""
    request = RequestFactory(headers=ACME).get("/export/")
    request.user = urls.Member("acme", "ann")
    middleware = TenantLimitsMiddleware(urls.export)

    response = middleware(request)
    during = used("acme", "exports-cap")
    del response
    gc.collect()

    assert (during, used("acme", "exports-cap")) == (1, 0)


async def test_an_async_stream_keeps_its_slot_until_it_has_been_sent(acme: Client) -> None:
    """C63, C64."""
    client = AsyncClient()
    response = await client.get("/awaited-stream/", headers=ACME)
    during = await sync_to_async(used)("acme", "exports-cap")

    content = b"".join([chunk async for chunk in response.streaming_content])
    await sync_to_async(close)(response)

    assert (during, content) == (1, b"onetwo")
    assert await sync_to_async(used)("acme", "exports-cap") == 0


async def reaches(in_flight: int) -> bool:
    """Whether acme soon has so many exports in flight."""
    for _ in range(300):
        if await sync_to_async(used)("acme", "exports-cap") == in_flight:
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_cancelled_async_view_gives_its_slot_back_also_when_cancelled_twice(acme: Client) -> None:
    """C65."""
    client = AsyncClient()
    task = asyncio.ensure_future(client.get("/awaited-export/?seconds=30", headers=ACME))
    assert await reaches(1)

    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await reaches(0)


def test_the_switch_is_in_force_on_the_next_request(acme: Client) -> None:
    """R3: enforce, observe or off is data, not settings."""
    for _ in range(5):
        acme.get("/plain/")
    refused = acme.get("/plain/").status_code

    switch = Switch.current()
    switch.mode, switch.reason = "observe", "incident"
    switch.save()

    assert (refused, acme.get("/plain/").status_code) == (429, 200)


def test_a_store_that_is_away_follows_the_lane(tier: Tier, key_prefix: str, monkeypatch: Any) -> None:
    """V6, C102: allow serves, refuse answers 503, local counts in this process; nothing is a 500."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    dead = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
    lanes = {**LANES, "default": {"on_store_failure": "refuse"}}
    acme = Client(headers=ACME)
    with override_settings(CACHES=dead, TENANTLIMITS=settings_of(key_prefix, LANES=lanes)):
        refused = acme.get("/plain/")
    with override_settings(CACHES=dead, TENANTLIMITS=settings_of(key_prefix)):
        local = [acme.get("/plain/").status_code for _ in range(8)]
    with override_settings(CACHES=dead, TENANTLIMITS=settings_of(key_prefix, DEFAULT_LANE="open")):
        allowed = {acme.get("/plain/").status_code for _ in range(8)}

    assert (refused.status_code, int(refused["Retry-After"]) >= 1) == (503, True)
    assert local == [200] * 5 + [429] * 3
    assert allowed == {200}


def test_unknown_settings_stop_the_server_at_start(site: None) -> None:
    """Bad input: unknown settings keys."""
    with (
        override_settings(TENANTLIMITS={"TENANT_RESOLVER": urls.tenant_of, "DEFAULT_TIER": "free", "LEASE_SECOND": 3}),
        pytest.raises(ImproperlyConfigured, match=r"LEASE_SECOND.*Did you mean 'LEASE_SECONDS'"),
    ):
        TenantLimitsMiddleware(urls.plain)


def test_a_limited_view_without_the_middleware_says_what_to_add(rf: RequestFactory) -> None:
    """C45: never an unlimited route."""
    with pytest.raises(ImproperlyConfigured, match="TenantLimitsMiddleware"):
        limited(lane="exports")(urls.plain)(rf.get("/"))


@pytest.mark.parametrize("cost", ["-1", "nan", "-inf"])
def test_a_cost_that_is_no_number_of_units_is_an_error_and_charges_nothing(acme: Client, cost: str) -> None:
    """C53: a ValueError before Redis is touched."""
    with pytest.raises(ValueError, match="no number of units"):
        acme.get(f"/upload/?mb={cost}")

    assert used("acme", "uploads-rate") == 0
