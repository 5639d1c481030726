"""Connections by redis-py's own pool and parser, for whoever meets trouble with held ones.

The rules are the same: nothing is sent twice, a connection that broke off between sending and reading is not used
again, and a server that failed is left alone until it answers. But redis-py waits for each piece of a reply, so that a
server that drips is never given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import redis
import redis.asyncio
from redis.exceptions import InvalidResponse, NoScriptError

from tenantlimits.engine.breaker import (
    Breaker,
    ConnectionBroke,
    Unwatched,
    Watch,
    is_away,
    named,
    raise_if_away,
    raise_if_error,
)
from tenantlimits.engine.connections import PING
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.resp import Reply

# What redis-py wants to know before it takes a connection out of a pool; since 5.3 it warns of who says it.
_PURPOSE = ("EVALSHA",) if redis.VERSION[:2] < (5, 3) else ()

# What its parsers raise where they are sent no replies.
_UNREADABLE = (InvalidResponse, TypeError, ValueError, RecursionError)

_LoopPool = tuple[int, redis.asyncio.ConnectionPool, AsyncGenerator[redis.asyncio.ConnectionPool, None]]


class PlainConnections:
    """Pooled connections to one server, for threads and event loops, behind a breaker. As `Connections` otherwise."""

    def __init__(
        self, dial: Dial, *, recover: Callable[[PlainConnections], None] | None = None, watch: Watch | None = None
    ) -> None:
        self._dial = dial
        self._recover = recover or (lambda one: one.ask_once(PING))
        self.breaker = Breaker(lambda: self._recover(self), watch or Unwatched())
        self._pool: redis.ConnectionPool | None = None
        self._loop_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopPool] = WeakKeyDictionary()
        self._generation = 0
        self._served: WeakSet[Any] = WeakSet()  # Any: connections, of which redis-py has many kinds

    def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """A reply for each packed command; an error reply is returned. redis.RedisError as of `Connections`."""
        if not commands:
            return []
        if self.breaker.outage is not None:
            self.breaker.check()
        try:
            return self._ask(commands)
        except redis.RedisError as error:
            self._failed(error)
            raise

    def post(self, packed: bytes, again: Callable[[], object]) -> None:
        """As `exchange`, and `again` where the server does not know the script."""
        if isinstance(self.exchange([packed])[0], NoScriptError):
            again()

    async def aexchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """The same from an event loop; a cancelled call gives up its connection."""
        if not commands:
            return []
        if self.breaker.outage is not None:
            self.breaker.check()
        try:
            return await self._aask(commands)
        except redis.RedisError as error:
            self._failed(error)
            raise

    def ask_once(self, packed: bytes) -> Reply:
        """The reply to one command, whatever the breaker says; redis.RedisError where it is one."""
        self.close()  # a pool leads to one server, and the master may be another by now
        replies = self._ask([packed])
        raise_if_error(replies)
        return replies[0]

    def connect(self) -> Any:
        """A new connection of the caller's own."""
        if self.breaker.outage is not None:
            self.breaker.check()
        return self._dial.connect()

    def close(self) -> None:
        """Close the connections that no thread is using."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.disconnect(inuse_connections=False)

    def _failed(self, error: redis.RedisError) -> None:
        """Open the breaker where others would fail, too. In any case the free connections lead to the same server."""
        self.close()
        self._generation += 1
        if is_away(error):
            self.breaker.open(error)

    def _ask(self, commands: Sequence[bytes]) -> list[Reply]:
        pool = self._pool = self._pool or self._dial.pool()
        connection: Any = pool.get_connection(*_PURPOSE)  # Any: redis-py leaves much of it without types
        try:
            connection._sock.settimeout(self._dial.answer_seconds)  # redis-py 5.0.0 forgets it on a Unix socket
            connection.send_packed_command(commands)
            replies = [_read(connection) for _ in commands]
        except BaseException as error:
            connection.disconnect()
            self._raise_if_broke(error, connection)
            raise
        finally:
            pool.release(connection)
        raise_if_away(replies)
        self._served.add(connection)
        return replies

    async def _aask(self, commands: Sequence[bytes]) -> list[Reply]:
        generation = self._generation
        pool = await self._loop_pool(generation)
        connection: Any = await pool.get_connection(*_PURPOSE)  # type: ignore[no-untyped-call]  # as above
        try:
            await connection.send_packed_command(commands)
            replies = [await _aread(connection) for _ in commands]
        except BaseException as error:
            await connection.disconnect(nowait=True)
            self._raise_if_broke(error, connection)
            raise
        finally:
            if generation != self._generation:
                await connection.disconnect(nowait=True)
            await pool.release(connection)
        raise_if_away(replies)
        self._served.add(connection)
        return replies

    async def _loop_pool(self, generation: int) -> redis.asyncio.ConnectionPool:
        """The running loop's pool. One from before the last failure is closed first."""
        loop = asyncio.get_running_loop()
        kept = self._loop_pools.get(loop)
        if kept is not None and kept[0] == generation:
            return kept[1]
        if kept is not None:
            self._loop_pools.pop(loop, None)
            await kept[1].disconnect(inuse_connections=False)
        generator = _kept(await self._dial.apool())
        pool = await anext(generator)
        self._loop_pools[loop] = (generation, pool, generator)
        return pool

    def _raise_if_broke(self, error: BaseException, connection: Any) -> None:
        """ConnectionBroke where the connection had served before; redis-py has one class for both."""
        if type(error) is redis.ConnectionError and connection in self._served:
            raise ConnectionBroke(str(error)) from error
        if isinstance(error, _UNREADABLE):
            raise named(InvalidResponse(str(error)), is_new=connection not in self._served) from error


def _read(connection: Any) -> Reply:
    try:
        return connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error


async def _aread(connection: Any) -> Reply:
    try:
        return await connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error


async def _kept(pool: redis.asyncio.ConnectionPool) -> AsyncGenerator[redis.asyncio.ConnectionPool, None]:
    """A pool of one loop. A loop that ends closes its generators (asyncio.run and asgiref see to that)."""
    try:
        yield pool
    finally:
        await pool.disconnect()
