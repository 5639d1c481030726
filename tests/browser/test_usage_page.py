"""The usage page in a real browser: under a strict policy, by keyboard, for screen readers, narrow and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.utils import timezone
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from tenantlimits.engine.base import Engine
from tenantlimits.gate import admit, hold
from tenantlimits.gate.store import engine_replaced
from tenantlimits.models import Limit, Tenant
from tenantlimits.policy import grant_override
from tests import console
from tests.engine.builders import redis_engine

POLICY = "default-src 'self'; base-uri 'none'; object-src 'none'"
LONG = "Ångström & Søn " * 12 + "W" * 60


@dataclass(frozen=True)
class Site:
    """The address of the page, and the session of one of acme's people."""

    url: str
    session: str


def strict(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: nothing inline, and nothing from elsewhere."""

    def answered(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return answered


@pytest.fixture
def store(redis_url: str, key_prefix: str) -> Iterator[Engine]:
    engine = redis_engine(redis_url, key_prefix)
    yield engine
    engine.close()


@pytest.fixture
def site(transactional_db: None, store: Engine) -> Iterator[Site]:
    """A site on which acme has used a lot and has a name that fits nowhere."""
    site = console.SITE | {"MIDDLEWARE": ["tests.browser.test_usage_page.strict", *console.SITE["MIDDLEWARE"]]}
    with override_settings(**site, TENANTLIMITS=console.settings_of()), engine_replaced(store):
        users = console.cast()
        Tenant.objects.filter(key="acme").update(name=LONG[:255])
        Limit.objects.filter(name="reads-day").update(amount=10**12)
        end = timezone.now() + timedelta(days=14)
        grant_override("acme", "reads-minute", amount=900, reason="Black Friday import", expires_at=end)
        grant_override("acme", "exports-user", amount=0, reason=LONG, expires_at=end)
        admit(lane="reads", cost=780, tenant="acme")
        for _ in range(10):
            admit(lane="uploads", cost=5, tenant="acme")
        client = Client()
        client.force_login(users["ann"])
        with hold(lane="exports", tenant="acme"), hold(lane="exports", tenant="acme"):
            server = LiveServer("localhost")  # the run's own has another site's middleware
            yield Site(f"{server.url}/limits/", client.cookies["sessionid"].value)
            server.stop()


@pytest.fixture
def page(site: Site, browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.add_cookies([{"name": "sessionid", "value": site.session, "url": site.url}])
    page = context.new_page()
    yield page
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing(page: Page, site: Site, scheme: Any, width: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(site.url)
    page.get_by_text("Hour by hour").click()

    found = Axe().run(page)

    assert found.violations_count == 0, found.generate_report()


def test_a_strict_policy_is_not_violated(page: Page, site: Site) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))

    response = page.goto(site.url)

    assert response is not None
    assert response.headers["content-security-policy"] == POLICY
    assert page.evaluate("getComputedStyle(document.querySelector('.tl-meter')).display") == "block"  # it is styled
    assert said == []


def test_the_keyboard_reaches_everything(page: Page, site: Site) -> None:
    page.goto(site.url)
    reached = []

    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText.trim().split('\\n')[0]"))
        if reached[-1] == "Hour by hour":
            page.keyboard.press("Enter")
            break

    assert reached[:2] == ["Skip to content", "Refresh"]
    assert reached[-1] == "Hour by hour"
    assert page.locator("details").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.matches(':focus-visible')")


def test_refresh_shows_what_was_used_since(page: Page, site: Site, store: Engine) -> None:
    page.goto(site.url)
    before = page.get_by_text("as of").inner_text()

    page.wait_for_timeout(1100)  # the page shows seconds
    page.get_by_role("link", name="Refresh").click()

    assert page.url == site.url
    assert page.get_by_text("as of").inner_text() != before


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_wider_than_the_window(page: Page, site: Site, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(site.url)

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_who_is_not_logged_in_gets_a_page_without_violations(site: Site, browser: Browser) -> None:
    page = browser.new_page()

    response = page.goto(site.url)

    assert response is not None
    assert response.status == 403
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
