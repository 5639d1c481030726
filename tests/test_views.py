"""The usage page: what each caller sees, and what nobody must see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from django.utils import timezone
from django.utils.html import strip_tags

from tenantlimits.engine.base import Engine, Pending
from tenantlimits.gate import admit, hold
from tenantlimits.gate.store import engine_replaced
from tenantlimits.models import Limit, Override, Share, Tenant, Tier
from tenantlimits.policy import grant_override, revoke_override, set_tier
from tenantlimits.usage import flush
from tests import console
from tests.engine.builders import Clock, redis_engine

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def users(db: None) -> Iterator[dict[str, User]]:
    with override_settings(**console.SITE, TENANTLIMITS=console.settings_of()):
        yield console.cast()


@pytest.fixture
def store(users: dict[str, User], redis_url: str, key_prefix: str, clock: Clock) -> Iterator[Engine]:
    """A real store of the test's own, on the test's clock, which is also Django's."""
    engine = redis_engine(redis_url, key_prefix, clock)
    with engine_replaced(engine), time_machine.travel(NOON, tick=False):
        yield engine
    engine.close()


@pytest.fixture
def away(users: dict[str, User]) -> Iterator[None]:
    """The store cannot be reached."""
    with engine_replaced(redis_engine("redis://127.0.0.1:1/0", "away")):
        yield


def client_of(users: dict[str, User], name: str) -> Client:
    client = Client()
    client.force_login(users[name])
    return client


def text(response: Any) -> str:
    """What a reader reads, in one line."""
    return " ".join(unescape(strip_tags(response.content.decode())).split())


def row(response: Any, name: str) -> str:
    """The words of a limit's line."""
    lines = re.findall(r"<tr [^>]*data-state.*?</tr>", response.content.decode(), re.DOTALL)
    [found] = [line for line in lines if f"<code>{name}</code>" in line]
    return " ".join(unescape(strip_tags(found)).split())


def override(**values: Any) -> Override:
    sound = {"reason": "Black Friday import", "expires_at": timezone.now() + timedelta(days=14)}
    return grant_override("acme", **sound | values)


# What is there


def test_the_page_shows_plan_limits_and_use(store: Engine, users: dict[str, User]) -> None:
    for _ in range(41):
        admit(lane="reads", cost=10, tenant="acme")

    page = client_of(users, "ann").get("/limits/")

    assert page.status_code == 200
    words = text(page)
    assert "Acme Limits and usage" in words
    assert "as of 12:00:00 UTC" in words
    assert "Plan: Pro" in words
    assert "Near the limit" in row(page, "reads-minute")
    assert "410 of 500 (82 %)" in row(page, "reads-minute")
    assert row(page, "reads-minute").endswith("now Pro")
    assert "410 of 10,000 (4 %)" in row(page, "reads-day")
    assert "begins anew 1 Dec 2026, 00:00 UTC" in row(page, "reads-day")
    assert "20 / second, burst 60" in row(page, "all-rate")
    assert "reads 41 41 0 410" in words


def test_what_is_limited_now_stands_on_top(store: Engine, users: dict[str, User]) -> None:
    with hold(lane="exports", tenant="acme"), hold(lane="exports", tenant="acme"):
        page = client_of(users, "ann").get("/limits/")

    assert 'class="tl-banner" data-state="limited"' in page.content.decode()
    assert "exports: exports-cap, 2 of 2 running (100 %). More when one ends." in text(page)
    assert "Running now exports 2 of 2 running" in text(page)


def test_nothing_is_said_to_be_limited_while_nothing_is(store: Engine, users: dict[str, User]) -> None:
    assert "tl-banner" not in client_of(users, "ann").get("/limits/").content.decode()


def test_at_the_moment_of_a_refusal_nothing_is_left_on_the_page(store: Engine, users: dict[str, User]) -> None:
    """C135."""
    while admit(lane="uploads", cost=5, tenant="acme").allowed:
        pass

    page = client_of(users, "ann").get("/limits/")

    assert "40 of 40 (100 %)" in row(page, "uploads-rate")
    assert "in 2 seconds" in row(page, "uploads-rate")
    assert "uploads-rate 1" in text(page)


def test_an_overridden_limit_says_why_and_until_when_and_never_the_note(store: Engine, users: dict[str, User]) -> None:
    override(target="reads-minute", amount=900, note="They threatened to leave.")

    page = client_of(users, "ann").get("/limits/")

    assert 'Raised from 500 until 14 Dec 2026, 12:00: "Black Friday import"' in row(page, "reads-minute")
    assert "threatened" not in page.content.decode()


def test_shares_of_pools_are_listed_with_where_they_come_from(store: Engine, users: dict[str, User]) -> None:
    """C5, V4."""
    lanes = console.LANES | {"exports": {"pool": "exports"}}
    pools = {"exports": {"capacity": 10}, "reports": {"capacity": 5, "lendable": 0}}

    with override_settings(TENANTLIMITS=console.settings_of(LANES=lanes, POOLS=pools)):
        Share.objects.create(tier=Tier.objects.get(slug="pro"), pool="exports", slots=4)
        before = client_of(users, "ann").get("/limits/")
        override(target="share:exports", amount=8)
        after = client_of(users, "ann").get("/limits/")

    assert row(before, "exports-share") == (
        "exports 4 of 10 slots exports-share, 4 at once whenever slots are free; more while nobody else waits "
        "0 running now Pro"
    )
    assert row(before, "reports-share").startswith("reports 1 of 5 slots reports-share, at most 1 at once")
    assert row(after, "exports-share").endswith('Raised from 4 until 14 Dec 2026, 12:00: "Black Friday import"')


def test_a_lent_plan_says_why_and_until_when(store: Engine, users: dict[str, User]) -> None:
    Limit.objects.create(
        tier=Tier.objects.create(slug="max", name="Max"), name="all-rate", amount=100, period_seconds=1
    )
    override(target="tier:max")

    words = text(client_of(users, "ann").get("/limits/"))

    assert "Plan: Max Until 14 Dec 2026, 12:00: “Black Friday import”" in words


def test_zero_is_blocked_and_unlimited_has_no_percentage(store: Engine, users: dict[str, User]) -> None:
    """C188."""
    override(target="uploads-rate", amount=0)
    override(target="reads-minute", unlimited=True)
    admit(lane="reads", cost=50, tenant="acme")

    page = client_of(users, "ann").get("/limits/")

    assert "uploads blocked" in row(page, "uploads-rate")
    assert "%" not in row(page, "uploads-rate")
    assert "unlimited" in row(page, "reads-minute")
    assert "%" not in row(page, "reads-minute")
    assert "Blocked: nothing is let in. uploads: uploads-rate. Blocked until" in text(page)


def test_a_limit_in_mode_observe_is_counted_and_not_refused(store: Engine, users: dict[str, User]) -> None:
    Limit.objects.filter(name="uploads-rate").update(mode="observe")
    for _ in range(10):
        admit(lane="uploads", cost=5, tenant="acme")

    page = client_of(users, "ann").get("/limits/")

    assert "counted, not refused" in row(page, "uploads-rate")
    assert "tl-banner" not in page.content.decode()
    assert "uploads-rate would have refused 2" in text(page)


def test_limits_of_logins_are_the_callers_own(store: Engine, users: dict[str, User]) -> None:
    from tenantlimits.engine.keys import Identity  # noqa: PLC0415
    from tenantlimits.tenancy import Scope, enter, leave  # noqa: PLC0415

    token = enter(Scope(Identity(tenant="acme", user=str(users["ann"].pk))))
    admit(lane="exports")
    leave(token)
    other = User.objects.create_user("amy")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(console.TENANTS, "amy", "acme")
        hers, theirs = (client_of(users | {"amy": other}, name).get("/limits/") for name in ("ann", "amy"))

    assert "1 of 3 (33 %)" in row(hers, "exports-user")
    assert "counts your login alone" in row(hers, "exports-user")
    assert "0 of 3 (0 %)" in row(theirs, "exports-user")


def test_a_downgrade_within_the_day_is_explained(store: Engine, users: dict[str, User], clock: Clock) -> None:
    """C34: 8,800 of 10,000 a day, then a plan of 2,500."""
    small = Tier.objects.create(slug="small", name="Small")
    Limit.objects.create(
        tier=small, name="reads-day", lane="reads", amount=2500, period_seconds=86_400, kind="calendar_quota"
    )
    Limit.objects.filter(name="reads-minute").update(amount=10_000)
    admit(lane="reads", cost=8800, tenant="acme")
    set_tier("acme", "small", reason="subscription 4711 changed")
    clock.step(60)

    with time_machine.travel(NOON + timedelta(minutes=1), tick=False):
        page = client_of(users, "ann").get("/limits/")

    words = row(page, "reads-day")
    assert "8,800 of 2,500 (352 %)" in words
    assert "Was 10,000 until 30 Nov 2026, 12:00, within this period" in words
    assert "begins anew 1 Dec 2026, 00:00 UTC" in words
    assert words.endswith("in 11 hours 59 minutes Small")


def test_a_limit_that_was_changed_within_its_period_is_explained(
    store: Engine, users: dict[str, User], clock: Clock
) -> None:
    """C34."""
    limit = Limit.objects.get(name="reads-day")
    limit.amount = 5000
    limit.save()
    clock.step(3600)

    page = client_of(users, "ann").get("/limits/")

    assert "Was 10,000 until 30 Nov 2026, 12:00, within this period" in row(page, "reads-day")


def test_an_override_that_ended_within_the_period_is_explained(
    store: Engine, users: dict[str, User], clock: Clock
) -> None:
    """C34."""
    ended = override(target="reads-day", amount=5000)
    with time_machine.travel(NOON + timedelta(minutes=30), tick=False):
        revoke_override(ended, reason="A mistake")
    clock.step(3600)

    page = client_of(users, "ann").get("/limits/")

    assert "Was 5,000 until 30 Nov 2026, 12:30, within this period" in row(page, "reads-day")


def test_an_override_that_began_within_the_period_says_so_itself(store: Engine, users: dict[str, User]) -> None:
    """C34."""
    override(target="reads-day", amount=5000)

    words = row(client_of(users, "ann").get("/limits/"), "reads-day")

    assert "Lowered from 10,000 until 14 Dec 2026" in words
    assert "within this period" not in words


def test_a_change_before_the_period_is_not_mentioned(store: Engine, users: dict[str, User], clock: Clock) -> None:
    limit = Limit.objects.get(name="reads-minute")
    limit.amount = 900
    limit.save()
    clock.step(120)

    assert "Was" not in row(client_of(users, "ann").get("/limits/"), "reads-minute")


def test_times_are_those_of_the_tenants_zone(store: Engine, users: dict[str, User]) -> None:
    Tenant.objects.filter(key="acme").update(time_zone="Asia/Kolkata")
    admit(lane="reads", tenant="acme")

    page = client_of(users, "ann").get("/limits/")

    assert "as of 17:30:00 IST" in text(page)
    assert '<time datetime="2026-11-30T17:00:00+05:30">30 Nov, 17:00</time>' in page.content.decode()


# Empty, stale, no tenant, not allowed: each in its own words


def test_a_tenant_that_used_nothing_is_told_so(store: Engine, users: dict[str, User]) -> None:
    assert "Nothing was used in the last 24 hours." in text(client_of(users, "ann").get("/limits/"))


def test_a_tier_without_a_row_limits_nothing_and_the_page_says_so(store: Engine, users: dict[str, User]) -> None:
    with override_settings(TENANTLIMITS=console.settings_of(DEFAULT_TIER="none")), engine_replaced(store):
        Tenant.objects.filter(key="acme").update(tier=None)
        words = text(client_of(users, "ann").get("/limits/"))

    assert "No plan Your use is counted, but nothing is limited." in words
    assert "No limits are in force." in words


def test_without_the_store_the_limits_are_there_and_their_use_is_unknown(away: None, users: dict[str, User]) -> None:
    page = client_of(users, "ann").get("/limits/")

    words = text(page)
    assert page.status_code == 200
    assert "What is used right now cannot be read." in words
    assert "500 / minute" in row(page, "reads-minute")
    assert "not known" in row(page, "reads-minute")
    assert "No use has been written down" in words
    assert "<meter" not in page.content.decode()


def test_a_login_without_a_tenant_is_told_so(store: Engine, users: dict[str, User]) -> None:
    page = client_of(users, "nora").get("/limits/")

    assert page.status_code == 403
    assert "Your login belongs to no organisation" in text(page)


def test_who_is_not_logged_in_is_led_to_the_login(store: Engine) -> None:
    page = Client().get("/limits/")

    assert page.status_code == 403
    assert 'href="/accounts/login/?next=/limits/"' in page.content.decode()


@pytest.mark.parametrize("login", ["/nowhere/", "portal:nowhere"])
def test_where_nobody_can_log_in_there_is_no_dead_link(store: Engine, login: str) -> None:
    with override_settings(LOGIN_URL=login):
        page = Client().get("/limits/")

    assert page.status_code == 403
    assert "<a" not in page.content.decode().partition("<main")[2]


def test_who_is_not_allowed_reads_the_hosts_words(store: Engine, users: dict[str, User]) -> None:
    page = client_of(users, "sue").get("/limits/")

    assert page.status_code == 403
    assert "You are not allowed to see these limits. Your organisation is suspended." in text(page)


def test_a_login_page_of_another_site_is_linked(store: Engine) -> None:
    with override_settings(LOGIN_URL="https://login.example.com/?app=1"):
        page = Client().get("/limits/")

    assert 'href="https://login.example.com/?app=1&amp;next=/limits/"' in page.content.decode()


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_the_page_is_only_read(store: Engine, users: dict[str, User], method: str) -> None:
    assert getattr(client_of(users, "ann"), method)("/limits/").status_code == 405


# Whose data it is


def test_looking_costs_nothing_and_counts_nothing(store: Engine, users: dict[str, User]) -> None:
    client = client_of(users, "ann")

    pages = [client.get("/limits/") for _ in range(3)]

    assert "0 of 60 (0 %)" in row(pages[-1], "all-rate")
    assert store.run(Pending()) == ()


def test_nobody_sees_another_tenant_whatever_the_request_says(store: Engine, users: dict[str, User]) -> None:
    """V2, T2, C186: cedar never appears in anyone else's page."""
    admit(lane="reads", cost=77, tenant="cedar")
    flush()
    admit(lane="reads", cost=77, tenant="cedar")
    grant_override(
        "cedar", "reads-minute", amount=7, reason="Cedar only", expires_at=timezone.now() + timedelta(days=1)
    )

    for name in ("ann", "bob"):
        page = client_of(users, name).get(
            "/limits/?tenant=cedar&organisation=cedar", headers={"X-Tenant": "cedar", "X-Tenant-Id": "cedar"}
        )
        body = page.content.decode().lower()
        assert page.status_code == 200
        assert "cedar" not in body
        assert "154" not in body


@pytest.mark.parametrize("address", ["/limits/", "/cached/"])
def test_no_cache_keeps_a_page_for_the_next_caller(store: Engine, users: dict[str, User], address: str) -> None:
    """C186: the site's cache middleware and cache_page are on."""
    first = client_of(users, "ann").get(address)
    second = client_of(users, "bob").get(address)
    nobody = Client().get(address)

    assert "Acme" in text(first)
    assert "Bolt" in text(second)
    assert "Acme" not in text(second)
    assert nobody.status_code == 403
    for page in (first, second, nobody):
        assert page["Cache-Control"] == "private, no-store"
        assert "Cookie" in page["Vary"]


def test_after_logging_out_the_page_is_gone(store: Engine, users: dict[str, User]) -> None:
    """C186."""
    client = client_of(users, "ann")
    client.get("/limits/")
    client.logout()

    assert client.get("/limits/").status_code == 403


def test_markup_in_names_is_shown_as_text(store: Engine, users: dict[str, User]) -> None:
    """C185."""
    image, script = '"><img src=x onerror=alert(1)>', "<script>alert(1)</script>"
    Tenant.objects.filter(key="acme").update(name=image)
    Tier.objects.filter(slug="pro").update(name=script)
    override(target="reads-minute", amount=900, reason=script)

    body = client_of(users, "ann").get("/limits/").content.decode()

    assert "<img" not in body
    assert "<script" not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body


def test_the_page_has_no_inline_script_or_style_and_unlocalised_meters(store: Engine, users: dict[str, User]) -> None:
    Limit.objects.filter(name="reads-day").update(amount=10**12)
    admit(lane="reads", cost=0.5, tenant="acme")

    with override_settings(LANGUAGE_CODE="de"):
        body = client_of(users, "ann").get("/limits/").content.decode()

    assert not re.search(r"<script|<style|style=|\son\w+=", body)
    assert 'max="1000000000000.000" value="0.500"' in body


def test_the_page_asks_the_database_a_fixed_number_of_times(
    store: Engine, users: dict[str, User], django_assert_max_num_queries: Any
) -> None:
    client = client_of(users, "ann")
    client.get("/limits/")
    connection.run_on_commit.clear()  # as good as committed, so that the policy is kept
    client.get("/limits/")

    with django_assert_max_num_queries(9):
        client.get("/limits/")
