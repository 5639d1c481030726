"""Overrides: granted with a reason and an end, extended, revoked with a reason, never deleted."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from tenantlimits.gate import peek
from tenantlimits.models import Change, Limit, Override, Tenant, Tier
from tests import rows
from tests.admin import forms

OVERRIDES = f"{forms.BASE}/override/"
ADD = f"{OVERRIDES}add/"


def saved(tenant: Tenant, **values: Any) -> Override:
    override = rows.override(tenant, **values)
    override.save()
    return override


def ended(tenant: Tenant, **values: Any) -> Override:
    """An override that is over: history, written past the rules."""
    now = timezone.now()
    times = {"starts_at": now - timedelta(days=9), "expires_at": now - timedelta(days=2), "created_at": now}
    override = rows.override(tenant, **times | values)
    rows.written_raw(override)
    return Override.objects.latest("pk")


def test_an_override_is_granted_for_a_usual_time(browser: Client, staff: User, acme: Tenant):
    """V1: with a reason, an end and who made it."""
    answer = browser.post(ADD, forms.override(acme), follow=True)

    override = Override.objects.get()
    assert (override.amount, override.reason, override.created_by) == (40, "Black Friday import", staff)
    assert abs(override.expires_at - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)
    assert LogEntry.objects.filter(user=staff, object_id=str(override.pk)).count() == 1
    line = Change.objects.filter(model="override").get()
    assert (line.actor, line.reason) == (staff, "Black Friday import")
    assert f'href="{forms.change(acme)}#effective-limits"' in answer.content.decode()


def test_it_may_end_at_a_date_and_begin_later(browser: Client, acme: Tenant):
    day = (timezone.now() + timedelta(days=10)).date().isoformat()
    later = (timezone.now() + timedelta(days=20)).date().isoformat()

    browser.post(
        ADD,
        forms.override(
            acme,
            ends_in="",
            starts_at_0=day,
            starts_at_1="08:00",
            expires_at_0=later,
            expires_at_1="18:30",
            value="unlimited",
        ),
    )

    override = Override.objects.get()
    assert (override.amount, override.unlimited) == (None, True)
    assert override.starts_at == datetime.fromisoformat(f"{day}T08:00+00:00")
    assert override.expires_at == datetime.fromisoformat(f"{later}T18:30+00:00")


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"reason": ""}, "This field is required"),
        ({"reason": "   "}, "This field is required"),
        ({"reason": "x" * 5000}, "at most 500 characters"),
        ({"ends_in": ""}, "Every override ends: choose when, or write a date and time."),
        ({"ends_in": "", "expires_at_0": "2020-01-01", "expires_at_1": "00:00"}, "is not after the start"),
        ({"ends_in": "", "expires_at_0": "2999-01-01", "expires_at_1": "00:00"}, "is more than 90 days away"),
        ({"ends_in": "", "expires_at_0": "9999-12-31", "expires_at_1": "23:59"}, "is more than 90 days away"),
        ({"ends_in": "", "expires_at_0": "0001-01-01", "expires_at_1": "00:00"}, "is not after the start"),
        ({"ends_in": "", "expires_at_0": "2026-13-01", "expires_at_1": "00:00"}, "Enter a valid date"),
        ({"ends_in": "", "expires_at_0": "2027-01-01", "expires_at_1": ""}, "Enter a valid time"),
        ({"expires_at_0": "2027-01-01", "expires_at_1": "00:00"}, "not both"),
        ({"ends_in": "365"}, "Select a valid choice"),
        ({"target": ""}, "This field is required"),
        ({"target": "all-rates"}, "has no limit &#x27;all-rates&#x27; on tier pro: there are all-rate, exports-cap."),
        ({"target": "tier:gold", "value": ""}, "There is no tier &#x27;gold&#x27; to lend"),
        ({"target": "tier:anonymous", "value": "5"}, "lends a whole tier: leave amount and burst empty"),
        ({"value": ""}, "write an amount (0 blocks), or choose unlimited"),
        ({"value": "lots"}, "Write a whole number"),
        ({"value": "1.5"}, "Write a whole number"),
        ({"value": "-1"}, "Write a whole number"),
        ({"value": "1000000000001"}, "Write a whole number of at most 1,000,000,000,000"),
        ({"value": "40/min"}, "An override keeps the limit&#x27;s own period: write 40/s"),
        ({"burst": "-3"}, "the burst is a whole number from 0"),
        ({"target": "exports-cap", "burst": "9"}, "only a token bucket has a burst"),
        ({"starts_at_0": "2999-01-01", "starts_at_1": "00:00"}, "is more than 90 days away"),
    ],
)
def test_what_may_not_be_is_a_form_error_in_words(browser: Client, acme: Tenant, typed: dict[str, Any], words: str):
    """C183"""
    answer = browser.post(ADD, forms.override(acme, **typed))

    assert answer.status_code == 200
    assert words in forms.errors(answer)
    assert not Override.objects.exists()


@pytest.mark.parametrize("tenant", ["", "abc", "4711", "9" * 40, "٣"])
def test_a_tenant_that_is_not_there_is_a_form_error(browser: Client, acme: Tenant, tenant: str):
    answer = browser.post(ADD, forms.override(acme) | {"tenant": tenant})

    assert answer.status_code == 200
    assert not Override.objects.exists()


def test_the_limits_own_period_may_be_typed_along(browser: Client, acme: Tenant):
    browser.post(ADD, forms.override(acme, value="40/s"))

    assert Override.objects.get().amount == 40


def test_a_tier_is_lent(browser: Client, acme: Tenant):
    browser.post(ADD, forms.override(acme, target="tier:anonymous", value=""))

    assert Override.objects.get().lent_tier == "anonymous"


def test_the_form_that_a_limit_links_to_is_filled_and_lists_what_the_tenant_has(browser: Client, acme: Tenant):
    page = browser.get(ADD, {"tenant": acme.pk, "target": "exports-cap"}).content.decode()

    assert 'value="exports-cap"' in page
    assert "<code>all-rate</code> (20 / second)" in page
    assert '<option value="tier:anonymous">' in page


@pytest.mark.parametrize("tenant", ["abc", "4711", "", "9" * 40])
def test_a_link_with_a_tenant_that_is_not_there_opens_an_empty_form(browser: Client, acme: Tenant, tenant: str):
    assert browser.get(ADD, {"tenant": tenant}).status_code == 200


def test_two_identical_forms_make_one_row_and_an_error_that_names_the_clash(browser: Client, acme: Tenant):
    """C182"""
    browser.post(ADD, forms.override(acme))
    second = browser.post(ADD, forms.override(acme))

    assert f"already has an override of all-rate, #{Override.objects.get().pk}" in forms.errors(second)


def test_the_second_of_two_forms_at_the_same_instant_is_told_too(transactional_db: None, staff: User):
    """C182"""
    acme = Tenant.objects.create(key="acme", tier=rows.pro())
    start, answers = threading.Barrier(2), []

    def post() -> None:
        client = Client()
        client.force_login(staff)
        start.wait()
        answers.append(client.post(ADD, forms.override(acme)))
        connection.close()

    threads = [threading.Thread(target=post) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer.status_code for answer in answers) == [200, 302]
    refused = next(answer for answer in answers if answer.status_code == 200)
    assert "already has an override of all-rate" in forms.errors(refused)
    assert Override.objects.count() == 1


def test_one_may_begin_as_the_other_ends(browser: Client, acme: Tenant):
    """C182"""
    end = (timezone.now() + timedelta(days=3)).replace(second=0, microsecond=0)
    saved(acme, expires_at=end)

    browser.post(ADD, forms.override(acme, starts_at_0=f"{end:%Y-%m-%d}", starts_at_1=f"{end:%H:%M}"))

    assert Override.objects.count() == 2


def test_extending_is_another_end(browser: Client, staff: User, acme: Tenant):
    override = saved(acme)
    form = forms.override(
        acme, ends_in="30", expires_at_0=f"{override.expires_at:%Y-%m-%d}",
        expires_at_1=f"{override.expires_at:%H:%M:%S}", reason=override.reason, why="The import takes longer",
    )  # fmt: skip

    browser.post(forms.change(override), form)

    before = override.expires_at
    override.refresh_from_db()
    assert override.expires_at > before + timedelta(days=28)
    line = Change.objects.filter(model="override", action="changed").get()
    assert (list(line.changes), line.reason, line.actor) == (["expires_at"], "The import takes longer", staff)


def test_whose_and_what_stays(browser: Client, acme: Tenant):
    override = saved(acme)
    bolt = Tenant.objects.create(key="bolt", tier=acme.tier)

    browser.post(forms.change(override), forms.override(bolt, target="exports-cap", value="50"))

    override.refresh_from_db()
    assert (override.tenant, override.target, override.amount) == (acme, "all-rate", 50)


def test_one_is_revoked_on_its_own_page_with_a_reason(browser: Client, staff: User, acme: Tenant):
    override = saved(acme)
    page = f"{OVERRIDES}{override.pk}/revoke/"

    asked = browser.get(page)
    refused = browser.post(page, {"confirmed": "yes", "reason": "  "})
    answer = browser.post(page, {"confirmed": "yes", "reason": "Import is done"}, follow=True)
    again = browser.post(page, {"confirmed": "yes", "reason": "Once more"}, follow=True)

    assert "20 / second → 40 / second" in asked.content.decode()
    assert "This field is required" in refused.content.decode()
    assert "1 override is revoked." in answer.content.decode()
    assert "1 was over already." in again.content.decode()
    override.refresh_from_db()
    assert (override.revoked_by, override.revoke_reason) == (staff, "Import is done")
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Revoked: Import is done"]
    assert Change.objects.filter(model="override", action="changed", reason="Import is done", actor=staff).exists()


def test_several_are_revoked_from_the_list(browser: Client, acme: Tenant):
    chosen = [saved(acme), saved(acme, target="exports-cap"), ended(acme)]
    form = {"action": "revoke_selected", "_selected_action": [one.pk for one in chosen]}

    asked = browser.post(OVERRIDES, form).content.decode()
    answer = browser.post(OVERRIDES, form | {"confirmed": "yes", "reason": "Contract ended"}, follow=True)

    assert asked.count('name="_selected_action"') == 3
    assert "over already: it stays as it is" in asked
    assert "2 overrides are revoked." in answer.content.decode()
    assert Override.objects.filter(revoke_reason="Contract ended").count() == 2


def test_asking_to_revoke_changes_nothing(browser: Client, acme: Tenant):
    override = saved(acme)

    browser.get(f"{OVERRIDES}{override.pk}/revoke/")

    override.refresh_from_db()
    assert override.revoked_at is None


@pytest.mark.parametrize("pk", ["4711", "abc"])
def test_revoking_what_is_not_there_is_not_found(browser: Client, pk: str):
    assert browser.get(f"{OVERRIDES}{pk}/revoke/").status_code == 404


def test_none_is_ever_deleted(browser: Client, acme: Tenant):
    override = saved(acme)

    answer = browser.post(f"{OVERRIDES}{override.pk}/delete/", {"post": "yes"})
    browser.post(OVERRIDES, {"action": "delete_selected", "_selected_action": [override.pk], "post": "yes"})

    assert answer.status_code == 403
    assert Override.objects.filter(pk=override.pk).exists()


def test_one_that_is_over_is_history_that_nobody_edits(browser: Client, acme: Tenant):
    override = ended(acme)

    page = browser.get(forms.change(override)).content.decode()
    answer = browser.post(forms.change(override), forms.override(acme, value="99"))

    assert 'name="value"' not in page
    assert answer.status_code == 403
    override.refresh_from_db()
    assert override.amount == 40


@pytest.mark.parametrize(
    ("status", "targets"),
    [
        ("active", {"all-rate", "exports-cap"}),
        ("ending", {"all-rate"}),
        ("scheduled", {"reads-day"}),
        ("expired", {"old"}),
        ("revoked", {"undone"}),
        ("nonsense", {"all-rate", "exports-cap", "reads-day", "old", "undone"}),
    ],
)
def test_the_list_is_filtered_by_status_with_counts(browser: Client, acme: Tenant, status: str, targets: set[str]):
    now = timezone.now()
    saved(acme)
    saved(acme, target="exports-cap", expires_at=now + timedelta(days=30))
    for name in ("reads-day", "undone"):
        Limit.objects.create(tier=acme.tier, name=name, amount=5, period_seconds=60)
    saved(acme, target="reads-day", starts_at=now + timedelta(days=1), expires_at=now + timedelta(days=2))
    ended(acme, target="old")
    ended(acme, target="undone", revoked_at=now, revoke_reason="x", expires_at=now + timedelta(days=1))

    answer = browser.get(OVERRIDES, {"status": status})

    assert {row.target for row in answer.context["cl"].result_list} == targets
    assert "ending in 7 days (1)" in answer.content.decode()


def test_the_list_shows_tier_value_and_override_and_what_has_lost_its_target(browser: Client, acme: Tenant):
    saved(acme, burst=90)
    saved(acme, target="exports-cap", amount=0)
    Limit.objects.get(name="exports-cap").delete()

    page = forms.text(browser, "/override/")

    assert "20 / second → 40 / second, burst 90" in page
    assert "not in tier pro: it changes nothing" in page
    assert "ending in 7 days" in page
    assert "UTC" in page


def test_a_limit_of_a_tier_that_is_lent_meanwhile_is_found(browser: Client, acme: Tenant):
    gold = Tier.objects.create(slug="gold", name="Gold")
    Limit.objects.create(tier=gold, name="gold-rate", amount=99, period_seconds=1)
    saved(acme, target="tier:gold", amount=None)
    saved(acme, target="gold-rate", amount=200)

    page = forms.text(browser, "/override/")

    assert "99 / second → 200 / second" in page
    assert "pro → gold" in page


def test_the_list_takes_as_many_queries_for_many_rows_as_for_one(
    browser: Client, acme: Tenant, django_assert_max_num_queries: Any
):
    for number in range(12):
        tenant = Tenant.objects.create(key=f"t{number}", tier=acme.tier)
        saved(tenant)

    with django_assert_max_num_queries(20):
        assert len(browser.get(OVERRIDES).context["cl"].result_list) == 12


@pytest.mark.parametrize("words", ["acme", "Black", "all-rate"])
def test_the_list_is_searched_by_tenant_target_and_reason(browser: Client, acme: Tenant, words: str):
    saved(acme)

    assert len(browser.get(OVERRIDES, {"q": words}).context["cl"].result_list) == 1


@pytest.mark.django_db(transaction=True)
def test_the_next_decision_is_by_the_override_and_by_its_end(
    browser: Client, settings: LazySettings, host: dict[str, Any]
):
    """R3: with a backstop of an hour, only the stamp can tell."""
    settings.TENANTLIMITS = host | {"POLICY_BACKSTOP_SECONDS": 3600}
    acme = Tenant.objects.create(key="acme", tier=rows.pro())

    def capacity() -> float:
        return peek(lane="reads", tenant="acme").readings[0].limit.amount

    assert capacity() == 20
    browser.post(ADD, forms.override(acme))
    assert capacity() == 40
    override = Override.objects.get()
    browser.post(f"{OVERRIDES}{override.pk}/revoke/", {"confirmed": "yes", "reason": "Done"})
    assert capacity() == 20


@pytest.mark.django_db(transaction=True)
def test_a_store_that_could_not_be_told_is_said_with_how_long_it_may_take(browser: Client, settings: LazySettings):
    acme = Tenant.objects.create(key="acme", tier=rows.pro())
    settings.CACHES = {
        "default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"},
    }

    answer = browser.post(ADD, forms.override(acme), follow=True)

    page = answer.content.decode()
    assert Override.objects.count() == 1
    assert "the store could not be told" in page
    assert "at most 60 seconds (POLICY_BACKSTOP_SECONDS)" in page


@pytest.mark.django_db(transaction=True)
def test_that_is_said_also_where_the_host_wraps_requests_in_transactions(
    browser: Client, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
):
    acme = Tenant.objects.create(key="acme", tier=rows.pro())
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    settings.CACHES = {
        "default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"},
    }

    answer = browser.post(ADD, forms.override(acme), follow=True)

    assert "the store could not be told" in answer.content.decode()


def test_an_end_at_the_last_instant_allowed_is_allowed(browser: Client, acme: Tenant):
    browser.post(ADD, forms.override(acme, ends_in="90"))

    assert Override.objects.get().expires_at.tzinfo == UTC
