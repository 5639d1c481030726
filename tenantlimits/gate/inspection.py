"""What kind of server keeps the state, for people who look for what is wrong. No decision needs any of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import redis
from django_redis import get_redis_connection

from tenantlimits.conf import Store, conf
from tenantlimits.engine.base import Begin, Pending
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.counts import StoreUnreachable, ask
from tenantlimits.gate.store import stores

PATIENCE_SECONDS = 2.0
"""Who asks by hand waits longer than a request may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the server says of itself; None where it does not tell, as hosted ones may. `maxmemory` is bytes.

    `clock_ahead_seconds` is by how much its clock is ahead of this machine's, to half a round trip.
    """

    name: str
    version: str | None
    maxmemory: int | None
    eviction_policy: str | None
    clock_ahead_seconds: float
    round_trip_seconds: float


def is_shared() -> bool:
    """Whether a server keeps the state, rather than this process."""
    return conf.STORE is Store.REDIS


def address() -> str:
    """Where the server is, without its password: `redis://host:6379/0`."""
    pool = get_redis_connection(conf.CACHE_ALIAS).connection_pool
    options: dict[str, Any] = pool.connection_kwargs  # Any: as redis-py types its own options
    if "path" in options:
        return f"unix://{options['path']}?db={options.get('db', 0)}"
    scheme = "rediss" if issubclass(pool.connection_class, redis.SSLConnection) else "redis"
    return f"{scheme}://{options.get('host', 'localhost')}:{options.get('port', 6379)}/{options.get('db', 0)}"


def server() -> Server:
    """Ask the server; StoreUnreachable, with what it said, where it does not answer."""
    with _client() as client:
        try:
            client.ping()
            ahead, round_trip = _clock(client)
        except redis.RedisError as error:
            raise StoreUnreachable(f"{type(error).__name__}: {error}") from error
        return _server(_information(client), ahead, round_trip)


def check_scripts() -> None:
    """Run what a decision runs first; StoreUnreachable where the server does not let us."""
    ask(stores.engine, Begin(Identity(tenant="")))


def unflushed_tenants() -> int:
    """How many tenants have usage that is not written down; StoreUnreachable."""
    return len(ask(stores.engine, Pending()))


def _client() -> redis.Redis:
    """A client that connects as django-redis does, but gives up after PATIENCE_SECONDS."""
    pool = get_redis_connection(conf.CACHE_ALIAS).connection_pool
    options = pool.connection_kwargs | {
        "socket_timeout": PATIENCE_SECONDS,
        "socket_connect_timeout": PATIENCE_SECONDS,
        "decode_responses": True,
    }
    return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=pool.connection_class, **options))


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
        maxmemory=info.get("maxmemory"),
        eviction_policy=info.get("maxmemory_policy"),
        clock_ahead_seconds=ahead,
        round_trip_seconds=round_trip,
    )
