"""What a limiter adds to a request of Django REST framework, within this process: no socket, no server. P2b."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from django.test import RequestFactory

from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import Call, Case, compare
from tests.benchmarks.rows import Row
from tests.benchmarks.site.application import wsgi

ABOUT = "a trivial DRF view with limiters in front"


def rows(bench: Bench) -> Iterator[Row]:
    """P2b: what all of ours adds to a request, over what one throttle of DRF adds."""
    cases = {name: Case(request_of(f"/{name}/")) for name in ("bare", "one", "four", "ours")}
    found = compare(cases, server=bench.server, rounds=60, calls=50)
    added = {name: found[name].beyond(found["bare"]) for name in ("one", "four", "ours")}
    ratio = median(added["ours"]) / median(added["one"])
    yield Row("P2b", "added to a request, over what one DRF throttle adds", 0.75, 0.6, ratio)
    share = median(added["ours"]) / median(added["four"])
    yield Row("P2b", "the same over four DRF throttles", measured=share)


def request_of(path: str) -> Call:
    """A request through the whole of Django, from the server's call to the closed response."""
    environ = RequestFactory().get(path).environ
    statuses: list[str] = []

    def call() -> None:
        statuses.clear()
        response: Any = wsgi(dict(environ), lambda status, headers, *_: statuses.append(status))
        b"".join(response)
        response.close()
        assert statuses == ["200 OK"], f"{path} answers {statuses}"

    return call
