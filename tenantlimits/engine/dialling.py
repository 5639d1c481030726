"""How to reach a server: the options of the alias in CACHES, as redis-py reads them, with our bounds on waiting."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from copy import copy
from functools import cache
from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from tenantlimits.engine.sentinels import Sentinels

# What would send a command twice, or belongs to the pool and not to its connections.
_NOT_OURS = frozenset((
    "retry", "retry_on_error", "retry_on_timeout", "connection_pool", "event_dispatcher", "himport_registry",
    "maint_notifications_config", "maint_notifications_pool_handler",
    "orig_host_address", "orig_socket_timeout", "orig_socket_connect_timeout",
))  # fmt: skip
# What changes how bytes are packed and read, which the classes of event loops do in another way or not at all.
_FOR_THREADS = frozenset(["parser_class", "command_packer"])
MOST_CONNECTIONS = 2**31
"""Of a pool: whoever has a request has a connection, as with held ones."""

# Each after those that it is a kind of.
_KINDS: tuple[tuple[type, type, type], ...] = (
    (redis.UnixDomainSocketConnection, redis.UnixDomainSocketConnection, redis.asyncio.UnixDomainSocketConnection),
    (redis.SSLConnection, redis.SSLConnection, redis.asyncio.SSLConnection),
    (redis.Connection, redis.Connection, redis.asyncio.Connection),
)


class UnknownConnections(Exception):
    """The alias asks for connections that redis-py's TCP, TLS or Unix socket connections cannot be."""


class Dial:
    """Connects to the server of a pool; with Sentinel, to the master of the moment.

    `connect_seconds` and `answer_seconds` bound what an unreachable or stopped server may cost a caller, and each
    sentinel as well.
    """

    def __init__(self, pool: redis.ConnectionPool, *, connect_seconds: float, answer_seconds: float) -> None:
        self._class, self._async_class = _kind(pool.connection_class)
        bounds = {"socket_connect_timeout": connect_seconds, "socket_timeout": answer_seconds}
        fixed = bounds | {"decode_responses": False, "protocol": 2, "health_check_interval": 0}
        options = pool.connection_kwargs | fixed
        self._options = {name: value for name, value in options.items() if name not in _NOT_OURS}
        _try(self._class, self._options)
        self.answer_seconds = answer_seconds
        self._sentinels = Sentinels(pool, bounds) if isinstance(pool, SentinelConnectionPool) else None

    def to(self, host: str, port: int) -> Dial:
        """The same for another server: a node of the cluster that this one belongs to."""
        other = copy(self)
        other._options = {**self._options, "host": host, "port": port}
        return other

    def connect(self) -> Any:
        """A new connection; redis.RedisError where the server is not there."""
        connection = self._class(**self._options | self._address(), retry=_once())
        connection.connect()
        connection._sock.settimeout(self.answer_seconds)  # redis-py 5.0.0 forgets it on a Unix socket
        return connection

    async def aconnect(self) -> Any:
        """A new connection of the running event loop."""
        options = self._async_options() | await self._aaddress()
        connection = self._async_class(**options, retry=_aonce())
        await connection.connect()
        return connection

    def pool(self) -> redis.ConnectionPool:
        """A pool of redis-py's own; with Sentinel to the master of this moment."""
        options = self._options | self._address() | {"retry": _once(), "max_connections": MOST_CONNECTIONS}
        return redis.ConnectionPool(connection_class=self._class, **options)

    async def apool(self) -> redis.asyncio.ConnectionPool:
        """The same for the running event loop."""
        options = self._async_options() | await self._aaddress()
        return redis.asyncio.ConnectionPool(
            connection_class=self._async_class, max_connections=MOST_CONNECTIONS, retry=_aonce(), **options
        )

    def _address(self) -> dict[str, Any]:
        """Where the master is now, which only Sentinel knows; else the options say it."""
        if self._sentinels is None:
            return {}
        host, port = self._sentinels.master()
        return {"host": host, "port": port}

    async def _aaddress(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._address) if self._sentinels is not None else {}

    def _async_options(self) -> dict[str, Any]:
        """Those that a connection of an event loop has; UnknownConnections where it lacks one that is set."""
        known = _parameters(self._async_class)
        unknown = [name for name, value in self._options.items() if name not in known | _FOR_THREADS and value]
        if unknown:
            raise UnknownConnections(f"redis-py's connections for event loops have no {', '.join(unknown)}.")
        return {name: value for name, value in self._options.items() if name in known - _FOR_THREADS}


def _kind(connection_class: type) -> tuple[Any, Any]:
    """The classes for threads and for event loops."""
    for kind, plain, asynchronous in _KINDS:
        if issubclass(connection_class, kind):
            # Sentinel's own classes ask for the address themselves, and would do so without our bounds.
            managed = connection_class.__module__ == SentinelConnectionPool.__module__
            return (plain if managed else connection_class), asynchronous
    raise UnknownConnections(f"{connection_class.__name__} is no kind of redis-py's TCP, TLS or Unix connection.")


def _try(connection_class: Any, options: Mapping[str, Any]) -> None:
    """UnknownConnections where such a connection cannot be made, whatever is at the other end."""
    try:
        connection_class(**options)
    except (TypeError, ValueError, redis.RedisError) as error:
        raise UnknownConnections(f"redis-py makes no {connection_class.__name__} of its options: {error}.") from error


@cache
def _parameters(connection_class: type) -> frozenset[str]:
    """Every option that a class of connections takes."""
    constructors = [vars(one)["__init__"] for one in connection_class.__mro__ if "__init__" in vars(one)]
    return frozenset(name for one in constructors for name in inspect.signature(one).parameters)


def _once() -> Retry:
    """What was sent is not sent again."""
    return Retry(NoBackoff(), 0)


def _aonce() -> Any:
    return redis.asyncio.retry.Retry(NoBackoff(), 0)
