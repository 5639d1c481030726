"""Four workers behind one outbound key, and an API that enforces the limits that it was said to have.

A call is admitted by the store's clock and arrives by this machine's network and scheduler, so two may arrive closer
together than they were admitted. The API counts by its own clock and forgives that much.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tenantlimits.models import Limit, Tenant, Tier
from tests.scenarios.conftest import Site
from tests.scenarios.servers import REPOSITORY

LIMITS = ((10, 1), (24, 3))
"""At most so many in every so many seconds."""
MARGIN_SECONDS = 0.1
CALLS = 12
AT_ONCE = 3


class Api(ThreadingHTTPServer):
    """Answers 200 within its limits, else 429; a call takes a while, of which there may be AT_ONCE."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.arrived: deque[float] = deque()
        self.running = self.most = self.refused = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def lets_in(self) -> bool:
        with self.lock:
            now = time.monotonic()
            fits = all(
                sum(at > now - seconds + MARGIN_SECONDS for at in self.arrived) < amount for amount, seconds in LIMITS
            )
            self.refused += not fits
            if fits:
                self.arrived.append(now)
            self.running += 1
            self.most = max(self.most, self.running)
            return fits

    def ends(self) -> None:
        with self.lock:
            self.running -= 1


class Handler(BaseHTTPRequestHandler):
    """One call."""

    server: Api
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/hello":
            self.answer(200)
            return
        status = 200 if self.server.lets_in() else 429
        time.sleep(0.02)
        self.server.ends()
        self.answer(status)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def tenantlimits(tenantlimits: dict[str, Any], settings: Any) -> dict[str, Any]:
    settings.TENANTLIMITS = tenantlimits | {"LANES": {"outbound": {}}}
    return settings.TENANTLIMITS


@pytest.fixture
def api() -> Iterator[Api]:
    server = Api()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_api_that_enforces_the_same_limits_never_sees_them_exceeded(site: Site, api: Api) -> None:
    """R6, R7: two workers with threads and requests, two with an event loop and httpx; all calls are made."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    for amount, seconds in LIMITS:
        Limit.objects.create(
            tier=tier, name=f"in-{seconds}", lane="outbound", kind="sliding_log", amount=amount,
            period_seconds=seconds,
        )  # fmt: skip
    Limit.objects.create(tier=tier, name="at-once", lane="outbound", kind="concurrency", amount=AT_ONCE)
    Tenant.objects.create(key="acme", tier=tier)

    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.outbound", kind, api.url, str(CALLS)],
            cwd=REPOSITORY, env=os.environ | site.environment, stdout=subprocess.PIPE, text=True,
        )
        for kind in ("requests", "httpx") * 2
    ]  # fmt: skip
    served = [int(worker.communicate(timeout=120)[0]) for worker in workers]

    assert served == [CALLS] * 4
    assert api.refused == 0
    assert api.most <= AT_ONCE
