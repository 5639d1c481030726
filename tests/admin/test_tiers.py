"""Tiers: typed in words, never emptied by accident, and loud about what is not limited."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from tenantlimits.models import Change, Limit, Tenant, Tier, UsageHour
from tests.admin import forms

TIERS = f"{forms.BASE}/tier/"


def test_a_limit_is_typed_in_one_text_and_its_promise_stands_beside_it(browser: Client):
    answer = browser.post(f"{TIERS}add/", forms.tier(forms.limit(rate="500/min"), _continue="1"), follow=True)

    row = Limit.objects.get(tier__slug="free")
    assert (row.amount, row.period_seconds) == (500, 60)
    page = answer.content.decode()
    assert 'value="500/min"' in page
    assert "at most 1,000 in any minute" in page


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ({"rate": "12/3s", "kind": "sliding_log"}, (12, 3)),
        ({"rate": "10000/day", "kind": "calendar_quota"}, (10_000, 86_400)),
        ({"rate": "500/min", "kind": "sliding_counter", "guarantee": "fuse"}, (500, 60)),
        ({"rate": "6", "kind": "concurrency"}, (6, None)),
        ({"rate": "0/s"}, (0, 1)),
        ({"rate": "unlimited"}, (None, 60)),
        ({"rate": "unlimited", "kind": "calendar_quota"}, (None, 86_400)),
        ({"rate": "unlimited", "kind": "concurrency"}, (None, None)),
    ],
)
def test_every_kind_takes_its_amount_in_words(
    browser: Client, typed: dict[str, Any], stored: tuple[int | None, int | None]
):
    browser.post(f"{TIERS}add/", forms.tier(forms.limit(**typed)))

    row = Limit.objects.get(tier__slug="free")
    assert (row.amount, row.period_seconds) == stored


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"rate": "lots"}, "is not a limit: write amount/period"),
        ({"rate": ""}, "Write amount/period"),
        ({"rate": "6"}, "give a period of 1 second to a year, such as 500/min"),
        ({"rate": "6/s", "kind": "concurrency"}, "a concurrency cap has no period"),
        ({"rate": "200/s", "kind": "sliding_log"}, "a sliding log holds at most 128 units"),
        ({"rate": "5/s", "kind": "sliding_counter"}, "a sliding counter is approximate, so it can only be a fuse"),
        ({"rate": "5/3s", "kind": "calendar_quota"}, "a calendar quota runs per hour, day, week or month"),
        ({"rate": "5/h", "kind": "calendar_quota", "burst": "9"}, "only a token bucket has a burst"),
        ({"lane": "export"}, "Select a valid choice. export"),
        ({"name": "two words"}, "Enter a valid “slug”"),
        ({"anchor_day": "32"}, "the anchor day is a day of the month"),
    ],
)
def test_a_limit_that_means_nothing_is_a_form_error_in_words(browser: Client, typed: dict[str, Any], words: str):
    answer = browser.post(f"{TIERS}add/", forms.tier(forms.limit(**typed)))

    assert words in forms.errors(answer)
    assert not Tier.objects.filter(slug="free").exists()


def test_an_unlimited_limit_keeps_the_period_that_it_had(browser: Client):
    tier = Tier.objects.create(slug="free", name="Free")
    row = Limit.objects.create(tier=tier, name="all-hour", amount=5, period_seconds=3600)

    browser.post(forms.change(tier), forms.tier(forms.stored(row, rate="unlimited"), initial=1))

    row.refresh_from_db()
    assert (row.amount, row.period_seconds) == (None, 3600)


def test_a_tier_without_limits_is_refused(browser: Client):
    """C181"""
    answer = browser.post(f"{TIERS}add/", forms.tier())

    assert "A tier keeps at least one limit" in forms.errors(answer)
    assert not Tier.objects.filter(slug="free").exists()


def test_the_last_limit_stays_and_the_form_says_why(browser: Client, pro: Tier):
    """C181"""
    limits = [
        forms.stored(row, rate=rate, DELETE="on") for row, rate in zip(pro.limits.all(), ["20/s", "6"], strict=True)
    ]

    answer = browser.post(forms.change(pro), forms.tier(*limits, initial=2, name="Pro"))

    assert "its tenants would be unlimited by accident" in forms.errors(answer)
    assert pro.limits.count() == 2


def test_the_last_limit_may_be_replaced_by_another_in_one_go(browser: Client, acme: Tenant):
    tier = acme.tier
    assert tier is not None
    Limit.objects.get(name="exports-cap").delete()
    old = forms.stored(Limit.objects.get(name="all-rate"), rate="20/s", DELETE="on")

    browser.post(forms.change(tier), forms.tier(old, forms.limit(name="all-day", rate="9/day"), initial=1, name="Pro"))

    assert [row.name for row in tier.limits.all()] == ["all-day"]


def test_two_identical_forms_add_a_limit_once(browser: Client, pro: Tier):
    """C182"""
    limits = [forms.stored(row, rate=rate) for row, rate in zip(pro.limits.all(), ["20/s", "6"], strict=True)]
    form = forms.tier(*limits, forms.limit(name="new"), initial=2, name="Pro")

    browser.post(forms.change(pro), form)
    second = browser.post(forms.change(pro), form)

    assert second.status_code == 200
    assert "already has a limit of this name" in forms.errors(second)
    assert pro.limits.filter(name="new").count() == 1


def test_the_slug_stays(browser: Client, pro: Tier):
    limits = [forms.stored(row, rate=rate) for row, rate in zip(pro.limits.all(), ["20/s", "6"], strict=True)]

    browser.post(forms.change(pro), forms.tier(*limits, initial=2, slug="gold", name="Gold"))

    pro.refresh_from_db()
    assert (pro.slug, pro.name) == ("pro", "Gold")


def test_another_mode_needs_a_reason_which_the_change_log_keeps(browser: Client, staff: Any, pro: Tier):
    limits = [forms.stored(row, rate=rate) for row, rate in zip(pro.limits.all(), ["20/s", "6"], strict=True)]

    refused = browser.post(forms.change(pro), forms.tier(*limits, initial=2, name="Pro", mode="off"))
    browser.post(forms.change(pro), forms.tier(*limits, initial=2, name="Pro", mode="off", why="Incident 42"))

    assert "Say why" in forms.errors(refused)
    line = Change.objects.filter(model="tier").first()
    assert line is not None
    assert (line.changes, line.actor, line.reason) == ({"mode": ["enforce", "off"]}, staff, "Incident 42")
    assert LogEntry.objects.filter(user=staff, object_id=str(pro.pk)).exists()


def test_a_tier_in_use_is_not_deleted_and_the_page_says_what_to_do(browser: Client, acme: Tenant):
    """C181"""
    tier = acme.tier
    assert tier is not None

    asked = browser.get(f"{TIERS}{tier.pk}/delete/").content.decode()
    answer = browser.post(f"{TIERS}{tier.pk}/delete/", {"post": "yes"})
    several = browser.post(TIERS, {"action": "delete_selected", "_selected_action": [tier.pk], "post": "yes"})

    assert "1 tenant is on tier pro: move it to another tier first." in asked
    assert (answer.status_code, several.status_code) == (200, 200)
    assert "none of them was deleted" in several.content.decode()
    assert Tier.objects.filter(pk=tier.pk).exists()


def test_a_tier_that_the_settings_name_is_not_deleted(browser: Client):
    tier = Tier.objects.create(slug="free", name="Free")

    page = browser.get(f"{TIERS}{tier.pk}/delete/").content.decode()

    assert "it is DEFAULT_TIER of the settings" in page
    browser.post(f"{TIERS}{tier.pk}/delete/", {"post": "yes"})
    assert Tier.objects.filter(pk=tier.pk).exists()


def test_a_tier_that_nobody_uses_is_deleted_with_its_limits(browser: Client, pro: Tier):
    browser.post(f"{TIERS}{pro.pk}/delete/", {"post": "yes"})

    assert not Tier.objects.filter(slug="pro").exists()
    assert Change.objects.filter(model="limit", action="deleted").count() == 2


def test_the_list_counts_limits_and_tenants_by_their_own_row_or_by_default(browser: Client, acme: Tenant):
    Tier.objects.create(slug="free", name="Free")
    Tenant.objects.create(key="bolt")
    Tenant.objects.create(key="cedar")

    listed = {row.slug: row for row in browser.get(TIERS).context["cl"].result_list}

    assert (listed["pro"].limit_count, listed["pro"].tenant_count) == (2, 1)
    assert (listed["free"].limit_count, listed["free"].tenant_count) == (0, 2)


def test_while_the_default_tier_has_no_row_the_list_says_so_and_links_to_its_form(browser: Client):
    page = forms.text(browser, "/tier/")

    assert "There is no tier free, which the settings name" in page
    assert "NOT limited" in page
    assert f'href="{TIERS}add/?slug=free&amp;name=Free"' in page
    assert 'value="free"' in browser.get(f"{TIERS}add/?slug=free&name=Free").content.decode()


def test_once_the_default_tier_has_a_row_the_list_asks_for_its_limits(browser: Client):
    tier = Tier.objects.create(slug="free", name="Free")
    page = forms.text(browser, "/tier/")
    assert "There is no tier free" not in page
    assert "Tier free is in use and has no limits" in page

    Limit.objects.create(tier=tier, name="all-rate", amount=2, period_seconds=1)

    assert "Tier free is in use" not in forms.text(browser, "/tier/")


def test_the_observing_tier_says_what_it_would_have_refused_in_a_day(browser: Client):
    nobody = Tenant.objects.anonymous()
    now = timezone.now()
    hour = {"tenant": nobody, "lane": "reads", "source": "here"}
    UsageHour.objects.create(
        **hour, start=now - timedelta(hours=1), requests=40_000, observed_by={"anonymous-rate": 300}
    )
    UsageHour.objects.create(**hour, start=now - timedelta(hours=2), requests=210, observed_by={"anonymous-rate": 12})
    UsageHour.objects.create(**hour, start=now - timedelta(hours=25), requests=7, observed_by={"anonymous-rate": 7})

    page = forms.text(browser, "/tier/")

    assert "it would have refused 312 (anonymous-rate) of 40,210 requests" in page
    assert "Enforce it once" in page


def test_an_observing_tier_that_would_have_refused_nothing_says_that_too(browser: Client):
    assert "no request without a tenant was counted" in forms.text(browser, "/tier/")
    UsageHour.objects.create(
        tenant=Tenant.objects.anonymous(), lane="reads", source="here", start=timezone.now(), requests=5
    )
    assert "it would have refused none of 5 requests" in forms.text(browser, "/tier/")


def test_once_it_enforces_the_list_says_nothing_more_of_it(browser: Client):
    Tier.objects.filter(slug="anonymous").update(mode="enforce")

    assert "only observes" not in forms.text(browser, "/tier/")
