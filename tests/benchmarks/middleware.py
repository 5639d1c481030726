"""The middleware's own time in Python: tenant, policy, packing, unpacking and header fields, without the store. P6."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from tenantlimits.decorators import limited
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.engine.resp import Reply
from tenantlimits.gate import admit
from tenantlimits.gate.store import engine_replaced
from tenantlimits.middleware import TenantLimitsMiddleware
from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import Call, Case, compare
from tests.benchmarks.rows import Row

ABOUT = "the middleware without the store"
SCRIPT_BYTES = 62
"""The beginning of an EVALSHA, up to the name of its script."""


class Replies:
    """Answers at once what the store answered to the first call of the same script."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._known: dict[bytes, list[Reply]] = {}

    def post(self, packed: bytes, again: Callable[[], object]) -> None:
        """Nobody waits for an answer."""

    def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """The replies, known or new."""
        script = commands[0][:SCRIPT_BYTES]
        replies = self._known.get(script)
        if replies is None:
            replies = self._known[script] = self._connections.exchange(commands)
        return replies


class Empty:
    """A middleware that does nothing, in the places where ours does something."""

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        """Only passes on."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        """Nothing."""


def rows(bench: Bench) -> Iterator[Row]:
    """P6: what ours takes more than an empty one, with four rates, and with a slot taken and given back besides."""
    engine = RedisEngine(cast(Connections, Replies(bench.connections)))
    with _known_scripts(engine):
        cases = {
            "empty": Case(through(Empty, "rates")),
            "rates": Case(through(TenantLimitsMiddleware, "rates")),
            "slot": Case(through(TenantLimitsMiddleware, "reads")),
        }
        found = compare(cases, server=bench.server, rounds=60, calls=200)
    # Nobody is waited for here, so our CPU time is all of it, and leaves out what a neighbour takes.
    rounds = {name: zip(found[name].client, found["empty"].client, strict=True) for name in ("rates", "slot")}
    added = {name: median(one - empty for one, empty in pairs) for name, pairs in rounds.items()}
    yield Row("P6", "the middleware's own time, four rates, no store", 30, 12, added["rates"], unit="us")
    yield Row("P6", "the same with a slot taken and given back", measured=added["slot"], unit="us")


def _known_scripts(engine: RedisEngine) -> Any:
    # With the real store first: it has to know the scripts, or an error would be what is replayed.
    for lane in ("rates", "reads"):
        through(TenantLimitsMiddleware, lane)()
        assert admit(lane=lane, tenant="acme").allowed
    return engine_replaced(engine)


def through(middleware: type, lane: str) -> Call:
    """A request through one middleware and a view that has its response ready."""
    view = limited(lane=lane)(lambda request: HttpResponse("ok"))

    def handled(request: HttpRequest) -> HttpResponse:
        assert chain.process_view(request, view, (), {}) is None, "refuses what is far below every limit"
        return HttpResponse("ok")

    chain = middleware(handled)
    environ = RequestFactory().get("/").META

    def call() -> None:
        request = HttpRequest()
        request.method, request.META = "GET", environ
        chain(request).close()

    return call
