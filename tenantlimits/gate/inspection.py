"""What kind of server keeps the state, for people who look for what is wrong. No decision needs any of it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import redis
from django_redis import get_redis_connection
from redis.exceptions import NoPermissionError
from redis.sentinel import SentinelConnectionPool

from tenantlimits.conf import Store, conf
from tenantlimits.engine.base import Begin, Pending
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.keys import Identity, type_of
from tenantlimits.gate.counts import StoreUnreachable, ask
from tenantlimits.gate.store import stores

PATIENCE_SECONDS = 2.0
"""Who asks by hand waits longer than a request may."""
SCANS, SCANNED_AT_ONCE = 20, 1000
"""How much of the key space is looked at, at most: in a database that holds much else, perhaps none of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the server says of itself; None where it does not tell, as hosted ones may. `maxmemory` is bytes.

    `clock_ahead_seconds` is by how much its clock is ahead of this machine's, to half a round trip.
    """

    name: str
    version: str | None
    is_replica: bool
    is_of_a_cluster: bool
    maxmemory: int | None
    eviction_policy: str | None
    clock_ahead_seconds: float
    round_trip_seconds: float


class Cause(Enum):
    """Why a server that answers decides nothing."""

    RIGHTS = auto()
    SLOW = auto()
    """Within PATIENCE_SECONDS it answers, within our timeouts it does not."""
    OTHER = auto()


def cause(error: StoreUnreachable) -> Cause:
    """What stands behind it."""
    if isinstance(error.__cause__, NoPermissionError):
        return Cause.RIGHTS
    if isinstance(error.__cause__, (redis.TimeoutError, redis.ConnectionError)):
        return Cause.SLOW
    return Cause.OTHER


def is_shared() -> bool:
    """Whether a server keeps the state, rather than this process."""
    return conf.STORE is Store.REDIS


def address() -> str:
    """Where the server is, without its password: `redis://host:6379/0`."""
    pool = get_redis_connection(conf.CACHE_ALIAS).connection_pool
    options: dict[str, Any] = pool.connection_kwargs  # Any: as redis-py types its own options
    if isinstance(pool, SentinelConnectionPool):
        return f"the master of {pool.service_name} (Sentinel), database {options.get('db', 0)},"
    if "path" in options:
        return f"unix://{options['path']}?db={options.get('db', 0)}"
    scheme = "rediss" if issubclass(pool.connection_class, redis.SSLConnection) else "redis"
    return f"{scheme}://{options.get('host', 'localhost')}:{options.get('port', 6379)}/{options.get('db', 0)}"


def server() -> Server:
    """Ask the server; StoreUnreachable, with what it said, where it does not answer."""
    try:
        with _client() as client:
            client.ping()
            ahead, round_trip = _clock(client)
            return _server(_information(client), ahead, round_trip)
    except redis.RedisError as error:
        raise StoreUnreachable(f"{type(error).__name__}: {error}") from error


def check_scripts() -> None:
    """Run what a decision runs first; StoreUnreachable where the server does not let us."""
    ask(stores.engine, Begin(Identity(tenant="")))


def unflushed_tenants() -> int:
    """How many tenants have usage that is not written down; StoreUnreachable."""
    return len(ask(stores.engine, Pending()))


@dataclass(frozen=True, slots=True)
class Sample:
    """Keys under our prefix: how many were seen, and the names of those whose type none of ours has."""

    seen: int
    wrong: tuple[str, ...]


def sampled_keys() -> Sample:
    """Look at some keys under our prefix; StoreUnreachable. Of a cluster those of one node."""
    seen: dict[bytes, str] = {}
    try:
        with _client() as client:
            cursor = 0
            for _ in range(SCANS):
                cursor, names = client.scan(cursor, match=_pattern(conf.KEY_PREFIX), count=SCANNED_AT_ONCE)
                with client.pipeline(transaction=False) as asked:
                    for name in names:
                        asked.type(name)
                    seen |= {name: one.decode() for name, one in zip(names, asked.execute(), strict=True)}
                if cursor == 0 or len(seen) >= SCANNED_AT_ONCE:
                    break
    except redis.RedisError as error:
        raise StoreUnreachable(f"{type(error).__name__}: {error}") from error
    found = {name.decode(errors="replace"): kind for name, kind in seen.items()}
    return Sample(len(found), tuple(name for name, kind in found.items() if kind not in ("none", type_of(name))))


def _pattern(prefix: str) -> str:
    """What the names of our keys look like."""
    literal = re.sub(r"([*?\[\]\\^])", r"\\\1", prefix)
    return f"{literal}:{{s??}}:*"


def _client() -> redis.Redis:
    """A client that connects as django-redis does, but gives up after PATIENCE_SECONDS."""
    pool = get_redis_connection(conf.CACHE_ALIAS).connection_pool
    dial = Dial(pool, connect_seconds=PATIENCE_SECONDS, answer_seconds=PATIENCE_SECONDS)
    return redis.Redis(connection_pool=dial.pool())


def _clock(client: redis.Redis) -> tuple[float, float]:
    asked_at, began = time.time(), time.perf_counter()
    seconds, micros = client.time()
    round_trip = time.perf_counter() - began
    return int(seconds) + int(micros) / 1_000_000 - (asked_at + round_trip / 2), round_trip


def _information(client: redis.Redis) -> dict[str, Any]:
    try:
        return dict(client.info())
    except redis.ResponseError:
        return {}  # a hosted server may keep it to itself


def _server(info: dict[str, Any], ahead: float, round_trip: float) -> Server:
    is_valkey = "valkey_version" in info
    version = info.get("valkey_version" if is_valkey else "redis_version")
    return Server(
        name="Valkey" if is_valkey else "Redis",
        version=None if version is None else str(version),
        is_replica=info.get("role") == "slave",
        is_of_a_cluster=info.get("cluster_enabled") == 1,
        maxmemory=info.get("maxmemory"),
        eviction_policy=info.get("maxmemory_policy"),
        clock_ahead_seconds=ahead,
        round_trip_seconds=round_trip,
    )
