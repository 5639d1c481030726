"""Shares of pools: on the tier's page, as overrides, and what is in force of them for a tenant."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.utils import timezone

from tenantlimits.models import Change, Override, Share, Tenant, Tier
from tests import rows
from tests.admin import forms

TIERS = f"{forms.BASE}/tier/"
ADD = f"{forms.BASE}/override/add/"


@pytest.fixture(autouse=True)
def pools(host: dict[str, Any], settings: LazySettings) -> None:
    settings.TENANTLIMITS = host | {"POOLS": rows.POOLS}


def share(**values: Any) -> dict[str, Any]:
    """The fields of one share as typed: 4 slots of exports."""
    return {"pool": "exports", "slots": "4", "queue": ""} | values


def tier(*shares: dict[str, Any], initial: int = 0, row: Tier | None = None, **values: Any) -> dict[str, Any]:
    """The form of a tier with these shares, of which the first `initial` have rows already."""
    limits = [forms.limit()]
    if row is not None:
        limits = [forms.stored(limit, rate=rate) for limit, rate in zip(row.limits.all(), ["20/s", "6"], strict=True)]
        values |= {"name": row.name}
    form = forms.tier(*limits, initial=0 if row is None else len(limits), **values)
    form |= {"shares-TOTAL_FORMS": len(shares), "shares-INITIAL_FORMS": initial}
    for number, typed in enumerate(shares):
        form |= {f"shares-{number}-{name}": value for name, value in typed.items()}
    return form


def stored(row: Share, **values: Any) -> dict[str, Any]:
    """The fields of a share that has a row, as its page sends them."""
    queue = "" if row.queue is None else row.queue
    return share(id=row.pk, tier=row.tier_id, pool=row.pool, slots=row.slots, queue=queue) | values


def test_shares_are_typed_beside_the_limits_and_their_promise_stands_there(browser: Client):
    """C5"""
    typed = [share(), share(pool="reports", slots="0", queue="5")]

    answer = browser.post(f"{TIERS}add/", tier(*typed, _continue="1"), follow=True)

    free = Tier.objects.get(slug="free")
    assert [(one.pool, one.slots, one.queue) for one in free.shares.all()] == [("exports", 4, None), ("reports", 0, 5)]
    assert "4 at once whenever slots are free; more while nobody else waits" in answer.content.decode()
    assert "blocks everything" in answer.content.decode()


def test_an_empty_line_is_no_share(browser: Client):
    browser.post(f"{TIERS}add/", tier(share(pool="", slots="")))

    assert Tier.objects.filter(slug="free").exists()
    assert not Share.objects.exists()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"slots": "11"}, "11 slots are more than pool exports has for everyone: write at most 10"),
        ({"slots": "-1"}, "greater than or equal to 0"),
        ({"slots": ""}, "This field is required"),
        ({"slots": "4/min"}, "Enter a whole number"),
        ({"slots": "9999999999"}, "whole number of slots from 0"),
        ({"queue": "-1"}, "greater than or equal to 0"),
        ({"pool": "export"}, "Select a valid choice. export"),
        ({"pool": ""}, "This field is required"),
    ],
)
def test_a_share_that_means_nothing_is_a_form_error_in_words(browser: Client, typed: dict[str, Any], words: str):
    answer = browser.post(f"{TIERS}add/", tier(share(**typed)))

    assert answer.status_code == 200
    assert words in forms.errors(answer)
    assert not Tier.objects.filter(slug="free").exists()


def test_two_shares_of_one_pool_are_a_form_error(browser: Client):
    answer = browser.post(f"{TIERS}add/", tier(share(), share(slots="5")))

    assert "duplicate" in forms.errors(answer)
    assert not Share.objects.exists()


def test_two_identical_forms_add_a_share_once(browser: Client, pro: Tier):
    """C182"""
    form = tier(share(), row=pro)

    browser.post(forms.change(pro), form)
    second = browser.post(forms.change(pro), form)

    assert "already has a share of this pool" in forms.errors(second)
    assert pro.shares.count() == 1


def test_a_share_is_changed_and_taken_out_with_who_and_why(browser: Client, staff: Any, pro: Tier):
    """V1"""
    row = Share.objects.create(tier=pro, pool="exports", slots=4)

    browser.post(forms.change(pro), tier(stored(row, slots="6"), initial=1, row=pro, why="Capacity review"))
    line = Change.objects.filter(model="share").latest("pk")
    browser.post(forms.change(pro), tier(stored(row, DELETE="on"), initial=1, row=pro))

    assert (line.changes, line.actor, line.reason) == ({"slots": [4, 6]}, staff, "Capacity review")
    assert not pro.shares.exists()


def test_a_share_whose_pool_is_gone_is_shown_as_such(browser: Client, pro: Tier, settings: LazySettings):
    Share.objects.create(tier=pro, pool="exports", slots=4)
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {}}

    page = browser.get(forms.change(pro)).content.decode()

    assert "exports (not in the settings)" in page
    assert "no such pool in the settings: it does nothing" in page


def test_without_pools_the_page_has_no_shares(browser: Client, pro: Tier, settings: LazySettings):
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {}}

    assert "shares-TOTAL_FORMS" not in browser.get(forms.change(pro)).content.decode()


def test_who_may_only_look_sees_shares_and_changes_none(viewer: Client, pro: Tier):
    Share.objects.create(tier=pro, pool="exports", slots=4)

    page = viewer.get(forms.change(pro)).content.decode()

    assert "4 at once whenever slots are free" in page
    assert 'name="shares-0-slots"' not in page


def test_an_override_of_a_share_is_granted_in_slots(browser: Client, acme: Tenant):
    """C5"""
    browser.post(ADD, forms.override(acme, target="share:exports", value="8"))

    override = Override.objects.get()
    assert (override.share_pool, override.amount) == ("exports", 8)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"value": "11"}, "more than pool exports has for everyone: write at most 10"),
        ({"value": "unlimited"}, "neither unlimited nor with a burst. For all of the pool write its capacity"),
        ({"value": "4/min"}, "A share is a number of slots, without a period: write 4"),
        ({"value": ""}, "write an amount, the slots"),
        ({"burst": "9"}, "neither unlimited nor with a burst"),
        ({"target": "share:export"}, "Did you mean &#x27;exports&#x27;"),
    ],
)
def test_what_no_share_can_be_is_a_form_error_in_words(
    browser: Client, acme: Tenant, typed: dict[str, Any], words: str
):
    answer = browser.post(ADD, forms.override(acme, **{"target": "share:exports", "value": "4"} | typed))

    assert answer.status_code == 200
    assert words in forms.errors(answer)
    assert not Override.objects.exists()


def test_the_form_lists_what_the_tenant_has_of_each_pool(browser: Client, acme: Tenant):
    Share.objects.create(tier=acme.tier, pool="exports", slots=4)

    page = browser.get(ADD, {"tenant": acme.pk, "target": "share:exports"}).content.decode()

    assert "<code>share:exports</code> (4 of 10 slots)" in page
    assert "<code>share:reports</code> (1 of 5 slots)" in page


def test_the_list_shows_the_share_before_and_after(browser: Client, acme: Tenant):
    Share.objects.create(tier=acme.tier, pool="exports", slots=4)
    rows.override(acme, target="share:exports", amount=8).save()

    page = forms.text(browser, "/override/")

    assert "4 of 10 slots → 8 of 10 slots" in page


def test_an_override_whose_pool_is_gone_is_shown_as_such(browser: Client, acme: Tenant, settings: LazySettings):
    rows.override(acme, target="share:exports", amount=8).save()
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {}}

    listed, effective = forms.text(browser, "/override/"), browser.get(forms.change(acme)).content.decode()

    assert "no pool exports in the settings: it changes nothing" in listed
    assert "no pool exports in the settings: it changes nothing" in effective


@pytest.mark.django_db(transaction=True)
def test_the_page_shows_tier_override_and_share_in_force(browser: Client, acme: Tenant):
    """C5"""
    Share.objects.create(tier=acme.tier, pool="exports", slots=4)
    end = timezone.now() + timedelta(days=3)
    rows.override(acme, target="share:exports", amount=8, expires_at=end).save()

    answer = browser.get(forms.change(acme))

    exports, reports = answer.context["effective"].shares
    assert (exports.tier_words, exports.words, exports.override_ends) == (
        "4 of 10 slots",
        "8 of 10 slots",
        "ends in 3 days",
    )
    assert (exports.scope_words, reports.scope_words) == ("of all processes", "of each process")
    assert (reports.tier_words, reports.words) == ("1 of 5 slots (not said)", "1 of 5 slots")
    assert answer.context["effective"].waiting == []
    assert f'href="{ADD}?tenant={acme.pk}&amp;target=share%3Aexports"' in answer.content.decode()
