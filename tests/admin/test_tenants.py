"""Tenants: what is in force for them, how much is used now, and on which tier they are."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tenantlimits.gate import admit, hold
from tenantlimits.models import Change, Limit, Override, Tenant, Tier
from tests import rows
from tests.admin import forms

TENANTS = f"{forms.BASE}/tenant/"


def form(tenant: Tenant, **values: Any) -> dict[str, Any]:
    """The form of a tenant as its page would send it."""
    typed = {"name": tenant.name, "tier": tenant.tier_id or "", "time_zone": tenant.time_zone, "mode": tenant.mode}
    return typed | values


@pytest.fixture
def free(db: None) -> Tier:
    tier = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=tier, name="all-rate", amount=2, period_seconds=1, burst=10)
    return tier


@pytest.mark.django_db(transaction=True)
def test_the_page_shows_tier_override_in_force_and_use_of_now(browser: Client, acme: Tenant):
    rows.override(acme, target="all-rate", amount=40, expires_at=timezone.now() + timedelta(days=3)).save()
    with hold(lane="exports", tenant="acme"):
        admit(lane="exports", tenant="acme")

        page = browser.get(forms.change(acme)).context["effective"]

    rate, cap = page.limits
    assert rate.tier_words == "20 / second, burst 60"
    assert (rate.words, rate.override.reason, rate.override_ends) == (
        "40 / second, burst 120",
        "Black Friday",
        "ends in 3 days",
    )
    assert "of 120" in rate.used
    assert (cap.words, cap.used) == ("6 at once", "1 of 6 in flight (16 %)")


def test_it_links_to_a_new_override_of_each_limit_and_to_all_there_are(browser: Client, acme: Tenant):
    page = browser.get(forms.change(acme)).content.decode()

    assert f'href="{forms.BASE}/override/add/?tenant={acme.pk}&amp;target=exports-cap"' in page
    assert f'href="{forms.BASE}/override/?tenant__id__exact={acme.pk}"' in page


def test_an_unlimited_limit_has_no_percentage(browser: Client, acme: Tenant):
    """C188"""
    rows.override(acme, target="exports-cap", amount=None, unlimited=True).save()

    page = browser.get(forms.change(acme)).context["effective"]

    cap = next(one for one in page.limits if one.name == "exports-cap")
    assert (cap.words, cap.used, cap.meter) == ("unlimited", "0 in flight", "")


def test_a_blocked_limit_is_loud(browser: Client, acme: Tenant):
    """C188"""
    rows.override(acme, amount=0).save()

    rate = browser.get(forms.change(acme)).context["effective"].limits[0]

    assert (rate.promise, rate.state_words) == ("blocks everything", "Blocked")


def test_overrides_that_begin_later_or_have_lost_their_target_are_listed(browser: Client, acme: Tenant):
    soon = timezone.now() + timedelta(days=2)
    rows.override(acme, reason="Later", starts_at=soon, expires_at=soon + timedelta(days=1)).save()
    rows.override(acme, target="exports-cap", reason="Orphan").save()
    Limit.objects.get(name="exports-cap").delete()

    page = browser.get(forms.change(acme)).content.decode()

    assert "begins in 2 days" in page
    assert "tier pro has no such limit: it changes nothing" in page


def test_a_lent_tier_is_named_with_its_end(browser: Client, acme: Tenant, free: Tier):
    rows.override(acme, target="tier:free", amount=None, reason="Trial").save()

    page = browser.get(forms.change(acme)).content.decode()

    assert "Tier Free (free)" in page
    assert "“Trial”" in page


def test_a_tenant_whose_tier_has_no_row_is_shown_as_not_limited(browser: Client):
    bolt = Tenant.objects.create(key="bolt")

    assert "it is counted, but NOT limited" in browser.get(forms.change(bolt)).content.decode()


def test_an_unreachable_store_is_said_and_the_numbers_in_force_are_still_there(
    browser: Client, acme: Tenant, settings: Any
):
    settings.CACHES = {
        "default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"},
    }

    page = browser.get(forms.change(acme)).content.decode()

    assert "The store is unreachable" in page
    assert "unknown: store unreachable" in page
    assert "20 / second, burst 60" in page


def test_the_anonymous_row_is_shown_as_what_it_is(browser: Client):
    nobody = Tenant.objects.anonymous()

    page = browser.get(forms.change(nobody)).content.decode()
    browser.post(
        forms.change(nobody), {"name": "Strangers", "key": "acme", "tier": "", "time_zone": "", "mode": "enforce"}
    )

    assert "none: callers without a tenant" in page
    assert "anonymous (ANONYMOUS_TIER)" in page
    assert "counted per address" in page
    assert 'name="key"' not in page
    nobody.refresh_from_db()
    assert (nobody.key, nobody.name) == ("", "Strangers")


def test_another_tier_needs_a_reason_and_goes_through_set_tier(browser: Client, staff: User, acme: Tenant, free: Tier):
    refused = browser.post(forms.change(acme), form(acme, tier=free.pk))
    browser.post(forms.change(acme), form(acme, tier=free.pk, why="Subscription 4711 downgraded"))

    assert "Say why" in forms.errors(refused)
    line = Change.objects.filter(model="tenant", action="changed").get()
    assert line.changes == {"tier": ["pro", "free"]}
    assert (line.actor, line.reason) == (staff, "Subscription 4711 downgraded")
    assert LogEntry.objects.filter(user=staff, object_id=str(acme.pk)).count() == 1


def test_tier_and_name_may_change_together(browser: Client, acme: Tenant, free: Tier):
    browser.post(forms.change(acme), form(acme, tier="", name="Acme Ltd", why="Moved to the default"))

    acme.refresh_from_db()
    assert (acme.tier, acme.name) == (None, "Acme Ltd")


def test_a_tier_without_limits_is_refused(browser: Client, acme: Tenant):
    empty = Tier.objects.create(slug="empty", name="Empty")

    answer = browser.post(forms.change(acme), form(acme, tier=empty.pk, why="x"))

    assert "has no limits, so that its tenants would be unlimited by accident" in forms.errors(answer)


def test_a_time_zone_that_is_none_is_a_form_error(browser: Client, acme: Tenant):
    answer = browser.post(forms.change(acme), form(acme, time_zone="Mars/Olympus"))

    assert "is not a time zone: write an IANA name" in forms.errors(answer)


def test_the_key_stays_and_a_tenant_is_never_deleted(browser: Client, acme: Tenant):
    browser.post(forms.change(acme), form(acme, key="bolt"))
    answer = browser.post(f"{TENANTS}{acme.pk}/delete/", {"post": "yes"})

    acme.refresh_from_db()
    assert acme.key == "acme"
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("slug", "keys"), [("pro", ["acme"]), ("free", ["bolt"]), ("anonymous", [""]), ("nonsense", [])]
)
def test_the_list_is_filtered_by_tier_also_where_the_settings_give_it(
    browser: Client, acme: Tenant, free: Tier, slug: str, keys: list[str]
):
    Tenant.objects.create(key="bolt")

    found = browser.get(TENANTS, {"tier": slug}).context["cl"].result_list

    assert [tenant.key for tenant in found] == keys


def test_the_list_is_searched_by_key_and_name(browser: Client, acme: Tenant):
    Tenant.objects.create(key="org-17", name="Bolt")

    assert [row.key for row in browser.get(TENANTS, {"q": "bolt"}).context["cl"].result_list] == ["org-17"]
    assert [row.key for row in browser.get(TENANTS, {"q": "acm"}).context["cl"].result_list] == ["acme"]


def test_a_tenant_is_added_by_hand_once(browser: Client, pro: Tier):
    typed = {"key": "bolt", "name": "", "tier": pro.pk, "time_zone": "Europe/Paris", "mode": "enforce"}

    browser.post(f"{TENANTS}add/", typed)
    second = browser.post(f"{TENANTS}add/", typed)

    assert "already exists" in forms.errors(second)
    assert Tenant.objects.get(key="bolt").tier == pro


def test_the_page_of_a_tenant_that_is_not_there_is_a_way_back(browser: Client):
    assert browser.get(f"{TENANTS}4711/change/").status_code == 302
    assert Override.objects.count() == 0
