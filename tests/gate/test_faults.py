"""The faults that one process can show, on real servers: no exception, and each lane does what it declares."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings

from tenantlimits.decorators import limited
from tenantlimits.engine.keys import Identity, keys_of
from tenantlimits.gate import aadmit, admit, hold, peek
from tenantlimits.gate.policies import policies
from tenantlimits.gate.store import stores
from tenantlimits.middleware import TenantLimitsMiddleware
from tenantlimits.models import Limit, Tenant, Tier, UsageHour
from tenantlimits.usage import flush
from tests.chaos.faults import FAULTS
from tests.chaos.proxy import Habit, Proxy
from tests.chaos.refuser import Refuser
from tests.chaos.server import Server
from tests.polling import eventually
from tests.ports import free_port
from tests.surfaces import urls
from tests.surfaces.conftest import SITE, settings_of

ACME = {"X-Session": "acme/ann"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that may be killed and stopped."""
    with closing(Server(tmp_path_factory.mktemp("server"))) as server:
        server.start()
        yield server


@pytest.fixture
def acme(transactional_db: None) -> Tenant:
    """A tenant with limits."""
    policies.forget()
    tier = Tier.objects.create(slug="pro", name="Pro")
    add = Limit.objects.create
    add(tier=tier, name="rate", lane="uploads", amount=20, period_seconds=3600)
    add(tier=tier, name="cap", lane="exports", kind="concurrency", amount=3)
    return Tenant.objects.create(key="acme", tier=tier)


@contextmanager
def store_at(url: str, prefix: str, options: dict[str, Any] | None = None, **more: Any) -> Iterator[None]:
    """The site with its store there."""
    alias = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url, "OPTIONS": options or {}}
    usual = {"STORE_TIMEOUT_SECONDS": 0.1, "CONNECT_TIMEOUT_SECONDS": 0.1, "REFUSAL_CACHE_SECONDS": 0}
    site = settings_of(prefix, **usual | more)
    with override_settings(**SITE, CACHES={"default": alias}, TENANTLIMITS=site):
        yield


def lanes_do_as_declared() -> bool:
    """Without a store: uploads are counted here, open lets in, shut refuses."""
    uploads, opened, shut = (admit(lane=lane, tenant="acme") for lane in ("uploads", "open", "shut"))
    return uploads.degraded and uploads.allowed and opened.allowed and opened.degraded and shut.unavailable


ERRORS = [
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "LOADING Redis is loading the dataset in memory",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.split()[0])
def test_a_server_that_answers_with_nothing_but_errors_costs_nobody_time(
    acme: Tenant, key_prefix: str, caplog: pytest.LogCaptureFixture, error: str
) -> None:
    """C102: 200 and 503 as the lane declares, one log record of decisions, a count of them, and no waiting."""
    client, statuses = Client(headers=ACME), {}
    with closing(Refuser(error)) as refuser:
        for lane in ("uploads", "open", "shut"):
            caplog.clear()
            with store_at(refuser.url, key_prefix, DEFAULT_LANE=lane):
                began = time.monotonic()
                statuses[lane] = {client.get("/plain/").status_code for _ in range(5)}
                took = time.monotonic() - began
                counted = sum(stores.health.errors.values())
            said = [record for record in caplog.records if "cannot be reached" in record.message]
            assert (len(said), counted) == (1, 5)
            assert took < 5 * 0.1

    assert statuses == {"uploads": {200}, "open": {200}, "shut": {503}}


@pytest.mark.parametrize("ignores", [True, False])
@pytest.mark.parametrize("trouble", ["refused", "reset in the middle of a reply", "timed out"])
def test_what_the_cache_does_with_errors_changes_nothing(
    acme: Tenant, key_prefix: str, server: Server, ignores: bool, trouble: str
) -> None:
    """C103: django-redis may answer None instead of raising; limits do not ask through it."""
    with closing(Proxy(0, server.at)) as proxy, ExitStack() as stack:
        habits = {"reset in the middle of a reply": Habit.RESET, "timed out": Habit.SWALLOW}
        proxy.habit = habits.get(trouble, Habit.PASS)
        url = f"redis://127.0.0.1:{free_port()}/0" if trouble == "refused" else proxy.url
        stack.enter_context(store_at(url, key_prefix, {"IGNORE_EXCEPTIONS": ignores}))

        assert lanes_do_as_declared()
        assert proxy.spoiled or trouble != "reset in the middle of a reply"


@pytest.mark.parametrize("name", ["takes no writes", "memory is full", "no more connections", "another password"])
def test_a_server_that_is_well_again_is_asked_again(acme: Tenant, key_prefix: str, server: Server, name: str) -> None:
    """C101, C102, C107: within two seconds, without a restart."""
    trouble = next(fault.trouble for fault in FAULTS if fault.name == name)
    with store_at(server.url, key_prefix):
        assert not admit(lane="uploads", tenant="acme").degraded

        with trouble(SimpleNamespace(server=server), "acme"):
            assert lanes_do_as_declared()

        assert eventually(lambda: not admit(lane="uploads", cost=0, tenant="acme").degraded, seconds=2)


def test_a_response_is_sent_as_it_is_when_the_store_stops_inside_the_view(
    acme: Tenant, key_prefix: str, server: Server
) -> None:
    """C106: what was decided before the view is told, and nobody waits for the slot to be given back."""

    @limited(lane="exports")
    def export(request: HttpRequest) -> HttpResponse:
        server.stop()
        return HttpResponse("built", status=201, headers={"X-Own": "1"})

    with store_at(server.url, key_prefix):
        with hold(lane="exports", tenant="acme"):
            pass  # from now on the store is known to know the script
        response = asked(export)
        started = time.monotonic()
        response.close()
        waited = time.monotonic() - started
        server.go_on()

    assert (response.status_code, response.content, response["X-Own"]) == (201, b"built", "1")
    assert waited < 0.1  # a timeout would be 0.25 s


def test_what_is_charged_after_the_view_loses_no_response_either(acme: Tenant, key_prefix: str, server: Server) -> None:
    """C106: the view has run, and nobody has asked yet. Then there are no numbers that the answer could tell."""

    def unasked(request: HttpRequest) -> HttpResponse:
        server.stop()
        return HttpResponse("done", status=202)

    with store_at(server.url, key_prefix):
        response = asked(unasked)
        server.go_on()

    assert (response.status_code, response.content) == (202, b"done")
    assert not [name for name in response.headers if "ratelimit" in name.lower()]


def asked(view: Any) -> HttpResponse:
    """A request of acme's through the middleware."""
    request = RequestFactory(headers=ACME).get("/")
    request.user = urls.Member("acme", "ann")
    return TenantLimitsMiddleware(view)(request)  # type: ignore[return-value]


def test_clearing_the_cache_lets_everybody_begin_anew_once(acme: Tenant, key_prefix: str, server: Server) -> None:
    """C108: three slots held and nothing left of the rate; what is given back then was nobody's."""
    with store_at(server.url, key_prefix):
        before = sum(admit(lane="uploads", tenant="acme").allowed for _ in range(25))
        with ExitStack() as slots:
            for _ in range(3):
                slots.enter_context(hold(lane="exports", tenant="acme"))
            caches["default"].clear()
        after = sum(admit(lane="uploads", tenant="acme").allowed for _ in range(25))
        held = peek(lane="exports", tenant="acme").readings[0].used

    assert (before, after, held) == (20, 20, 0)


async def test_scripts_are_told_again_from_an_event_loop_too(acme: Tenant, key_prefix: str, server: Server) -> None:
    """C99: before every second call; nobody notices, and each counts once."""
    with store_at(server.url, key_prefix), server.client() as client:
        decisions = []
        for call in range(10):
            if call % 2:
                client.script_flush()
            decisions.append(await aadmit(lane="uploads", tenant="acme"))

    assert [one.degraded for one in decisions] == [False] * 10
    assert [round(one.readings[0].used) for one in decisions] == list(range(1, 11))


def test_each_call_is_counted_once_though_the_server_is_restarted_in_between(
    acme: Tenant, key_prefix: str, server: Server
) -> None:
    """C99, V3: with its data; the call that finds its connection broken is counted here, and handed over."""
    with store_at(server.url, key_prefix):
        for call in range(10):
            if call == 5:
                server.kill()
                server.start()
            assert admit(lane="uploads", tenant="acme").allowed
        assert eventually(lambda: not stores.health.is_degraded)
        stores.settle()
        flush()

    assert sum(row.allowed for row in UsageHour.objects.filter(tenant=acme)) == 10


def test_a_tenant_whose_counts_the_store_does_not_take_holds_nobody_elses_up(
    acme: Tenant, key_prefix: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """V3: something else stands where acme's closed hours should be."""
    names = [f"bolt-{n}" for n in range(8)]
    for name in names:
        Tenant.objects.create(key=name, tier=acme.tier)
    with store_at(server.url, key_prefix), server.client() as client:
        assert not admit(lane="uploads", tenant="acme").degraded
        server.stop()
        assert all(admit(lane="uploads", tenant=name).degraded for name in ("acme", *names))
        server.go_on()
        assert eventually(lambda: not stores.health.is_degraded)
        client.rpush(keys_of(key_prefix, Identity(tenant="acme")).closed, "not ours")
        with caplog.at_level(logging.WARNING, logger="tenantlimits.gate.keeper"):
            stores.settle()
        assert any("does not take" in record.message for record in caplog.records)
        client.delete(keys_of(key_prefix, Identity(tenant="acme")).closed)
        flush()

    assert {row.tenant.key for row in UsageHour.objects.select_related("tenant")} >= set(names)


def test_refusals_that_could_not_be_counted_in_an_outage_are_counted_after_it(
    acme: Tenant, key_prefix: str, server: Server
) -> None:
    """V3: they were repeated from memory, and the store was away when it should have been told."""
    with store_at(server.url, key_prefix, REFUSAL_CACHE_SECONDS=5):
        refused = sum(admit(lane="uploads", tenant="acme").refused for _ in range(50))
        server.stop()
        assert admit(lane="exports", tenant="acme").degraded
        assert stores._keeper is not None
        stores._keeper.tick()
        server.go_on()
        assert eventually(lambda: not stores.health.is_degraded)
        stores.settle()
        flush()

    assert refused == 30
    assert sum(row.refused for row in UsageHour.objects.filter(tenant=acme)) == 30


def test_refusals_whose_count_the_store_answers_with_an_error_are_counted_later(
    acme: Tenant, key_prefix: str, server: Server
) -> None:
    """V3: it was full just then, so it has not counted them."""
    full = next(fault.trouble for fault in FAULTS if fault.name == "memory is full")
    with store_at(server.url, key_prefix, REFUSAL_CACHE_SECONDS=5):
        refused = sum(admit(lane="uploads", tenant="acme").refused for _ in range(50))
        assert stores._keeper is not None
        with full(SimpleNamespace(server=server), "acme"):
            stores._keeper._count_refusals()
            assert stores.health.is_degraded
        assert eventually(lambda: not stores.health.is_degraded)
        stores.settle()
        flush()

    assert refused == 30
    assert sum(row.refused for row in UsageHour.objects.filter(tenant=acme)) == 30
