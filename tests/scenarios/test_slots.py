"""A slot is a lease: whatever becomes of a client, a view or a process, it comes back, and never too early (C7).

LEASE_SECONDS is 2 and the cap is 2. That never more than two ran at once is read from the views' own journal, without
tolerance. That two run again within two leases has the issue's own tolerance, 4 s: one lease for a slot that nobody
gives back, and one for a busy machine.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenantlimits.models import Limit, Tenant, Tier
from tests.scenarios.client import Connection, one_to_each_process, rude
from tests.scenarios.conftest import Site
from tests.scenarios.servers import Server
from tests.scenarios.site.journal import Journal, Work

CAP = 2
TWO_LEASES = 4.0


@pytest.fixture
def acme(site: Site) -> Tenant:
    """Two exports at once."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    Limit.objects.create(tier=tier, name="exports-cap", lane="exports", kind="concurrency", amount=CAP)
    return Tenant.objects.create(key="acme", tier=tier)


def wait_for(what: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "It did not come to pass."
        time.sleep(0.01)


def admitted(server: Server, path: str) -> int:
    """Ask until it is let in, and say how many times it was refused."""
    connection = Connection(server, "acme")
    refused = 0
    try:
        while (status := connection.get(path).status) == 429:
            refused += 1
            time.sleep(0.02)
    finally:
        connection.close()
    assert status == 200
    return refused


def both_slots_are_back(server: Server, journal: Journal) -> float:
    """How many seconds it took until two ran at once again."""
    since, label = time.monotonic(), os.urandom(4).hex()
    with ThreadPoolExecutor(CAP) as pool:
        list(pool.map(lambda _: admitted(server, f"/sleep/?seconds=1&label={label}"), range(CAP)))
    first, second = sorted((work for work in journal.works() if work.label == label), key=lambda work: work.begin)
    assert second.begin < first.end, "Only one of two slots is back: they ran one after the other."
    return second.begin - since


def status(server: Server, path: str = "/sleep/") -> int:
    connection = Connection(server, "acme")
    try:
        return connection.get(path).status
    finally:
        connection.close()


def leave_midway(server: Server, journal: Journal, path: str) -> None:
    """Two clients send a request each, see that their work is under way, and are gone."""
    clients = [rude(server, "acme", f"{path}?seconds=1.5") for _ in range(CAP)]
    wait_for(lambda: len(journal.running()) == CAP)
    assert status(server) == 429
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        ("gunicorn", ["/sleep/", "/stream/"]),
        ("uvicorn", ["/sleep/", "/awaited-sleep/", "/stream/", "/awaited-stream/"]),
    ],
)
def test_clients_that_go_and_views_that_raise_give_their_slots_back(
    site: Site, acme: Tenant, kind: str, paths: list[str]
) -> None:
    """C7, C63, C64, C65, C125: disconnects in views and streams, which are cancellations under ASGI; and exceptions."""
    with getattr(site, kind)() as server:
        raised = [status(server, path) for path in ("/broken/", "/awaited-broken/") * 3]
        took = {"raised": both_slots_are_back(server, site.journal)}
        for path in paths:
            leave_midway(server, site.journal, path)
            took[path] = both_slots_are_back(server, site.journal)

    assert raised == [500] * 6
    assert site.journal.most_at_once() == CAP
    assert max(took.values()) < TWO_LEASES, took


def test_a_stream_and_a_file_keep_their_slots_until_the_client_has_read_them(site: Site, acme: Tenant) -> None:
    """C64, R7: a file of 64 MB is far more than sockets buffer, and the stream ends only with its client."""
    with site.gunicorn() as server:
        clients = [rude(server, "acme", path) for path in ("/file/?mb=64", "/stream/?seconds=600")]
        for client in clients:
            assert client.recv(12) == b"HTTP/1.1 200"
        during = {status(server) for _ in range(20)}
        read_to_the_end(clients[0])
        wait_for(lambda: status(server) == 200)
        for client in clients:
            client.close()

    assert during == {429}


def read_to_the_end(client: socket.socket) -> None:
    left = 64 << 20
    while left > 0:
        left -= len(client.recv(1 << 20))


def test_200_clients_that_connect_and_drop_leave_no_more_than_two_views_running(site: Site, acme: Tenant) -> None:
    """C7, C73, C123: sync views under ASGI go on in their thread when their client is gone, and keep their slot."""
    # Where the store is being asked when the client goes, a slot may be taken that nobody holds: its lease lapses.
    moments = random.Random(7)

    def drop(server: Server) -> None:
        time.sleep(moments.uniform(0, 6))
        client = rude(server, "acme", "/sleep/?seconds=1")
        time.sleep(moments.choice([0, 0.001, 0.005, 0.05, 0.3]))
        client.close()

    with site.uvicorn() as server:
        with ThreadPoolExecutor(200) as pool:
            list(pool.map(lambda _: drop(server), range(200)))
        ran = len(site.journal.works())
        took = both_slots_are_back(server, site.journal)

    assert ran >= 4
    assert site.journal.most_at_once() <= CAP
    assert took < TWO_LEASES


def test_a_killed_process_gives_its_slots_back_when_their_leases_end(site: Site, acme: Tenant) -> None:
    """C7, C66: kill -9 of a worker with two views in flight; the other three go on."""
    with site.gunicorn() as server, one_to_each_process(server, "acme") as processes:
        pid = next(iter(processes))
        doomed = two_works_in(server, pid)
        wait_for(lambda: [work.pid for work in site.journal.running()] == [pid, pid])
        assert status(server) == 429

        os.kill(pid, signal.SIGKILL)
        killed = {pid: time.monotonic()}
        took = both_slots_are_back(server, site.journal)
        for connection in doomed:
            connection.close()

    assert site.journal.most_at_once(killed) == CAP
    assert took < TWO_LEASES


def two_works_in(server: Server, pid: int) -> list[Connection]:
    """Two requests that take long, in the same process."""
    found: list[Connection] = []
    while len(found) < CAP:
        connection = Connection(server, "acme")
        if connection.get("/whoami/").pid == pid:
            connection.ask("/sleep/?seconds=30")
            found.append(connection)
        else:
            connection.close()
    return found


@pytest.mark.parametrize(
    ("kind", "paths"), [("gunicorn", ["/sleep/", "/stream/"]), ("uvicorn", ["/sleep/", "/awaited-sleep/"])]
)
def test_a_request_longer_than_its_lease_keeps_its_slot(site: Site, acme: Tenant, kind: str, paths: list[str]) -> None:
    """C7, C68: 5 s on a lease of 2 s; a third is refused all along, and let in when one of them has ended."""
    with getattr(site, kind)() as server, ThreadPoolExecutor(CAP) as pool:
        long = [pool.submit(status, server, f"{path}?seconds=5") for path in paths]
        wait_for(lambda: len(site.journal.running()) == CAP)
        refused = admitted(server, "/sleep/?seconds=0")
        statuses = [one.result() for one in long]

    works: list[Work] = sorted(site.journal.works(), key=lambda work: work.begin)
    assert statuses == [200, 200]
    assert refused > 20
    assert site.journal.most_at_once() == CAP
    assert works[CAP].begin > min(work.end for work in works[:CAP])
    assert min(work.end - work.begin for work in works[:CAP]) >= 4.9
