"""The app's index: what to do next."""

from typing import Any

from django.test import Client
from django.utils import timezone

from tenantlimits.models import Limit, Switch, Tenant, Tier, UsageHour
from tests.admin import forms


def test_a_fresh_install_says_what_to_do_next(browser: Client):
    page = forms.text(browser, "/")

    assert "There is no tier free" in page
    assert f'href="{forms.BASE}/tier/add/?slug=free&amp;name=Free"' in page
    assert "No tenant has been seen yet" in page
    assert "tenantlimits_doctor" in page
    assert "No usage has been written yet" in page
    assert "tenantlimits_flush" in page


def test_a_site_at_work_says_nothing(browser: Client):
    tier = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=tier, name="all-rate", amount=2, period_seconds=1)
    Tier.objects.filter(slug="anonymous").update(mode="enforce")
    acme = Tenant.objects.create(key="acme")
    UsageHour.objects.create(tenant=acme, lane="reads", source="here", start=timezone.now())

    assert "tl-steps" not in forms.text(browser, "/")


def test_a_switch_that_is_not_at_enforce_comes_first(browser: Client):
    Switch.objects.create(mode="off", reason="Incident 42")

    page = forms.text(browser, "/")

    assert page.index("The switch of the whole site is at off") < page.index("There is no tier free")
    assert "Incident 42" in page


def test_who_may_only_look_sees_what_is_wrong_but_no_link_to_what_they_may_not_do(viewer: Client):
    page = forms.text(viewer, "/")

    assert "There is no tier free" in page
    assert "/tier/add/" not in page


def test_settings_that_are_wrong_are_a_step_and_no_server_error(browser: Client, settings: Any, host: dict[str, Any]):
    # With our middleware the site would not even start.
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if not name.startswith("tenantlimits.")]
    settings.TENANTLIMITS = host | {"ANONYMOUS_TIER": 7}

    assert "ANONYMOUS_TIER" in forms.text(browser, "/")


def test_an_anonymous_tier_without_a_row_is_loud(browser: Client, settings: Any, host: dict[str, Any]):
    settings.TENANTLIMITS = host | {"ANONYMOUS_TIER": "strangers"}

    page = forms.text(browser, "/")

    assert "There is no tier strangers" in page
    assert "every caller without a tenant is counted, but NOT limited" in page
