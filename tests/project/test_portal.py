"""The portal: who is who, what is counted where, and what nobody else may see or spend."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from project.portal import work
from project.portal.credentials import signature
from project.portal.models import ApiKey, Delivery, Membership, Organisation, Upload
from project.portal.seeding import CUSTOMERS, Seeded, seed
from tenantlimits.engine.base import Command
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.overview import overview
from tenantlimits.gate.store import engine_replaced
from tenantlimits.models import Limit, Tenant, Tier
from tenantlimits.models.choices import Layer

Api = Callable[[str], Client]
SPOOFED = ("X-Tenant-ID", "X-Tenant", "X-Organisation", "X-Forwarded-For", "X-Real-IP", "CF-Connecting-IP", "Forwarded")


def used(tenant: str, limit: str) -> float:
    """How much of a limit a tenant has used, but for what has refilled since (less than a thousandth)."""
    readings = overview(Identity(tenant=tenant)).readings
    return round(next(one.used for one in readings if one.limit.name == limit), 3)


def picture(size: int = 10) -> SimpleUploadedFile:
    return SimpleUploadedFile("picture.png", b"x" * size)


class NoStore:
    """A store that nobody may ask."""

    def run(self, command: Command[Any]) -> Any:
        raise AssertionError(f"{command} reached the store")

    async def arun(self, command: Command[Any]) -> Any:
        self.run(command)


def test_a_key_opens_the_projects_of_its_organisation(api: Api) -> None:
    response = api("acme").get("/api/projects/")

    assert response.status_code == 200
    assert [one["name"] for one in response.json()["projects"]] == ["Annual report", "Website"]
    assert used("acme", "all-rate") == used("acme", "reads-rate") == 1


@pytest.mark.parametrize("wrong", ["", "nothing", "{prefix}.wrong", "{prefix}.", "0000000000.{secret}", ".{secret}"])
def test_a_wrong_key_opens_nothing_and_is_not_charged_to_the_tenant(portal: Seeded, wrong: str) -> None:
    prefix, _, secret = portal.tokens["acme"].partition(".")
    client = Client(headers={"Authorization": "Bearer " + wrong.format(prefix=prefix, secret=secret)})

    response = client.get("/api/projects/")

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert used("acme", "all-rate") == 0


def test_a_revoked_key_opens_nothing_from_the_next_request_on(portal: Seeded, api: Api) -> None:
    assert api("acme").get("/api/projects/").status_code == 200

    ApiKey.objects.get(organisation__slug="acme").revoke()

    assert api("acme").get("/api/projects/").status_code == 401


def test_a_new_key_is_shown_once_and_only_its_digest_is_kept(browser: Api) -> None:
    ada = browser("ada")

    shown = ada.post("/portal/keys/add/", {"name": "CI"})

    found = re.search(r"Bearer ([\w.-]+)", shown.content.decode())
    assert found
    assert Client(headers={"Authorization": f"Bearer {found[1]}"}).get("/api/projects/").status_code == 200
    secret = found[1].partition(".")[2]
    assert secret not in ada.get("/portal/keys/").content.decode()
    assert not any(secret in str(value) for row in ApiKey.objects.values_list() for value in row)


def test_only_owners_make_and_revoke_keys_and_only_of_their_organisation(browser: Api) -> None:
    acme, cedar = (ApiKey.objects.get(organisation__slug=slug) for slug in ("acme", "cedar"))

    assert browser("amir").post("/portal/keys/add/", {"name": "CI"}).status_code == 403
    assert browser("amir").post(f"/portal/keys/{acme.pk}/revoke/").status_code == 403
    assert browser("ada").post(f"/portal/keys/{cedar.pk}/revoke/").status_code == 404
    assert browser("ada").post(f"/portal/keys/{acme.pk}/revoke/").status_code == 302
    assert list(ApiKey.objects.filter(revoked_at=None, organisation__slug__in=["acme", "cedar"])) == [cedar]


def test_what_the_caller_writes_never_chooses_the_tenant(portal: Seeded) -> None:
    """T2."""
    headers = dict.fromkeys(SPOOFED, "cedar") | {"Authorization": f"Bearer {portal.tokens['acme']}"}

    response = Client(headers=headers).get("/api/projects/?tenant=cedar&organisation=cedar")

    assert response.status_code == 200
    assert used("acme", "all-rate") == 1
    assert used("cedar", "all-rate") == 0


def test_what_a_stranger_writes_never_chooses_the_address(portal: Seeded) -> None:
    """C82."""
    Limit.objects.filter(tier__slug="anonymous").update(amount=20, burst=20)
    client = Client()

    statuses = [client.get("/", headers=dict.fromkeys(SPOOFED, f"192.0.2.{i}")).status_code for i in range(40)]

    assert statuses == [200] * 20 + [429] * 20


def test_one_login_in_two_organisations_has_an_allowance_in_each(browser: Api) -> None:
    """C88."""
    for tier in Tier.objects.filter(slug__in=["pro", "enterprise"]):
        Limit.objects.create(tier=tier, name="own", lane="reads", layer=Layer.USER, amount=5, period_seconds=3600)
    ada = browser("ada")

    in_acme = [ada.get("/portal/").status_code for _ in range(6)]
    chosen = ada.post("/portal/organisations/bolt/")
    in_bolt = ada.get("/portal/")

    assert in_acme == [200] * 5 + [429]
    assert chosen.status_code == 302
    assert in_bolt.status_code == 200
    assert "<h1>Bolt</h1>" in in_bolt.content.decode()
    assert used("bolt", "reads-rate") == 1


def test_nobody_chooses_an_organisation_that_they_are_no_member_of(browser: Api) -> None:
    """C88: 403, and no bucket."""
    ada = browser("ada")

    refused = ada.post("/portal/organisations/cedar/")
    missing = ada.post("/portal/organisations/nowhere/")

    assert [refused.status_code, missing.status_code] == [403, 403]
    assert "<h1>Acme</h1>" in ada.get("/portal/").content.decode()
    assert used("cedar", "all-rate") == 0


def test_who_leaves_an_organisation_works_for_it_no_more(browser: Api) -> None:
    ada = browser("ada")
    ada.post("/portal/organisations/bolt/")

    Membership.objects.get(user__username="ada", organisation__slug="bolt").delete()

    assert "<h1>Acme</h1>" in ada.get("/portal/").content.decode()


def test_new_keys_do_not_bring_a_new_allowance(portal: Seeded, api: Api) -> None:
    """C89: and a limit of each key is a layer below."""
    Limit.objects.filter(tier__slug="pro", name="all-rate").update(amount=15, burst=15)
    Limit.objects.create(
        tier=Tier.objects.get(slug="pro"),
        name="per-key",
        lane="reads",
        layer=Layer.CREDENTIAL,
        amount=10,
        period_seconds=3600,
    )
    acme = Organisation.objects.get(slug="acme")
    tokens = [ApiKey.objects.issue(acme, f"Rotated {number}")[1] for number in range(10)]
    others = [Client(headers={"Authorization": f"Bearer {token}"}) for token in tokens]

    first = [api("acme").get("/api/projects/") for _ in range(11)]
    ApiKey.objects.get(organisation=acme, name="Demo").delete()
    then = [client.get("/api/projects/") for client in others]

    assert [one.status_code for one in first] == [200] * 10 + [429]
    assert first[-1].json()["violated-policies"] == ["per-key"]
    assert [one.status_code for one in then] == [200] * 5 + [429] * 5
    assert then[-1].json()["violated-policies"] == ["all-rate"]


def test_a_key_that_is_deleted_under_a_request_does_not_break_it(
    api: Api, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C89."""
    monkeypatch.setattr(work, "time", SimpleNamespace(sleep=lambda _seconds: ApiKey.objects.all().delete()))

    response = api("acme").get("/api/projects/")

    assert response.status_code == 200
    assert used("acme", "all-running") == 0


@pytest.mark.parametrize(
    ("size", "cost"),
    [(1, 1), (1_000_000, 1), (1_000_001, 2), (2_500_000, 3)],
)
def test_an_upload_costs_its_megabytes(api: Api, size: int, cost: int) -> None:
    """K1: what the length of the body declared is settled by the size of the file."""
    response = api("bolt").post("/api/uploads/", {"file": picture(size)})

    assert response.status_code == 201
    assert response.json()["cost"] == cost
    assert used("bolt", "uploads-rate") == cost
    assert used("bolt", "all-rate") == 1


def test_fifty_pictures_in_one_request_cost_fifty(api: Api) -> None:
    """K1, OWASP API4:2023."""
    response = api("bolt").post("/api/uploads/batch/", {"pictures": [picture() for _ in range(50)]})

    assert response.status_code == 201
    assert used("bolt", "uploads-rate") == 50
    assert used("bolt", "all-rate") == 1


def test_a_batch_that_can_never_fit_is_refused_whole(api: Api) -> None:
    response = api("cedar").post("/api/uploads/batch/", {"pictures": [picture() for _ in range(5)]})

    assert response.status_code == 422
    assert response.json()["code"] == "cost_exceeds_limit"
    assert used("cedar", "uploads-rate") == 0
    assert not Upload.objects.exists()


@pytest.mark.parametrize("address", ["/api/uploads/", "/api/uploads/batch/"])
def test_an_upload_without_a_file_says_what_to_send(api: Api, address: str) -> None:
    response = api("bolt").post(address, {"other": "thing"})

    assert response.status_code == 400
    assert "multipart/form-data" in response.content.decode()


def test_an_upload_in_the_browser_costs_as_much(browser: Api) -> None:
    response = browser("ada").post("/portal/uploads/", {"file": picture(2_500_000)}, follow=True)

    assert "picture.png is kept" in response.content.decode()
    assert used("acme", "uploads-rate") == 3


def test_a_small_plan_exports_once_and_is_told_which_limit_it_met(api: Api) -> None:
    served, refused = api("cedar").post("/api/exports/"), api("cedar").post("/api/exports/")

    assert served.status_code == 201
    assert refused.status_code == 429
    assert refused.json()["violated-policies"] == ["exports-rate"]
    assert refused.json()["tier"] == "free"


def test_webhooks_do_not_count_in_the_tenants_total(portal: Seeded) -> None:
    """K7."""
    acme, body = Organisation.objects.get(slug="acme"), b'{"event": "invoice.paid"}'
    signed = {"X-Portal-Signature": signature(acme.webhook_secret, body)}

    for _ in range(5):
        response = Client().post("/webhooks/acme/", body, content_type="application/json", headers=signed)
        assert response.status_code == 202

    assert list(Delivery.objects.values_list("event", flat=True)) == ["invoice.paid"] * 5
    assert used("acme", "webhooks-rate") == 5
    assert used("acme", "all-rate") == 0


@pytest.mark.parametrize("slug", ["acme", "nowhere"])
def test_a_webhook_that_is_not_signed_costs_the_tenant_nothing(portal: Seeded, slug: str) -> None:
    signed = {"X-Portal-Signature": signature("", b"{}")}

    response = Client().post(f"/webhooks/{slug}/", b"{}", content_type="application/json", headers=signed)

    assert response.status_code == 401
    assert not Delivery.objects.exists()
    assert used("acme", "webhooks-rate") == used("acme", "all-rate") == 0


def test_probes_ask_neither_store_nor_database(portal: Seeded, django_assert_num_queries: Any) -> None:
    """C118: a flood elsewhere and a store that is down do not concern them."""
    with engine_replaced(NoStore()), django_assert_num_queries(0):
        statuses = {Client().get("/healthz").status_code for _ in range(1000)}

    assert statuses == {200}


def test_metrics_are_for_staff(browser: Api) -> None:
    """V4, V6."""
    browser("ada").get("/portal/")

    shown = browser("staff").get("/metrics/")

    assert 'tenantlimits_decisions_total{lane="reads",outcome="allowed"} 1.0' in shown.content.decode()
    assert "tenantlimits_store_degraded 0.0" in shown.content.decode()
    assert browser("ada").get("/metrics/").status_code == Client().get("/metrics/").status_code == 302


def test_every_answer_says_when_the_request_arrived(api: Api) -> None:
    arrived = [float(api("acme").get("/api/projects/").headers["X-Arrived-At"]) for _ in range(2)]

    assert arrived[0] < arrived[1]


@pytest.mark.parametrize("page", ["/portal/", "/portal/keys/", "/limits/"])
def test_no_page_shows_anything_of_another_customer(browser: Api, page: str) -> None:
    shown = browser("ada").get(page)

    assert shown.status_code == 200
    assert not re.search("cedar|cleo", shown.content.decode(), re.IGNORECASE)


def test_staff_without_an_organisation_are_told_what_to_do(browser: Api) -> None:
    page = browser("staff").get("/portal/")

    assert page.status_code == 403
    assert "/admin/portal/organisation/" in page.content.decode()


def test_strangers_are_sent_to_the_login(portal: Seeded) -> None:
    assert Client().get("/portal/").headers["Location"].startswith("/login/")
    assert Client().get("/").status_code == 200
    assert Client().get("/api/projects/").status_code == 401


def test_seeding_again_changes_nothing_but_passwords_and_keys(portal: Seeded) -> None:
    models = (Tier, Limit, Tenant, Organisation, Membership, User, ApiKey)
    before = [model._default_manager.count() for model in models]

    again = seed()

    assert [model._default_manager.count() for model in models] == before
    assert again.password != portal.password
    assert all(again.tokens[one.slug] != portal.tokens[one.slug] for one in CUSTOMERS)


def test_the_templates_hold_nothing_inline(repository: Path) -> None:
    pages = [path.read_text() for path in (repository / "templates").rglob("*.html")]

    assert pages
    assert not any(re.search(r"<script|<style|\sstyle=|\son\w+=", page) for page in pages)
