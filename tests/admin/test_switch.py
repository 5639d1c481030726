"""The switch of the whole site: said in words, confirmed, with a reason and who."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from tenantlimits.gate import admit
from tenantlimits.models import Change, Limit, Switch, Tenant, Tier
from tests.admin import forms

SWITCH = f"{forms.BASE}/switch/"


def turned(**values: Any) -> dict[str, str]:
    return {"mode": "off", "reason": "Incident 42"} | values


def test_the_page_says_where_it_is_and_what_each_position_does(browser: Client):
    page = forms.text(browser, "/switch/")

    assert "The switch is at <strong>enforce</strong>" in page
    assert "Nobody has turned it yet." in page
    assert "one tenant can crowd out all others" in page


def test_it_is_turned_only_after_a_second_yes(browser: Client, staff: User):
    asked = browser.post(SWITCH, turned()).content.decode()
    assert "Turn it to <strong>off</strong> for the whole site?" in asked
    assert not Switch.objects.exists()

    answer = browser.post(SWITCH, turned(confirmed="yes"), follow=True)

    switch = Switch.objects.get()
    assert (switch.mode, switch.reason, switch.changed_by) == ("off", "Incident 42", staff)
    assert "Turned by sam: “Incident 42”" in answer.content.decode()
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Turned to off: Incident 42"]
    line = Change.objects.get(model="switch")
    assert (line.actor, line.reason) == (staff, "Incident 42")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"reason": " "}, "This field is required"),
        ({"reason": "x" * 501}, "at most 500 characters"),
        ({"mode": "on"}, "Select a valid choice"),
        ({"mode": "enforce"}, "It is at enforce already."),
    ],
)
def test_what_may_not_be_is_a_form_error(browser: Client, values: dict[str, str], words: str):
    answer = browser.post(SWITCH, turned(confirmed="yes", **values))

    assert words in answer.content.decode()
    assert not Switch.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_is_in_force_for_the_next_decision(browser: Client):
    tier = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=tier, name="all-rate", amount=0, period_seconds=1)
    Tenant.objects.create(key="acme")
    assert admit(lane="reads", tenant="acme").refused

    browser.post(SWITCH, turned(confirmed="yes"))
    assert admit(lane="reads", tenant="acme").allowed

    browser.post(SWITCH, turned(confirmed="yes", mode="enforce"))
    assert admit(lane="reads", tenant="acme").refused


def test_two_identical_forms_turn_it_once(browser: Client):
    """C182"""
    browser.post(SWITCH, turned(confirmed="yes"))
    second = browser.post(SWITCH, turned(confirmed="yes"))

    assert "It is at off already." in second.content.decode()
    assert Change.objects.filter(model="switch").count() == 1


def test_there_is_no_other_way_to_it(browser: Client):
    browser.post(SWITCH, turned(confirmed="yes"))

    assert browser.get(f"{SWITCH}1/change/").url == SWITCH
    assert browser.get(f"{SWITCH}1/history/").status_code == 200
    assert browser.post(f"{SWITCH}1/delete/", {"post": "yes"}).status_code == 403
    assert Switch.objects.exists()


def test_its_history_before_anybody_turned_it_is_a_way_back(browser: Client):
    assert browser.get(f"{SWITCH}1/history/").status_code == 302
