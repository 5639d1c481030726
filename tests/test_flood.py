"""The load client: it keeps its rate whatever comes back, stays within bounds and on this machine, and tells it all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tenantlimits.testing import client
from tenantlimits.testing.flood import Exchange, Flood, Traffic, flood
from tenantlimits.testing.wire import MalformedAnswer, encoded, parsed

Answering = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    """Counts its connections and keeps the instants at which requests came."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, answer: Answering) -> None:
        self.arrivals: list[float] = []
        self.connections = 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.arrivals.append(time.time())
                answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        server = self
        super().__init__(("127.0.0.1", 0), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is no error."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(answer: Answering) -> Iterator[Server]:
    with Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def answer(handler: BaseHTTPRequestHandler, status: int = 200, body: bytes = b"ok", **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def traffic(**values: Any) -> Traffic:
    return Traffic(**{"name": "acme", "path": "/", "rate": 50.0} | values)


def exchange(latency: float, status: int = 200) -> Exchange:
    return Exchange(due=0, late=0, latency=latency, status=status)


def result(*exchanges: Exchange) -> Flood:
    return Flood(traffic=traffic(), seconds=1, client_cpu=0, exchanges=exchanges)


def test_arrivals_do_not_wait_for_answers() -> None:
    """A client that waited would need 50 x 0.5 s on one connection, and 1 s on the 32 that it opens first."""

    def slow(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(0.5)
        answer(handler)

    with serving(slow) as server:
        (acme,) = flood(server.url, traffic(), seconds=1)

    assert acme.statuses == {200: 50}
    assert server.arrivals[-1] - server.arrivals[0] < 1.5  # 1 s, and what a busy machine adds
    assert acme.percentile(50) >= 0.5


def test_every_caller_keeps_a_rate_of_its_own() -> None:
    with serving(answer) as server:
        acme, bolt = flood(server.url, traffic(rate=40), traffic(name="bolt", rate=10), seconds=1)

    assert (acme.offered, bolt.offered) == (40, 10)
    assert [round(one.due, 3) for one in bolt.exchanges[:2]] == [0.05, 0.15]
    assert acme.exchanges == tuple(sorted(acme.exchanges, key=lambda one: one.due))
    assert acme.client_cpu == bolt.client_cpu > 0


def test_connections_are_kept_and_all_of_them_are_used() -> None:
    with serving(answer) as server:
        flood(server.url, traffic(rate=100), seconds=1)

    assert len(server.arrivals) == 100
    assert server.connections < 100


def test_refusals_are_counted_by_the_limit_that_refused() -> None:
    def every_second_one(handler: BaseHTTPRequestHandler) -> None:
        if len(handler.server.arrivals) % 2:  # type: ignore[attr-defined]
            answer(handler, X_Arrived_At=f"{time.time():.6f}")
        else:
            answer(handler, 429, RateLimit='"all-rate";r=0;t=1, "other";r=5;t=1')

    with serving(every_second_one) as server:
        (acme,) = flood(server.url, traffic(rate=20), seconds=1)

    assert (acme.admitted, acme.refused, acme.error_rate) == (10, 10, 0.5)
    assert acme.refused_by == {"all-rate": 10}
    assert acme.arrivals
    assert acme.arrivals[0] == pytest.approx(server.arrivals[0], abs=0.5)


def test_a_server_that_closes_after_each_answer_is_asked_on_new_connections() -> None:
    with serving(lambda handler: answer(handler, Connection="close")) as server:
        (acme,) = flood(server.url, traffic(), seconds=1)

    assert acme.statuses == {200: 50}
    assert server.connections == 50


def test_a_kept_connection_that_the_server_dropped_is_no_error() -> None:
    def dropped(handler: BaseHTTPRequestHandler) -> None:
        answer(handler)  # which promises to keep the connection
        handler.close_connection = True

    with serving(dropped) as server:
        (acme,) = flood(server.url, traffic(rate=100), seconds=1)

    assert acme.statuses == {200: 100}


def test_a_request_without_an_answer_is_given_up() -> None:
    release = threading.Event()

    with serving(lambda _handler: release.wait(5)) as server:
        (acme,) = flood(server.url, traffic(rate=5), seconds=1, timeout_seconds=0.2)
        release.set()

    assert acme.statuses == {0: 5}
    assert acme.error_rate == 1
    assert acme.admitted == 0
    assert acme.percentile(50) >= 0.2


def test_a_server_that_is_not_there_is_told_as_missing_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    (acme,) = flood(f"http://127.0.0.1:{port}", traffic(rate=5), seconds=1)

    assert acme.statuses == {0: 5}


def test_requests_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_CONNECTIONS", 20)
    release = threading.Event()

    def held_back(handler: BaseHTTPRequestHandler) -> None:
        release.wait(5)
        answer(handler)

    with serving(held_back) as server:
        threading.Timer(1.5, release.set).start()
        (acme,) = flood(server.url, traffic(rate=50), seconds=1)

    assert acme.statuses == {200: 20, 0: 30}
    assert server.connections == 20


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1", "http://0.0.0.0:8000", "http://10.0.0.1/", "http://[2001:db8::1]/"]
)
def test_another_machine_is_refused_with_words(url: str) -> None:
    with pytest.raises(ValueError, match="another machine: a flood goes to this one only"):
        flood(url, traffic(), seconds=1)


@pytest.mark.parametrize("url", ["https://127.0.0.1", "127.0.0.1:8000", "", "ftp://127.0.0.1"])
def test_what_is_no_address_of_a_test_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"write http://127\.0\.0\.1:8000"):
        flood(url, traffic(), seconds=1)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ({}, {"seconds": 0}, "at most 600 seconds"),
        ({}, {"seconds": 601}, "at most 600 seconds"),
        ({}, {"seconds": float("nan")}, "at most 600 seconds"),
        ({}, {"seconds": 1, "timeout_seconds": 0}, "at most 600 seconds"),
        ({"rate": 0}, {"seconds": 1}, "a number above 0"),
        ({"rate": float("inf")}, {"seconds": 1}, "a number above 0"),
        ({"rate": 1000}, {"seconds": 101}, "101,000 requests, and a flood has at most 100,000"),
        ({"path": "no-slash"}, {"seconds": 1}, "a path from / on"),
        ({"path": "/a b"}, {"seconds": 1}, "a path from / on"),
        ({"method": "GET /x"}, {"seconds": 1}, "write a method"),
        ({"headers": {"X-A": "b\r\nX-C: d"}}, {"seconds": 1}, "leave out spaces and line ends"),
    ],
)
def test_what_is_out_of_bounds_is_refused_before_anything_is_sent(
    values: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        flood("http://127.0.0.1:1", traffic(**values), **options)


def test_percentiles_are_latencies_that_occurred() -> None:
    found = result(*(exchange(number / 100) for number in range(1, 101)))

    assert (found.percentile(50), found.percentile(95), found.percentile(100)) == (0.5, 0.95, 1.0)
    assert result().percentile(95) == 0


def test_an_error_is_no_refusal_but_both_are_no_service() -> None:
    found = result(exchange(1), exchange(1, 302), exchange(1, 429), exchange(1, 500), exchange(1, 0))

    assert (found.admitted, found.refused, found.error_rate) == (3, 1, 0.6)


@pytest.mark.parametrize(
    ("received", "ended", "status"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", False, 200),
        (b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", False, 200),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, 204),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n\r\n", False, 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\nA: b\r\n\r\n", False, 200),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", True, 200),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", False, 201),
    ],
)
def test_a_whole_answer_is_known_as_one_and_nothing_shorter(received: bytes, ended: bool, status: int) -> None:
    whole = parsed(received, bodiless=False, ended=ended)

    assert whole
    assert whole.status == status
    assert all(parsed(received[:length], bodiless=False, ended=False) is None for length in range(len(received)))


def test_an_answer_that_is_cut_short_is_none() -> None:
    assert parsed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", bodiless=False, ended=True) is None


@pytest.mark.parametrize("received", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"])
def test_what_is_no_http_is_malformed(received: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        parsed(received, bodiless=False, ended=False)


def test_a_request_with_a_body_says_how_long_it_is() -> None:
    request = encoded("POST", "/x?y=1", {"Host": "a"}, b"body")

    assert request == b"POST /x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
