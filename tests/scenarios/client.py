"""What talks to the servers: kept-alive connections whose process is known, and clients without manners."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.scenarios.servers import HOST, WORKERS, Server

TIMEOUT_SECONDS = 60
MOST_CONNECTIONS = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and when it was asked for and read: seconds since the epoch, as on this machine's store."""

    status: int
    fields: http.client.HTTPMessage
    body: bytes
    asked_at: float
    answered_at: float

    @property
    def pid(self) -> int:
        """The process that answered."""
        return int(self.fields["X-Pid"])

    @property
    def decided_at(self) -> float:
        """The instant of the decision on the store's clock."""
        return int(self.fields["X-Decided-At"]) / 1_000_000


class Connection(http.client.HTTPConnection):
    """A connection of a tenant's, kept alive. `send` and `read` apart: several can be asked at the same instant."""

    def __init__(self, server: Server, tenant: str) -> None:
        super().__init__(HOST, server.port, timeout=TIMEOUT_SECONDS)
        self.tenant, self.asked_at = tenant, 0.0

    def ask(self, path: str) -> None:
        """Send a request."""
        self.asked_at = time.time()
        self.request("GET", path, headers={"Authorization": f"Bearer token-of-{self.tenant}"})

    def read(self) -> Answer:
        """Read its answer."""
        response = self.getresponse()
        body = response.read()
        return Answer(response.status, response.headers, body, self.asked_at, time.time())

    def get(self, path: str) -> Answer:
        """Both."""
        self.ask(path)
        return self.read()


@contextmanager
def one_to_each_process(server: Server, tenant: str, *, processes: int = WORKERS) -> Iterator[dict[int, Connection]]:
    """A kept-alive connection to each worker process, by its pid."""
    found: dict[int, Connection] = {}
    others: list[Connection] = []
    while len(found) < processes:
        assert len(others) < MOST_CONNECTIONS, f"{MOST_CONNECTIONS} connections led to {len(found)} processes only"
        # Several at once, so that a process that is busy leaves some to the others.
        fresh = [Connection(server, tenant) for _ in range(processes)]
        for one in fresh:
            one.ask("/whoami/?seconds=0.02")
        for one in fresh:
            kept = found.setdefault(one.read().pid, one)
            others += [] if kept is one else [one]
    try:
        yield found
    finally:
        for one in [*found.values(), *others]:
            one.close()


def rude(server: Server, tenant: str, path: str) -> socket.socket:
    """Send a request and do not wait: whoever closes the socket is a client that has gone."""
    connection = socket.create_connection((HOST, server.port), timeout=TIMEOUT_SECONDS)
    head = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer token-of-{tenant}\r\n\r\n"
    connection.sendall(head.encode())
    return connection
