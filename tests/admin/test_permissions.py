"""Who may only look sees everything and changes nothing; who may nothing sees nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from tenantlimits.models import Change, Override, Switch, Tenant, Tier, UsageHour
from tests import rows
from tests.admin import forms

LISTS = ["/", "/tier/", "/tenant/", "/override/", "/pool/", "/switch/", "/usagehour/", "/change/"]


@pytest.fixture
def override(acme: Tenant) -> Override:
    row = rows.override(acme)
    row.save()
    return row


@pytest.fixture
def usage(acme: Tenant) -> UsageHour:
    return UsageHour.objects.create(
        tenant=acme, lane="reads", source="here", start=timezone.now(), requests=9, refused_by={"all-rate": 3}
    )


@pytest.mark.parametrize("path", LISTS)
def test_every_page_opens_for_who_may_only_look(viewer: Client, override: Override, usage: UsageHour, path: str):
    forms.text(viewer, path)


def test_every_row_opens_for_who_may_only_look_and_has_no_field(viewer: Client, override: Override, usage: UsageHour):
    log = Change.objects.latest("pk")
    for row in (override.tenant, override.tenant.tier, override, usage, log, Tenant.objects.anonymous()):
        page = viewer.get(forms.change(row))

        assert page.status_code == 200
        assert 'name="_save"' not in page.content.decode()


def test_they_see_the_limits_of_a_tier_in_words(viewer: Client, pro: Tier):
    page = viewer.get(forms.change(pro)).content.decode()

    assert "20 / second" in page
    assert "at most 80 in any second" in page


@pytest.mark.parametrize(
    "post",
    [
        lambda one: (f"{forms.BASE}/tier/add/", forms.tier(forms.limit())),
        lambda one: (forms.change(one.tenant.tier), forms.tier(forms.limit(), name="Gold")),
        lambda one: (f"{forms.BASE}/tier/{one.tenant.tier_id}/delete/", {"post": "yes"}),
        lambda one: (f"{forms.BASE}/tenant/add/", {"key": "bolt", "mode": "enforce"}),
        lambda one: (forms.change(one.tenant), {"name": "Mine", "tier": "", "mode": "off", "why": "x"}),
        lambda one: (f"{forms.BASE}/override/add/", forms.override(one.tenant, target="exports-cap")),
        lambda one: (forms.change(one), forms.override(one.tenant, value="99")),
        lambda one: (f"{forms.BASE}/override/{one.pk}/revoke/", {"confirmed": "yes", "reason": "x"}),
        lambda one: (f"{forms.BASE}/switch/", {"mode": "off", "reason": "x", "confirmed": "yes"}),
    ],
)
def test_they_change_nothing(
    viewer: Client, override: Override, post: Callable[[Override], tuple[str, dict[str, Any]]]
):
    before = Change.objects.count()

    answer = viewer.post(*post(override))

    assert answer.status_code == 403
    assert Change.objects.count() == before
    assert not Switch.objects.exists()


def test_the_list_action_is_not_theirs_either(viewer: Client, override: Override):
    form = {"action": "revoke_selected", "_selected_action": [override.pk], "confirmed": "yes", "reason": "x"}

    viewer.post(f"{forms.BASE}/override/", form)

    override.refresh_from_db()
    assert override.revoked_at is None


def test_they_are_offered_nothing_that_they_may_not_do(viewer: Client, override: Override):
    tenant, one = viewer.get(forms.change(override.tenant)), viewer.get(forms.change(override))

    assert "/override/add/" not in tenant.content.decode()
    assert "/revoke/" not in one.content.decode()


@pytest.mark.parametrize("path", LISTS)
def test_staff_without_our_permissions_see_nothing(db: None, path: str):
    client = Client()
    client.force_login(User.objects.create_user("otto", password="otto", is_staff=True))

    assert client.get(forms.BASE + path).status_code in (403, 404)


def test_who_may_change_overrides_may_revoke_them(override: Override):
    user = User.objects.create_user("rita", password="rita", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_override", "change_override"]))
    client = Client()
    client.force_login(user)

    answer = client.post(f"{forms.BASE}/override/{override.pk}/revoke/", {"confirmed": "yes", "reason": "Done"})

    override.refresh_from_db()
    assert (answer.status_code, override.revoked_by) == (302, user)


@pytest.mark.parametrize("model", ["usagehour", "change"])
def test_records_are_nobodys_to_change(browser: Client, usage: UsageHour, model: str):
    row: Any = usage if model == "usagehour" else Change.objects.latest("pk")

    assert browser.get(f"{forms.BASE}/{model}/add/").status_code == 403
    assert browser.post(forms.change(row), {"requests": 1}).status_code == 403
    assert browser.post(f"{forms.BASE}/{model}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
