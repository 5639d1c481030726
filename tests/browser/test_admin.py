"""The admin in a browser, under a policy that allows nothing inline."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from playwright.sync_api import Browser, ConsoleMessage, Page
from pytest_django.live_server_helper import LiveServer

from tenantlimits.conf import conf
from tenantlimits.domain.shares import Share
from tenantlimits.gate.store import stores
from tenantlimits.models import Override, Tenant, Tier
from tenantlimits.pools.fleet import FleetPool
from tenantlimits.pools.registry import pools
from tests import rows
from tests.pools.test_fleet import known_for_long


def strict_policy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A middleware that allows nothing but what this site serves in files of their own."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'"
        return response

    return middleware


@pytest.fixture
def site(
    transactional_db: None, settings: LazySettings, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveServer]:
    """A host that has nothing but the admin; it starts only now, so that it has this test's settings."""
    # Playwright's loop runs in this thread, which is not the one that serves.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    settings.ROOT_URLCONF = "tests.admin.urls"
    settings.ALLOWED_HOSTS = ["localhost"]
    ours = [name for name in settings.MIDDLEWARE if not name.startswith("project.")]
    settings.MIDDLEWARE = ["tests.browser.test_admin.strict_policy", *ours]
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": lambda request: None,
        "DEFAULT_TIER": "free",
        "KEY_PREFIX": key_prefix,
        "LANES": {"reads": {}, "exports": {}},
        "POOLS": rows.POOLS,
    }
    server = LiveServer("localhost")
    yield server
    server.stop()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained of."""
    return []


@pytest.fixture
def page(site: LiveServer, browser: Browser, complaints: list[str]) -> Page:
    """A page of staff who are logged in."""
    User.objects.create_superuser("sam", password="sam")
    page = browser.new_page(base_url=site.url, viewport={"width": 1280, "height": 900})
    page.goto("/admin/login/")
    page.fill("#id_username", "sam")
    page.fill("#id_password", "sam")
    page.click("input[type=submit]")
    page.on("console", lambda message: complaints.extend(_complaint(message)))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


def _complaint(message: ConsoleMessage) -> list[str]:
    about_icon = message.location.get("url", "").endswith("/favicon.ico")
    return [] if message.type not in ("error", "warning") or about_icon else [message.text]


def test_a_fresh_install_leads_to_a_limit_typed_in_words_and_its_promise(page: Page, complaints: list[str]):
    page.goto("/admin/tenantlimits/")
    page.click("text=Add tier free now")
    page.fill("#id_limits-0-name", "reads-minute")
    page.fill("#id_limits-0-rate", "500/min")
    page.select_option("#id_limits-0-lane", "reads")
    page.click("input[name=_continue]")

    assert page.input_value("#id_limits-0-rate") == "500/min"
    assert "at most 1,000 in any minute" in page.inner_text("#limits-0")
    assert complaints == []

    page.click("text=Add another Limit")
    page.fill("#id_limits-1-name", "exports-cap")
    page.fill("#id_limits-1-rate", "lots")
    page.click("input[name=_continue]")
    assert "'lots' is not a limit" in page.inner_text("#limits-1")

    page.fill("#id_limits-1-rate", "6")
    page.select_option("#id_limits-1-kind", "concurrency")
    page.click("input[name=_continue]")
    assert "at most 6 at once" in page.inner_text("#limits-group")
    assert complaints == []


def test_an_override_from_the_tenants_page_to_its_end(page: Page, complaints: list[str]):
    acme = Tenant.objects.create(key="acme", name="Acme", tier=rows.pro())
    page.goto(f"/admin/tenantlimits/tenant/{acme.pk}/change/")
    page.click("a[href$='target=all-rate']")

    page.fill("#id_value", "40")
    page.fill("#id_reason", "Black Friday import")
    page.check("input[name=ends_in][value='7']")
    page.click("input[name=_save]")
    page.click("text=See what is in force for Acme now.")

    in_force = page.inner_text("#effective-limits")
    assert "20 / second, burst 60" in in_force
    assert "40 / second, burst 120" in in_force
    assert "ends in 7 days" in in_force

    page.click("#effective-limits >> text=Black Friday import")
    page.click("text=Revoke")
    page.fill("#id_reason", "Import is done")
    page.click("input[value=Revoke]")

    assert "1 override is revoked." in page.inner_text(".messagelist")
    assert Override.objects.get().revoke_reason == "Import is done"
    assert complaints == []


def test_a_tenant_is_found_by_typing(page: Page, complaints: list[str]):
    Tenant.objects.create(key="acme", name="Acme", tier=rows.pro())
    page.goto("/admin/tenantlimits/override/add/")

    page.click(".select2-selection")
    page.fill(".select2-search__field", "acm")
    page.click(".select2-results__option >> text=Acme")
    page.fill("#id_target", "all-rates")
    page.fill("#id_value", "40")
    page.fill("#id_reason", "Import")
    page.check("input[name=ends_in][value='1']")
    page.click("input[name=_save]")

    assert "there are all-rate, exports-cap" in page.inner_text(".errorlist")
    assert "all-rate (20 / second)" in page.inner_text(".field-target .help")
    assert complaints == []


def test_the_switch_asks_once_more(page: Page, complaints: list[str]):
    page.goto("/admin/tenantlimits/switch/")
    page.check("input[value=off]")
    page.fill("#id_reason", "Incident 42")
    page.click("input[type=submit] >> nth=-1")
    page.click("text=Yes, turn it to off")

    assert "The switch is at off." in page.inner_text("#content-main")
    assert complaints == []


def test_no_page_runs_or_shows_anything_inline(page: Page, complaints: list[str]):
    name = '"><img src=x onerror=alert(1)>'
    acme = Tenant.objects.create(key="acme", name=name, tier=rows.pro())
    rows.override(acme, reason="<script>alert(2)</script>", expires_at=timezone.now() + timedelta(days=3)).save()
    tier = Tier.objects.get(slug="pro")
    paths = [
        "", "tier/", f"tier/{tier.pk}/change/", f"tier/{tier.pk}/delete/", "tenant/", f"tenant/{acme.pk}/change/",
        "override/", f"override/{Override.objects.get().pk}/change/", "pool/", "switch/", "usagehour/", "change/",
    ]  # fmt: skip
    slot = pools.of("reports").acquire(name, Share(1))

    for path in paths:
        page.goto(f"/admin/tenantlimits/{path}")
        assert page.title(), path

    slot.release()
    assert complaints == []
    # A test of the test: what is inline is refused, and noticed.
    with page.expect_console_message():
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')")
    assert complaints != []


def test_axe_finds_nothing_in_what_is_ours(page: Page):
    acme = Tenant.objects.create(key="acme", name="Acme", tier=rows.pro())
    rows.override(acme, expires_at=timezone.now() + timedelta(days=3)).save()
    parts = {
        "": ".tl-steps",
        f"tenant/{acme.pk}/change/": "#effective-limits",
        f"override/{Override.objects.get().pk}/revoke/": "#content-main",
        "switch/": "#content-main",
    }

    for path, part in parts.items():
        page.goto(f"/admin/tenantlimits/{path}")
        found = Axe().run(page, context=part)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_a_slot_is_freed_from_the_page_of_pools_in_which_axe_finds_nothing(page: Page, redis_url: str, key_prefix: str):
    known_for_long(redis_url, key_prefix)
    fleet = FleetPool("exports", conf.pool("exports").rules, store=stores.engine)
    pools._built["exports"] = (conf.pool("exports"), fleet)
    slots = [fleet.acquire("acme", Share(1)), fleet.acquire("acme", Share(1))]
    others = [pools.of("reports").acquire(tenant, Share(1)) for tenant in ("bolt", '"><img src=x onerror=alert(1)>')]

    page.goto("/admin/tenantlimits/pool/")
    assert "2 running, 0 waiting" in page.inner_text("#content-main")
    found = [Axe().run(page, context="#content-main")]
    page.click("text=Free one")
    found.append(Axe().run(page, context="#content-main"))
    page.fill("#id_reason", "Holder hangs")
    page.click("text=Yes, free it")

    assert "The oldest slot of acme in exports is free." in page.inner_text(".messagelist")
    assert "1 running, 0 waiting" in page.inner_text("#content-main")
    assert [one.generate_report() for one in found if one.violations_count] == []
    for slot in slots + others:
        slot.release()
    fleet.end()
