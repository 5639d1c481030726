"""The pools now: who runs, who waits and why, for staff; and a slot of the fleet's freed by hand, with who and why."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.html import strip_tags

from tenantlimits.conf import conf
from tenantlimits.domain.shares import Share
from tenantlimits.engine.base import Announce
from tenantlimits.engine.keys import tenant_digest
from tenantlimits.gate.store import engine_replaced, stores
from tenantlimits.models import Change, Tenant
from tenantlimits.pools.fleet import FleetPool, FleetSlot
from tenantlimits.pools.overview import pools_now
from tenantlimits.pools.registry import pools
from tests import rows
from tests.admin import forms
from tests.engine.builders import redis_engine
from tests.polling import eventually
from tests.pools.test_fleet import known_for_long

HOSTILE = '"><img src=x onerror=alert(1)>'
FOUR = Share(4)


@pytest.fixture(autouse=True)
def host_with_pools(host: dict[str, Any], settings: LazySettings) -> None:
    settings.TENANTLIMITS = host | {"POOLS": rows.POOLS}


@pytest.fixture
def fleet(redis_url: str, key_prefix: str) -> Iterator[FleetPool]:
    """The pool exports, which all processes share."""
    known_for_long(redis_url, key_prefix)
    spec, store = conf.pool("exports"), redis_engine(redis_url, key_prefix)
    pool = FleetPool("exports", spec.rules, store=store)
    pools._built["exports"] = (spec, pool)  # type: ignore[assignment]
    with engine_replaced(store):
        yield pool
    pool.end()
    store.close()


@pytest.fixture
def waiter() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as executor:
        yield executor


@pytest.fixture
def flood(fleet: FleetPool, waiter: ThreadPoolExecutor) -> Iterator[list[FleetSlot]]:
    """acme runs 6 of 10, of which 2 are borrowed, and 3 more wait; bolt runs 4. These are acme's slots."""
    slots = [fleet.acquire("acme", FOUR) for _ in range(6)]
    others = [fleet.acquire("bolt", FOUR) for _ in range(4)]
    waits = [waiter.submit(fleet.acquire, "acme", FOUR, wait=30) for _ in range(3)]
    assert eventually(lambda: pools_now()["exports"].waiting == 3)
    yield slots
    for slot in slots + others:
        slot.release()
    for one in waits:
        one.result().release()


def text(client: Client) -> str:
    return " ".join(unescape(strip_tags(forms.text(client, "/pool/"))).split())


def free_url(tenant: str, pool: str = "exports") -> str:
    return f"{forms.BASE}/pool/free/?pool={pool}&tenant={tenant_digest(tenant).hex()}"


def staff_with(*codenames: str) -> Client:
    user = User.objects.create_user("rita", password="rita", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def test_pools_are_on_the_index_and_one_step_from_a_tenants_shares(browser: Client, acme: Tenant):
    assert f'href="{forms.BASE}/pool/"' in forms.text(browser, "/")
    assert ">Who runs and who waits now</a>" in browser.get(forms.change(acme)).content.decode()
    assert "Who runs and who waits" not in staff_with("view_tenant").get(forms.change(acme)).content.decode()


def test_each_pool_says_what_it_has_and_who_runs_and_waits_and_why(
    browser: Client, acme: Tenant, flood: list[FleetSlot]
):
    """V4."""
    page = text(browser)

    assert "exports shared by all processes; capacity 10, of which 10 may be borrowed; 10 running, 3 waiting" in page
    assert re.search(r"Acme acme 4 6 2 3 \d+ s its share is in use, and there is nothing to borrow Free one Acme", page)
    assert "bolt 4 4 0 0 – – Free one bolt" in page
    assert page.index("Acme acme") < page.index("bolt 4 4")
    assert f'href="{forms.change(acme)}#effective-limits"' in forms.text(browser, "/pool/")
    assert "reports each process has its own; capacity 5, of which 0 may be borrowed; 0 running, 0 waiting" in page
    assert "Nobody runs or waits." in page


def test_slots_of_processes_are_summed_and_cannot_be_freed(browser: Client, fleet: FleetPool):
    told = {"reports": [5, 0, 1000, 3, 2, [["acme", 2, 2, 2, -8.0, 3.0], ["bolt", 1, 1, 0, None, 0]]]}
    for process in (b"process1", b"process2"):
        stores.engine.run(Announce(process, json.dumps(told).encode()))

    page = text(browser)

    assert "6 running, 4 waiting (processes: 2)" in page
    assert re.search(r"acme 2 4 0 4 \d+ s its share is too small: it waits while slots are idle", page)
    assert "The share of acme is too small: it waits while slots are idle." in page
    assert "it cannot be freed from here" in page
    assert "Free one" not in page
    assert browser.get(free_url("acme", "reports")).status_code == 404


def test_a_slot_is_freed_after_a_second_yes_with_who_and_why(
    browser: Client, staff: User, acme: Tenant, flood: list[FleetSlot]
):
    """V1."""
    asked = browser.get(free_url("acme")).content.decode()
    assert "Free the oldest slot of <strong>acme</strong> in <strong>exports</strong>?" in asked
    assert "It has 6 running and 3 waiting." in asked
    assert not Change.objects.filter(action="freed").exists()
    without_a_reason = browser.post(free_url("acme"), {"reason": " "})
    assert "This field is required" in without_a_reason.content.decode()
    assert pools_now()["exports"].waiting == 3

    answer = browser.post(free_url("acme"), {"reason": "Holder hangs"}, follow=True)

    assert "The oldest slot of acme in exports is free." in answer.content.decode()
    assert pools_now()["exports"].waiting == 2
    line = Change.objects.get(action="freed")
    assert (line.model, line.object, line.tenant, line.actor, line.reason, line.changes) == (
        "pool", "exports", acme, staff, "Holder hangs", {"tenant": [None, "acme"]},
    )  # fmt: skip
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Freed a slot of acme in exports"]
    assert "pool exports freed of a slot" in forms.text(browser, "/change/")


def test_what_has_ended_meanwhile_is_not_freed_and_not_logged(browser: Client, fleet: FleetPool):
    """C182."""
    slot = fleet.acquire("acme", FOUR)
    url = free_url("acme")
    slot.release()

    answer = browser.post(url, {"reason": "Holder hangs"}, follow=True)

    assert "It has no slot any more: nothing was freed." in answer.content.decode()
    assert not Change.objects.filter(action="freed").exists()
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("query", ["", "?pool=nowhere", "?pool=exports%00", "?pool=reports&tenant=00"])
def test_what_no_pool_of_the_fleet_is_is_not_found(browser: Client, fleet: FleetPool, query: str):
    assert browser.get(f"{forms.BASE}/pool/free/{query}").status_code == 404


def test_who_may_only_look_sees_everything_and_frees_nothing(viewer: Client, acme: Tenant, flood: list[FleetSlot]):
    assert "10 running, 3 waiting" in text(viewer)
    assert "Free one" not in text(viewer)
    assert viewer.get(free_url("acme")).status_code == 403
    assert viewer.post(free_url("acme"), {"reason": "Mine"}).status_code == 403
    assert pools_now()["exports"].waiting == 3
    assert not Change.objects.filter(action="freed").exists()


def test_who_may_change_pools_may_free_and_sees_no_way_to_tenants_that_are_not_theirs(
    acme: Tenant, flood: list[FleetSlot]
):
    rita = staff_with("change_pool")

    page = forms.text(rita, "/pool/")

    assert "Free one" in page
    assert forms.change(acme) not in page
    assert rita.post(free_url("acme"), {"reason": "Holder hangs"}).status_code == 302
    assert pools_now()["exports"].waiting == 2


def test_nobody_else_sees_them(db: None, fleet: FleetPool):
    otto = staff_with("view_share", "change_share", "view_tenant")

    assert otto.get(f"{forms.BASE}/pool/").status_code == 403
    assert otto.get(free_url("acme")).status_code == 403


def test_there_is_no_other_way_to_them(browser: Client, acme: Tenant):
    """Shares of tiers are not to be reached by way of pools."""
    share = acme.tier.shares.create(pool="exports", slots=4)
    page = f"{forms.BASE}/pool/"

    assert browser.get(f"{page}{share.pk}/change/").url == page
    assert browser.get(f"{page}{share.pk}/history/").url == page
    assert browser.post(f"{page}{share.pk}/change/", {"slots": 9}).url == page
    assert browser.post(f"{page}{share.pk}/delete/", {"post": "yes"}).status_code == 403
    assert browser.post(page, {"action": "delete_selected", "_selected_action": share.pk}).status_code == 403
    share.refresh_from_db()
    assert share.slots == 4


def test_hostile_names_stay_text(browser: Client, fleet: FleetPool):
    slots = [fleet.acquire(HOSTILE, FOUR), fleet.acquire("x" * 255, FOUR)]

    pages = [forms.text(browser, "/pool/"), browser.get(free_url(HOSTILE)).content.decode()]
    browser.post(free_url(HOSTILE), {"reason": "<script>alert(2)</script>"})
    pages += [forms.text(browser, "/pool/"), forms.text(browser, "/change/")]

    assert all("<img src=x" not in page and "<script>alert" not in page for page in pages)
    assert "&lt;img src=x" in pages[0]
    assert [one["tenant"][1] for one in Change.objects.filter(action="freed").values_list("changes", flat=True)] == [
        HOSTILE
    ]
    for slot in slots:
        slot.release()


def test_names_that_no_page_could_hold_are_written_out(browser: Client, fleet: FleetPool):
    """From whatever else writes under our keys."""
    slots = [fleet.acquire("a\ud800", FOUR), fleet.acquire("b\0", FOUR), fleet.acquire("", FOUR)]

    page = text(browser)
    browser.post(free_url("a\ud800"), {"reason": "Odd"})
    browser.post(free_url("b\0"), {"reason": "Odd"})

    assert "a\\ud800" in page
    assert "b\\0" in page
    assert "Anonymous callers callers without a tenant 4 1" in page
    assert Change.objects.filter(action="freed").count() == 2
    for slot in slots:
        slot.release()


def test_without_the_store_nothing_is_known_and_nothing_freed(browser: Client, fleet: FleetPool):
    slot = fleet.acquire("acme", FOUR)
    away = redis_engine("redis://127.0.0.1:1/0", "away")
    pools._built["exports"] = (conf.pool("exports"), FleetPool("exports", fleet.rules, store=away))  # type: ignore

    with engine_replaced(away):
        page = text(browser)
        answer = browser.post(free_url("acme"), {"reason": "Holder hangs"}, follow=True)

    assert "The store is unreachable: who runs and who waits is unknown." in page
    assert "The store is unreachable: only what this process itself holds is known." in page
    assert "The store is unreachable: nothing was freed." in answer.content.decode()
    assert not Change.objects.filter(action="freed").exists()
    slot.release()


def test_a_store_that_began_anew_is_said_to_learn(browser: Client, redis_url: str, key_prefix: str):
    store = redis_engine(redis_url, key_prefix)
    pools._built["exports"] = (conf.pool("exports"), FleetPool("exports", conf.pool("exports").rules, store=store))  # type: ignore

    with engine_replaced(store):
        page = text(browser)

    assert re.search(r"The store began anew, and learns who has a slot: it gives out none for \d+ seconds\.", page)
    store.close()


def test_a_site_without_pools_is_told_how_to_name_some(browser: Client, settings: LazySettings):
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {}}

    assert "There are no pools: name some in POOLS of the settings." in text(browser)


def test_very_many_tenants_are_a_page_all_the_same(browser: Client, settings: LazySettings):
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {"wide": {"capacity": 1000}}}
    slots = [pools.of("wide").acquire(f"tenant-{number}", FOUR) for number in range(400)]

    began = time.monotonic()
    page = text(browser)

    assert time.monotonic() - began < 5
    assert "400 running" in page
    assert page.count("tenant-") == 200
    assert "Each process tells of the tenants that have the most; others are not shown." in page
    for slot in slots:
        slot.release()
