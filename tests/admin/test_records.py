"""Usage and the change log, to be read; and what users wrote is never markup."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tenantlimits.changes import acting
from tenantlimits.models import Limit, Override, Switch, Tenant, Tier, UsageHour
from tests import rows
from tests.admin import forms

NAME = '"><img src=x onerror=alert(1)>'
REASON = "<script>alert(2)</script>"


def test_usage_is_listed_with_who_refused(browser: Client, acme: Tenant):
    UsageHour.objects.create(
        tenant=acme, lane="reads", source="here", start=timezone.now(), requests=1000, allowed=990, refused=10,
        refused_by={"all-rate": 7, "reads-day": 3}, observed_by={"trial": 2}, waited_ms=1500,
    )  # fmt: skip

    page = forms.text(browser, "/usagehour/")

    assert "all-rate: 7, reads-day: 3" in page
    assert "trial: 2" in page


@pytest.mark.parametrize(("query", "found"), [({"lane": "reads"}, 1), ({"lane": "exports"}, 0), ({"q": "acm"}, 1)])
def test_usage_is_filtered_and_searched(browser: Client, acme: Tenant, query: dict[str, str], found: int):
    UsageHour.objects.create(tenant=acme, lane="reads", source="here", start=timezone.now())

    assert browser.get(f"{forms.BASE}/usagehour/", query).context["cl"].result_count == found


def test_the_log_says_who_changed_what_from_what_to_what_and_why(browser: Client, staff: User, pro: Tier):
    with acting(staff, "Incident 42"):
        pro.mode = "observe"
        pro.save()

    page = forms.text(browser, "/change/")

    assert "enforce → observe" in page
    assert "Incident 42" in page
    assert "sam" in page


@pytest.mark.parametrize("query", [{"action": "created"}, {"model": "tier"}, {"q": "pro"}])
def test_the_log_is_filtered_and_searched(browser: Client, pro: Tier, query: dict[str, str]):
    assert browser.get(f"{forms.BASE}/change/", query).context["cl"].result_count > 0


def test_what_users_wrote_is_escaped_on_every_page(browser: Client, staff: User):
    """C185"""
    staff.username = NAME
    staff.save()
    tier = Tier.objects.create(slug="free", name=NAME, description=REASON)
    Limit.objects.create(tier=tier, name="all-rate", lane="all", amount=2, period_seconds=1)
    Limit.objects.create(tier=tier, name="cap", lane="all", kind="concurrency", amount=2)
    tenant = Tenant.objects.create(key=f"{REASON}</td>", name=NAME)
    now = timezone.now()
    with acting(staff, REASON):
        first = rows.override(tenant, reason=REASON, note=REASON)
        first.save()
        rows.override(tenant, target="cap", reason=REASON, expires_at=now + timedelta(days=2)).save()
        rows.override(tenant, target="tier:free", amount=None, reason=REASON).save()
        Switch(mode="observe", reason=REASON).save()
    Limit.objects.get(name="cap").delete()
    usage = UsageHour.objects.create(tenant=tenant, lane="</td>", source=NAME, start=now, refused_by={REASON: 1})
    line = tenant.changes.latest("pk")
    paths = [
        "/", "/tier/", "/tenant/", "/override/", "/switch/", "/usagehour/", "/change/", f"/tier/{tier.pk}/change/",
        f"/tier/{tier.pk}/delete/", f"/tenant/{tenant.pk}/change/", f"/tenant/{tenant.pk}/history/",
        f"/override/{first.pk}/change/", f"/override/{first.pk}/revoke/",
        f"/override/add/?tenant={tenant.pk}&target={NAME}", f"/usagehour/{usage.pk}/change/",
        f"/change/{line.pk}/change/",
    ]  # fmt: skip

    pages = {path: forms.text(browser, path) for path in paths}
    answer = browser.post(
        f"{forms.BASE}/override/{first.pk}/revoke/", {"confirmed": "yes", "reason": REASON}, follow=True
    )
    pages["messages"] = answer.content.decode()

    for path, page in pages.items():
        assert "<img src=x" not in page, path
        assert "<script>alert" not in page, path
        assert "</td></td>" not in page.replace(" ", ""), path
    assert Override.objects.filter(revoke_reason=REASON).exists()
