# ruff: noqa: PLC0415, C419 - any of the packages may be missing; and every limit is asked, also behind one that refuses
"""What others take for four limits of one caller, on the same server and in the same rounds. P2.

Each peer does it in the cheapest way that it documents for Redis, and does only that: no slot, no usage, no change of
policy. `peers.txt` has their versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from django.test import RequestFactory

from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import Call, Case, compare
from tests.benchmarks.rows import AT_ONCE, IN_TURN, Row, missing
from tests.benchmarks.site.fill import FOUR

ABOUT = "the same four limits with other packages"
RATES = {name: f"{amount}/{name[0]}" for name, (amount, _) in FOUR.items()}
CHEAPEST = "in decisions, four limits of the cheapest in turn"
FOUR_THROTTLES = "in decisions, four DRF throttles"
NOT_INSTALLED = "not installed: make bench says why"


@dataclass(frozen=True, slots=True)
class Peer:
    """A package, and four limits with it. `at_once`: it asks all of them in one call to the server."""

    name: str
    four: Callable[[str], Call]
    at_once: bool = False

    @property
    def is_installed(self) -> bool:
        """Whether this environment has it."""
        try:
            return bool(version(self.name))
        except PackageNotFoundError:
            return False


def rows(bench: Bench) -> Iterator[Row]:
    """P2: how many times a decision each of them costs."""
    url = f"redis://127.0.0.1:{bench.server.port}/1"
    installed = [peer for peer in PEERS if peer.is_installed]
    cases = {peer.name: Case(_checked(peer, url)) for peer in installed}
    ours = {"ours": Case(bench.asking("peers", periods=[seconds for _, seconds in FOUR.values()]))}
    found = compare({**ours, **cases}, server=bench.server, rounds=40, calls=25)
    times = {name: timing.over(found["ours"]) for name, timing in found.items()}
    yield from _judged(times)
    for peer in PEERS:
        what = f"{peer.name}{AT_ONCE if peer.at_once else IN_TURN}"
        known = times.get(peer.name)
        yield missing("P2", what, NOT_INSTALLED) if known is None else Row("P2", what, measured=known)


def _judged(times: dict[str, float]) -> Iterator[Row]:
    others = [peer.name for peer in PEERS if not peer.at_once and peer.name != DRF]
    in_turn = {name: times[name] for name in others if name in times}
    if in_turn:
        cheapest = min(in_turn, key=in_turn.__getitem__)
        yield Row("P2", f"{CHEAPEST}: {cheapest}", 6, 7, in_turn[cheapest], more_is_better=True)
    else:
        yield missing("P2", CHEAPEST, NOT_INSTALLED)
    if DRF in times:
        yield Row("P2", FOUR_THROTTLES, 15, 20, times[DRF], more_is_better=True)
    else:
        yield missing("P2", FOUR_THROTTLES, NOT_INSTALLED)


def _checked(peer: Peer, url: str) -> Call:
    call = peer.four(url)
    assert call(), f"{peer.name} refuses what is far below every limit"
    return call


def _drf(url: str) -> Call:
    from rest_framework.views import APIView

    from tests.benchmarks.site import throttles

    request, view = APIView().initialize_request(RequestFactory().get("/")), APIView()
    return lambda: all([throttle().allow_request(request, view) for throttle in throttles.FOUR])


def _django_ratelimit(url: str) -> Call:
    from django_ratelimit.core import is_ratelimited

    request = RequestFactory().get("/")

    def call() -> bool:
        limited = [
            is_ratelimited(request, group=name, key=lambda *_: "acme", rate=rate, increment=True)
            for name, rate in RATES.items()
        ]
        return not any(limited)

    return call


def _smart_ratelimit(url: str) -> Call:
    from django_smart_ratelimit.backends.redis_backend import RedisBackend

    backend = RedisBackend(url=url)
    return lambda: all(
        [
            backend.token_bucket_check(f"acme:{name}", amount, amount / seconds, amount, 1)[0]
            for name, (amount, seconds) in FOUR.items()
        ]
    )


def _ratelimit_plus(url: str) -> Call:
    from drf_ratelimit_plus.throttles import rate_limit
    from rest_framework.views import APIView

    view = APIView()
    request = view.initialize_request(RequestFactory().get("/"))
    classes = [
        rate_limit(rate=rate, algorithm="fixed_window", key=lambda *_: "acme", scope=name)
        for name, rate in RATES.items()
    ]
    return lambda: all([one().allow_request(request, view) for one in classes])


def _limits(url: str) -> Call:
    from limits import RateLimitItemPerSecond
    from limits.storage import RedisStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter = FixedWindowRateLimiter(RedisStorage(url))
    items = [RateLimitItemPerSecond(amount, seconds) for amount, seconds in FOUR.values()]
    return lambda: all([limiter.hit(item, "acme") for item in items])


def _throttled(url: str) -> Call:
    from datetime import timedelta

    from throttled import RedisStore, Throttled, per_duration

    store = RedisStore(server=url)
    four = [
        Throttled(key=f"acme:{name}", using="gcra", quota=per_duration(timedelta(seconds=seconds), amount), store=store)
        for name, (amount, seconds) in FOUR.items()
    ]
    return lambda: not any([one.limit().limited for one in four])


def _pyrate(url: str) -> Call:
    import redis
    from pyrate_limiter import Limiter, Rate
    from pyrate_limiter.buckets import RedisBucket

    rates = [Rate(amount, seconds * 1000) for amount, seconds in FOUR.values()]
    limiter: Any = Limiter(RedisBucket.init(rates, redis.Redis.from_url(url), "acme"))
    return lambda: limiter.try_acquire("acme", blocking=False)


def _trafficwatch(url: str) -> Call:
    from django_trafficwatch.core import TrafficWatch
    from django_trafficwatch.rules import Rule

    watch, request = TrafficWatch(), RequestFactory().get("/")
    rules = tuple(Rule(name=name, window=seconds, limit=amount) for name, (amount, seconds) in FOUR.items())
    return lambda: not watch.check(request, rules).blocked


DRF = "djangorestframework"
PEERS = (
    Peer(DRF, _drf),
    Peer("django-ratelimit", _django_ratelimit),
    Peer("django-smart-ratelimit", _smart_ratelimit),
    Peer("drf-ratelimit-plus", _ratelimit_plus),
    Peer("limits", _limits),
    Peer("throttled-py", _throttled),
    Peer("pyrate-limiter", _pyrate, at_once=True),
    Peer("django-trafficwatch", _trafficwatch, at_once=True),
)
