"""What a tenant holds of pools now: in the API and on its page, and never what another one holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from tenantlimits.domain.pools import UNSAID_SHARE
from tenantlimits.domain.shares import Share as Slots
from tenantlimits.engine.base import Announce, Engine
from tenantlimits.models import Share, Tier
from tenantlimits.pools.overview import pools_now
from tenantlimits.pools.registry import pools
from tests import console
from tests.polling import eventually

POOLS = {
    "exports": {"capacity": 10, "queue": 100},
    "reports": {"capacity": 5, "lendable": 0},
    "closed": {"capacity": 5, "lendable": 0},
}
FOUR = Slots(4)


@pytest.fixture
def exports(store: Engine, settings: Any) -> None:
    """Lane exports takes its slots from pool exports, of which tier pro has 4 of 10; of reports it has 1, closed 0."""
    lanes = console.LANES | {"exports": {"pool": "exports"}}
    settings.TENANTLIMITS = console.settings_of(POOLS=POOLS, LANES=lanes)
    tier = Tier.objects.get(slug="pro")
    Share.objects.create(tier=tier, pool="exports", slots=4)
    Share.objects.create(tier=tier, pool="closed", slots=0)


@pytest.fixture
def waiter() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as executor:
        yield executor


class Work:
    """Operations that run and wait in this process's pools until the test ends."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor, self._slots = executor, []
        self._waiting: list[Any] = []

    def runs(self, pool: str, tenant: str, share: Slots, times: int) -> None:
        self._slots += [pools.of(pool).acquire(tenant, share) for _ in range(times)]

    def waits(self, pool: str, tenant: str, share: Slots, times: int) -> None:
        before = pools_now()[pool].waiting
        self._waiting += [self._executor.submit(pools.of(pool).acquire, tenant, share, wait=30) for _ in range(times)]
        assert eventually(lambda: pools_now()[pool].waiting == before + times)

    def end(self) -> None:
        for slot in self._slots:
            slot.release()
        while self._waiting:
            self._waiting.pop(0).result().release()


@pytest.fixture
def work(exports: None, waiter: ThreadPoolExecutor) -> Iterator[Work]:
    found = Work(waiter)
    yield found
    found.end()


def share(client: Client, name: str) -> dict[str, Any]:
    [found] = [one for one in client.get("/api/limits/").json()["limits"] if one["name"] == name]
    return found


def live(client: Client, name: str) -> tuple[Any, ...]:
    one = share(client, name)
    return tuple(one[field] for field in ("used", "borrowed", "remaining", "utilization", "state", "share_too_small"))


def text(client: Client) -> str:
    return " ".join(unescape(strip_tags(client.get("/limits/").content.decode())).split())


def line(client: Client, name: str) -> str:
    """The words of a share's line on the page."""
    lines = re.findall(r"<tr [^>]*data-state.*?</tr>", client.get("/limits/").content.decode(), re.DOTALL)
    [found] = [one for one in lines if f"<code>{name}</code>" in one]
    return " ".join(unescape(strip_tags(found)).split())


def test_who_borrows_and_waits_sees_so(work: Work, client_of: Callable[[str], Client]) -> None:
    """V4, http.md: utilization is above 1 where a tenant borrows."""
    work.runs("exports", "acme", FOUR, 6)
    work.runs("exports", "bolt", FOUR, 4)
    work.waits("exports", "acme", FOUR, 12)

    ann = client_of("ann")
    acme = share(ann, "exports-share")

    assert live(ann, "exports-share") == (6, 2, 0, 1.5, "limited", False)
    assert (acme["queue"]["length"], acme["queue"]["max"]) == (12, 100)
    assert 0 <= acme["queue"]["oldest_wait_seconds"] < 20
    assert acme["queue"]["estimated_wait_seconds"] >= 1
    assert ann.get("/api/limits/").json()["status"] == "blocked"  # by pool closed
    assert re.search(r"6 running \(2 borrowed\), 12 waiting \(oldest \d+ s\)", line(ann, "exports-share"))
    assert re.search(
        r"Operations are waiting: .* exports: exports-share, 6 running \(2 borrowed\), 12 waiting \(oldest \d+ s\)\. "
        r"Your share is 4\. More in about \d+ seconds?\.",
        text(ann),
    )
    assert re.search(r"Running now .*exports 6 running \(2 borrowed\), 12 waiting", text(ann))
    assert "too small" not in text(ann)


def test_shares_are_not_counted_among_the_limits(exports: None, client_of: Callable[[str], Client]) -> None:
    """The page says how many limits a plan has; its shares are lines of their own."""
    ann = client_of("ann")
    limits = [one for one in ann.get("/api/limits/").json()["limits"] if one["kind"] != "share"]

    assert f"{len(limits)} limits " in text(ann)


def test_another_tenant_sees_nothing_of_it(work: Work, client_of: Callable[[str], Client]) -> None:
    """T1."""
    work.runs("exports", "acme", FOUR, 10)
    work.waits("exports", "acme", FOUR, 2)

    bob = client_of("bob")

    assert live(bob, "exports-share") == (0, 0, 4, 0.0, "ok", False)
    assert share(bob, "exports-share")["queue"]["length"] == 0
    assert "0 running now Pro" in line(bob, "exports-share")
    assert "acme" not in bob.get("/limits/").content.decode()


def test_a_share_that_is_too_small_is_said_to_be(work: Work, client_of: Callable[[str], Client]) -> None:
    """V4: it waits while capacity is idle."""
    work.runs("reports", "acme", UNSAID_SHARE, 1)
    work.waits("reports", "acme", UNSAID_SHARE, 2)

    ann = client_of("ann")

    assert live(ann, "reports-share") == (1, 0, 0, 1.0, "limited", True)
    assert "Your share of 1 is too small: operations wait while slots are idle." in line(ann, "reports-share")


@pytest.mark.parametrize(
    ("times", "state", "more"),
    [
        (0, "ok", "now"),
        (3, "ok", "now"),
        (4, "near", "while nobody else waits"),
        (6, "near", "while nobody else waits"),
    ],
)
def test_who_does_not_wait_is_near_at_most(
    work: Work, client_of: Callable[[str], Client], times: int, state: str, more: str
) -> None:
    work.runs("exports", "acme", FOUR, times)

    ann = client_of("ann")

    assert share(ann, "exports-share")["state"] == state
    assert line(ann, "exports-share").endswith(f"{more} Pro")


def test_where_nothing_is_lent_a_full_share_is_at_its_limit_and_none_is_blocked(
    work: Work, client_of: Callable[[str], Client]
) -> None:
    work.runs("reports", "acme", UNSAID_SHARE, 1)

    ann = client_of("ann")

    assert live(ann, "reports-share") == (1, 0, 0, 1.0, "limited", False)
    assert line(ann, "reports-share").endswith("1 running At the limit when one ends Pro")
    assert live(ann, "closed-share") == (0, 0, 0, None, "blocked", False)
    assert "closed: closed-share, 0 running" in text(ann)


def test_what_other_processes_hold_is_counted_in(work: Work, store: Engine, client_of: Callable[[str], Client]) -> None:
    """V4: a share is one of each process: used is that of the busiest, and queues are summed."""
    work.runs("exports", "acme", FOUR, 2)
    told = {"exports": [10, 1.0, 100, 6, 3, [["acme", 4, 6, 3, -8.0, 21.0]]]}
    store.run(Announce(b"otherone", json.dumps(told).encode()))

    ann = client_of("ann")

    assert live(ann, "exports-share") == (6, 2, 0, 1.5, "limited", False)
    assert share(ann, "exports-share")["queue"] == {
        "length": 3, "max": 100, "oldest_wait_seconds": 8.0, "estimated_wait_seconds": 21,
    }  # fmt: skip
    assert (
        "6 running in the busiest process (2 borrowed), 3 waiting (oldest 8 s) At the limit Your share is 4. "
        "in about 21 seconds Pro"
    ) in line(ann, "exports-share")


def test_a_tenant_that_is_left_out_of_a_report_is_not_known(
    exports: None, store: Engine, client_of: Callable[[str], Client]
) -> None:
    told = {"exports": [10, 1.0, 100, 9, 3, [["bolt", 4, 8, 0, None, 0]]]}
    store.run(Announce(b"otherone", json.dumps(told).encode()))

    ann = client_of("ann")

    assert live(ann, "exports-share") == (None, None, None, None, "unknown", None)
    assert "not known" in line(ann, "exports-share")


def test_without_the_store_what_is_held_is_not_known(exports: None, away: None, client_of: Any) -> None:
    ann = client_of("ann")

    assert live(ann, "exports-share") == (None, None, None, None, "unknown", None)
    assert "not known" in line(ann, "exports-share")
