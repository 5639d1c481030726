"""The noisy neighbour: offer requests at a fixed rate, whatever comes back, and see what everybody felt.

    noisy = Traffic(name="acme", path="/api/projects/", rate=200, headers={"Authorization": "Bearer ..."})
    quiet = Traffic(name="bolt", path="/api/projects/", rate=5, headers={"Authorization": "Bearer ..."})
    acme, bolt = flood("http://127.0.0.1:8000", noisy, quiet, seconds=8)
    assert acme.refused and bolt.error_rate == 0 and bolt.percentile(95) < 0.1

Arrivals do not wait for answers (an open loop), and a latency counts from the instant at which its request was due, so
that neither a slow server nor a slow client can make the figures look better than they were. It talks to this machine
only. Where the server stamps its answers with X-Arrived-At, in seconds since the epoch, arrivals are on its clock.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from urllib.parse import urlsplit

from tenantlimits.testing.client import Client, Request
from tenantlimits.testing.wire import Answer, encoded

MAX_REQUESTS = 100_000
MAX_SECONDS = 600
ARRIVAL_FIELD = "X-Arrived-At"
NO_ANSWER = 0
"""The status of a request that nobody answered in time."""
REFUSED = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests that one caller offers: `rate` in each second, evenly."""

    name: str
    path: str
    rate: float
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, in seconds: `due` since the flood began, `late` sent, `latency` from due to answer.

    `arrived_at` is the server's clock, None where it does not say; `limit` the name of the limit that refused.
    """

    due: float
    late: float
    latency: float
    status: int
    arrived_at: float | None = None
    limit: str = ""

    @property
    def admitted(self) -> bool:
        """Whether it was answered, and not by a refusal."""
        return self.status not in (NO_ANSWER, REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """What one caller's requests met. `client_cpu` is the part of a core that this client took for all of them."""

    traffic: Traffic
    seconds: float
    client_cpu: float
    exchanges: tuple[Exchange, ...]

    @property
    def offered(self) -> int:
        """How many requests were sent."""
        return len(self.exchanges)

    @property
    def statuses(self) -> Counter[int]:
        """How many requests were answered with each status; NO_ANSWER is 0."""
        return Counter(one.status for one in self.exchanges)

    @property
    def admitted(self) -> int:
        """How many were answered and not refused, whatever the view then said."""
        return sum(one.admitted for one in self.exchanges)

    @property
    def refused(self) -> int:
        """How many were answered with 429."""
        return self.statuses[REFUSED]

    @property
    def refused_by(self) -> Counter[str]:
        """How many each limit refused, by its name in the field RateLimit."""
        return Counter(one.limit for one in self.exchanges if one.status == REFUSED)

    @property
    def error_rate(self) -> float:
        """The part that did not get what it asked for: refusals, errors and missing answers."""
        return sum(not 200 <= one.status < 400 for one in self.exchanges) / self.offered if self.offered else 0.0

    def percentile(self, percent: float) -> float:
        """The latency in seconds that so many percent of the requests stayed within. No answer counts as long as it was
        waited for."""
        latencies = sorted(one.latency for one in self.exchanges)
        return latencies[max(0, math.ceil(len(latencies) * percent / 100) - 1)] if latencies else 0.0

    @property
    def lateness(self) -> float:
        """How late, in seconds, the slowest of 99 in 100 requests was sent: whether the client kept its rate."""
        late = sorted(one.late for one in self.exchanges)
        return late[math.ceil(len(late) * 0.99) - 1] if late else 0.0

    @property
    def arrivals(self) -> tuple[float, float] | None:
        """First and last arrival on the server's clock; None where the server does not stamp its answers."""
        stamps = [one.arrived_at for one in self.exchanges if one.arrived_at is not None]
        return (min(stamps), max(stamps)) if stamps else None


def flood(url: str, *traffic: Traffic, seconds: float, timeout_seconds: float = 30) -> tuple[Flood, ...]:
    """Offer all traffic at once for so many seconds, wait for the answers, and tell what each caller met.

    `url` is a server on this machine, `http://127.0.0.1:8000`. A request without an answer after `timeout_seconds` is
    given up. ValueError where the server is elsewhere, or the traffic is out of bounds.
    """
    return asyncio.run(aflood(url, *traffic, seconds=seconds, timeout_seconds=timeout_seconds))


async def aflood(url: str, *traffic: Traffic, seconds: float, timeout_seconds: float = 30) -> tuple[Flood, ...]:
    """`flood` from an event loop, which it should have for itself: others' work makes it late."""
    _check_bounds(traffic, seconds, timeout_seconds)
    host, address = _server(url)
    offers = [_Offer(one, encoded(one.method, one.path, _fields(one, host), one.body)) for one in traffic]
    client = Client(address)
    cpu, began = time.process_time(), time.perf_counter()
    await _send(client, merge(*(offer.instants(seconds) for offer in offers), key=_instant), timeout_seconds)
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    await client.wait()
    return tuple(offer.flood(seconds, share) for offer in offers)


async def _send(client: Client, instants: Iterable[tuple[float, _Offer]], timeout_seconds: float) -> None:
    """Send every request when it is due. One that is late is sent at once, and the next ones keep their instants."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for due, offer in instants:
        if (ahead := began + due - loop.time()) > 0:
            await asyncio.sleep(ahead)
        client.send(offer.request(due, began + due, timeout_seconds))


def _instant(pair: tuple[float, _Offer]) -> float:
    return pair[0]


def _check_bounds(traffic: tuple[Traffic, ...], seconds: float, timeout_seconds: float) -> None:
    if not 0 < seconds <= MAX_SECONDS or not 0 < timeout_seconds <= MAX_SECONDS:
        raise ValueError(f"A flood lasts, and waits for an answer, more than 0 and at most {MAX_SECONDS} seconds.")
    for one in traffic:
        if not (math.isfinite(one.rate) and one.rate > 0):
            raise ValueError(f"Traffic {one.name} offers {one.rate} requests per second: write a number above 0.")
    total = sum(one.rate for one in traffic) * seconds
    if total > MAX_REQUESTS:
        raise ValueError(
            f"That would be {total:,.0f} requests, and a flood has at most {MAX_REQUESTS:,}: lower a rate."
        )


def _server(url: str) -> tuple[str, tuple[str, int]]:
    """The Host field, and the address to connect to: checked after the name was resolved, so that no name can lead
    elsewhere."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is no address of a test server: write http://127.0.0.1:8000.")
    found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    addresses = [(str(one[4][0]), int(one[4][1])) for one in found]
    for address, _port in addresses:
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            raise ValueError(
                f"{parts.hostname} is at {address}, another machine: a flood goes to this one only, such as 127.0.0.1."
            )
    return parts.netloc.rpartition("@")[2], addresses[0]


def _fields(traffic: Traffic, host: str) -> dict[str, str]:
    own = {name.lower() for name in traffic.headers}
    return ({} if "host" in own else {"Host": host}) | dict(traffic.headers)


@dataclass(slots=True, eq=False)
class _Offer:
    """One caller's traffic under way."""

    traffic: Traffic
    payload: bytes
    exchanges: list[Exchange] = field(default_factory=list)

    def instants(self, seconds: float) -> list[tuple[float, _Offer]]:
        """When each request is due; the first after half an interval, lest everybody begins at once."""
        return [((count + 0.5) / self.traffic.rate, self) for count in range(round(self.traffic.rate * seconds))]

    def request(self, due: float, due_at: float, timeout_seconds: float) -> Request:
        """The next request, which is sent now. Its answer becomes an exchange."""
        clock = asyncio.get_running_loop().time
        late = max(0.0, clock() - due_at)

        def ended(answer: Answer | None) -> None:
            self.exchanges.append(_exchange(answer, due=due, late=late, latency=clock() - due_at))

        deadline, bodiless = due_at + timeout_seconds, self.traffic.method == "HEAD"
        return Request(payload=self.payload, ended=ended, deadline=deadline, bodiless=bodiless)

    def flood(self, seconds: float, client_cpu: float) -> Flood:
        """What it met, in the order in which it was due."""
        exchanges = tuple(sorted(self.exchanges, key=lambda one: one.due))
        return Flood(traffic=self.traffic, seconds=seconds, client_cpu=client_cpu, exchanges=exchanges)


def _exchange(answer: Answer | None, *, due: float, late: float, latency: float) -> Exchange:
    if answer is None:
        return Exchange(due=due, late=late, latency=latency, status=NO_ANSWER)
    refused = re.search(r'"([^"]*)"', answer.field("RateLimit")) if answer.status == REFUSED else None
    return Exchange(
        due=due,
        late=late,
        latency=latency,
        status=answer.status,
        arrived_at=_seconds(answer.field(ARRIVAL_FIELD)),
        limit=refused[1] if refused else "",
    )


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
