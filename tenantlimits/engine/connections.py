"""Connections held out of a client's pool: two thirds of a redis-py call are its own machinery around the socket.

redis-py makes a connection (address, TLS, password, database) and ends it; in between its socket is ours. So what the
pool did for us is our duty: a connection is dropped on any exception between sending and reading, and when its server
has closed it; it never crosses a fork; nothing is ever sent twice (a charge whose reply was lost may have been made).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenantlimits.engine import resp
from tenantlimits.engine.resp import Reply

IDLE_SECONDS = 10.0
"""Servers and proxies close connections that idle: one that was not used for so long is looked at before it is used."""
_CHUNK = 65536


class Connections:
    """Held connections to one server, for threads and event loops. `pool` says how to connect.

    `connect_seconds` and `answer_seconds` bound what an unreachable or stopped server may cost a caller.
    """

    def __init__(self, pool: redis.ConnectionPool, *, connect_seconds: float, answer_seconds: float) -> None:
        self._options = {
            **pool.connection_kwargs,
            "socket_connect_timeout": connect_seconds,
            "socket_timeout": answer_seconds,
            "decode_responses": False,
            "protocol": 2,
            "health_check_interval": 0,
        }
        for option in ("retry", "retry_on_error", "retry_on_timeout", "connection_pool", "maint_notifications_config"):
            self._options.pop(option, None)
        self._class = pool.connection_class
        self._answer_seconds = answer_seconds
        self._free: deque[tuple[Any, float]] = deque()
        self._keepers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Keeper] = WeakKeyDictionary()
        self._pid = os.getpid()

    def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """Send packed commands at once and read a reply for each; an error reply is returned, not raised."""
        if not commands:
            return []
        connection = self._take()
        replies: list[Reply] = []
        rest = b""
        try:
            socket = connection._sock
            socket.sendall(b"".join(commands))
            while len(replies) < len(commands):
                received = socket.recv(_CHUNK) or _ended()
                rest = resp.read(rest + received, replies, len(commands))
        except OSError as error:
            connection.disconnect()
            raise _named(error) from error
        except BaseException:
            connection.disconnect()
            raise
        self._free.append((connection, time.monotonic()))
        return replies

    async def aexchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """The same from an event loop; a cancelled call gives up its connection."""
        if not commands:
            return []
        free = await self._afree()
        connection = await self._atake(free)
        replies: list[Reply] = []
        rest = b""
        try:
            async with asyncio.timeout(self._answer_seconds):
                connection._writer.write(b"".join(commands))
                await connection._writer.drain()
                while len(replies) < len(commands):
                    received = await connection._reader.read(_CHUNK) or _ended()
                    rest = resp.read(rest + received, replies, len(commands))
        except OSError as error:
            await connection.disconnect(nowait=True)
            raise _named(error) from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        free.append(connection)
        return replies

    def close(self) -> None:
        """Close the connections that no thread is using."""
        while self._free:
            self._free.pop()[0].disconnect()

    def _take(self) -> Any:
        if self._pid != os.getpid():
            # A forked child must not talk over its parent's sockets, nor close the conversation that runs on them.
            self._free, self._keepers, self._pid = deque(), WeakKeyDictionary(), os.getpid()
        while True:
            try:
                connection, used_at = self._free.pop()
            except IndexError:
                connection = self._class(**self._options, retry=Retry(NoBackoff(), 0))
                connection.connect()
                connection._sock.settimeout(self._answer_seconds)  # redis-py 5.0.0 forgets it on a Unix socket
                return connection
            if time.monotonic() - used_at < IDLE_SECONDS or _is_quiet(connection):
                return connection
            connection.disconnect()

    async def _afree(self) -> deque[Any]:
        """The free connections of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._keepers.get(loop)
        if kept is None:
            generator = _kept()
            kept = self._keepers[loop] = (await anext(generator), generator)
        return kept[0]

    async def _atake(self, free: deque[Any]) -> Any:
        while free:
            connection = free.pop()
            if not connection._reader.at_eof():
                return connection
            await connection.disconnect(nowait=True)
        options = {name: value for name, value in self._options.items() if name != "parser_class"}
        connection = _ASYNC_CLASSES[self._class](**options, retry=redis.asyncio.retry.Retry(NoBackoff(), 0))
        await connection.connect()
        return connection


_ASYNC_CLASSES = {
    redis.Connection: redis.asyncio.Connection,
    redis.SSLConnection: redis.asyncio.SSLConnection,
    redis.UnixDomainSocketConnection: redis.asyncio.UnixDomainSocketConnection,
}


_Keeper = tuple[deque[Any], AsyncGenerator[deque[Any], None]]


async def _kept() -> AsyncGenerator[deque[Any], None]:
    """Free connections of one loop. A loop that ends closes its generators (asyncio.run and asgiref see to that)."""
    free: deque[Any] = deque()
    try:
        yield free
    finally:
        while free:
            await free.pop().disconnect()


def _is_quiet(connection: Any) -> bool:
    """Whether the server has neither closed the connection nor sent what nobody asked for."""
    try:
        return not connection.can_read(timeout=0)
    except redis.RedisError:
        return False


def _ended() -> NoReturn:
    raise redis.ConnectionError("The server closed the connection.")


def _named(error: OSError) -> redis.RedisError:
    """Trouble with a socket by redis-py's name for it."""
    if isinstance(error, TimeoutError):
        return redis.TimeoutError("The server did not answer in time.")
    return redis.ConnectionError(f"The connection to the server broke: {error}.")
