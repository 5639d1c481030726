"""C184: clocks that change make a form error or a defined instant, and never a server error."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from tenantlimits.models import Change, Override, Tenant, UsageHour
from tests import rows
from tests.admin import forms

ADD = f"{forms.BASE}/override/add/"


@contextmanager
def browser_at(now: datetime, staff: User) -> Iterator[Client]:
    """Staff's browser at another time, in which the session begins, too."""
    with time_machine.travel(now, tick=False):
        client = Client()
        client.force_login(staff)
        yield client


@pytest.mark.parametrize(
    ("now", "day"),
    [
        (datetime(2027, 3, 20, 12, tzinfo=UTC), "2027-03-28"),  # 02:30 does not exist
        (datetime(2026, 10, 20, 12, tzinfo=UTC), "2026-10-25"),  # 02:30 comes twice
    ],
)
def test_an_end_inside_a_clock_change_is_a_form_error(
    staff: User, acme: Tenant, settings: LazySettings, now: datetime, day: str
):
    settings.TIME_ZONE = "Europe/Berlin"

    with browser_at(now, staff) as browser:
        answer = browser.post(ADD, forms.override(acme, ends_in="", expires_at_0=day, expires_at_1="02:30"))

    assert "it may be ambiguous or it may not exist" in forms.errors(answer)
    assert not Override.objects.exists()


def test_an_end_on_such_a_day_is_the_instant_that_the_zone_means(staff: User, acme: Tenant, settings: LazySettings):
    settings.TIME_ZONE = "Europe/Berlin"

    with browser_at(datetime(2027, 3, 20, 12, tzinfo=UTC), staff) as browser:
        browser.post(ADD, forms.override(acme, ends_in="", expires_at_0="2027-03-28", expires_at_1="03:30"))
        listed = forms.text(browser, "/override/")

    assert Override.objects.get().expires_at == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    assert "28 Mar 2027, 03:30 CEST" in listed


@pytest.mark.parametrize(
    ("zone", "now"),
    [
        ("Europe/Berlin", datetime(2027, 3, 28, 1, 0, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("America/Sao_Paulo", datetime(2016, 10, 16, 3, 0, tzinfo=UTC)),  # that day has no midnight
        ("Africa/Cairo", datetime(2026, 4, 23, 22, 0, tzinfo=UTC)),
        ("Asia/Beirut", datetime(2026, 3, 28, 22, 0, tzinfo=UTC)),
    ],
)
def test_every_page_opens_and_drills_down_on_a_day_of_a_clock_change(
    staff: User, acme: Tenant, settings: LazySettings, zone: str, now: datetime
):
    settings.TIME_ZONE = zone
    local = now.astimezone(ZoneInfo(zone))

    with browser_at(now, staff) as browser:
        rows.override(acme, starts_at=now, expires_at=now + timedelta(days=1)).save()
        for hours in range(-30, 31):
            UsageHour.objects.create(tenant=acme, lane="reads", source="here", start=now + timedelta(hours=hours))
        day = {"year": local.year, "month": local.month, "day": local.day}
        for page, field in (("usagehour", "start"), ("change", "at"), ("override", "starts_at")):
            for parts in (("year",), ("year", "month"), ("year", "month", "day")):
                query = {f"{field}__{part}": day[part] for part in parts}
                assert browser.get(f"{forms.BASE}/{page}/", query).status_code == 200
        assert browser.get(ADD).status_code == 200
        assert browser.get(forms.change(acme)).status_code == 200
        counted = browser.get(f"{forms.BASE}/usagehour/", {f"start__{part}": value for part, value in day.items()})

    assert counted.context["cl"].result_count in (23, 24, 25)
    assert Change.objects.exists()


@pytest.mark.parametrize("query", [{"start__year": "abc"}, {"start__year": "99999"}, {"start__month": "13"}])
def test_a_date_that_is_none_is_a_way_back(browser: Client, query: dict[str, str]):
    assert browser.get(f"{forms.BASE}/usagehour/", query).status_code in (200, 302)
