"""Connections held out of a client's pool: two thirds of a redis-py call are its own machinery around the socket.

redis-py makes a connection (address, TLS, password, database) and ends it; in between its socket is ours. So what the
pool did for us is our duty: a connection is dropped on any exception between sending and reading, and when its server
has closed it; it never crosses a fork; nothing is ever sent twice (a charge whose reply was lost may have been made).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import redis
from redis.exceptions import InvalidResponse, NoScriptError

from tenantlimits.engine import resp
from tenantlimits.engine.breaker import Breaker, Unwatched, Watch, is_away, named, raise_if_away, raise_if_error
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.loops import LoopConnections
from tenantlimits.engine.resp import Reply, bulk, command

IDLE_SECONDS = 10.0
"""Servers and proxies close connections that idle: one that was not used for so long is looked at before it is used."""
MOST_OWED = 16
"""So many replies may wait to be read on a connection before somebody waits for them."""
PING = command([bulk("PING")])
_CHUNK = 65536


class Connections:
    """Held connections to one server, for threads and event loops, behind a breaker. `dial` says how to connect.

    `recover`, else a PING that is answered, tells whether a server that failed may be asked again: it raises what is
    wrong with it, in bounded time.
    """

    def __init__(
        self, dial: Dial, *, recover: Callable[[Connections], None] | None = None, watch: Watch | None = None
    ) -> None:
        self._dial = dial
        self._recover = recover or (lambda one: one.ask_once(PING))
        self.breaker = Breaker(lambda: self._recover(self), watch or Unwatched())
        self._free: deque[_Free] = deque()
        self._loops = LoopConnections(dial)
        self._pid = os.getpid()

    def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """Send packed commands at once and read a reply for each; an error reply is returned, not raised.

        Raised is what the next caller would meet, too: redis.RedisError of the connection, or of a server that is
        read-only, full or down.
        """
        if not commands:
            return []
        connection, owed, is_new = self._taken()
        try:
            replies = _converse(connection._sock, commands, self._dial.answer_seconds, len(owed))
        except (OSError, InvalidResponse) as error:
            connection.disconnect()
            raise self._failed(named(error, is_new=is_new)) from error
        except BaseException as error:
            connection.disconnect()
            self._failed(error)
            raise
        self._free.append((connection, time.monotonic(), ()))
        return _paid(replies, owed) if owed else replies

    def post(self, packed: bytes, again: Callable[[], object]) -> None:
        """Send a command whose reply nobody waits for: it is read with the next exchange's on that connection.

        `again` is called then, where the server did not know the command's script. Errors: as `exchange`, of sending.
        """
        connection, owed, is_new = self._taken()
        try:
            connection._sock.sendall(packed)
        except OSError as error:
            connection.disconnect()
            raise self._failed(named(error, is_new=is_new)) from error
        except BaseException:
            connection.disconnect()
            raise
        self._free.append((connection, time.monotonic(), (*owed, again)))
        if len(owed) >= MOST_OWED:
            self.exchange([PING])

    async def aexchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """The same from an event loop. What a cancelled call has sent may be carried out all the same."""
        if not commands:
            return []
        if self.breaker.outage is not None:
            self.breaker.check()
        try:
            replies = await self._loops.exchange(commands)
        except redis.RedisError as error:
            self._failed(error)
            raise
        return replies

    def connect(self) -> Any:
        """A new connection of the caller's own."""
        if self.breaker.outage is not None:
            self.breaker.check()
        return self._dial.connect()

    def close(self) -> None:
        """Close the connections that no thread is using."""
        while self._free:
            self._free.pop()[0].disconnect()

    def _failed(self, error: BaseException) -> BaseException:
        """Open the breaker where others would fail, too. In any case the free connections lead to the same server."""
        if isinstance(error, redis.RedisError):
            self.close()
            self._loops.renew()
            if is_away(error):
                self.breaker.open(error)
        return error

    def ask_once(self, packed: bytes) -> Reply:
        """The reply to one command over a new connection, whatever the breaker says; redis.RedisError where it is one.

        The connection is kept where it is answered.
        """
        connection = self._dial.connect()
        try:
            replies = _converse(connection._sock, [packed], self._dial.answer_seconds)
            raise_if_error(replies)
        except (OSError, InvalidResponse) as error:
            connection.disconnect()
            raise named(error, is_new=True) from error
        except BaseException:
            connection.disconnect()
            raise
        self._free.append((connection, time.monotonic(), ()))
        return replies[0]

    def _taken(self) -> _Taken:
        """A connection, unless the breaker is open; redis.RedisError where there is none."""
        if self.breaker.outage is not None:
            self.breaker.check()
        try:
            return self._take()
        except redis.RedisError as error:
            self._failed(error)
            raise

    def _take(self) -> _Taken:
        if self._pid != os.getpid():
            # A forked child must not talk over its parent's sockets, nor close the conversation that runs on them.
            self._free, self._pid = deque(), os.getpid()
            self._loops = LoopConnections(self._dial)
        while True:
            try:
                connection, used_at, owed = self._free.pop()
            except IndexError:
                return self._dial.connect(), (), True
            if time.monotonic() - used_at < IDLE_SECONDS or (not owed and _is_quiet(connection)):
                return connection, owed, False
            if owed and self._pays(connection, owed):
                return connection, (), False
            connection.disconnect()

    def _pays(self, connection: Any, owed: _Owed) -> bool:
        """Whether an idle connection still answers, what it owed first."""
        try:
            _paid(_converse(connection._sock, [PING], self._dial.answer_seconds, len(owed)), owed)
        except (OSError, redis.RedisError):
            return False
        return True


_Owed = tuple[Callable[[], object], ...]
"""What to do again for each reply that was not read yet, where it says that its script was not known."""
_Free = tuple[Any, float, _Owed]
_Taken = tuple[Any, _Owed, bool]
"""A connection, what it owes, and whether it is new."""


def _paid(replies: list[Reply], owed: _Owed) -> list[Reply]:
    """The replies to what was asked now; what was owed before is settled."""
    for reply, again in zip(replies, owed, strict=False):
        if isinstance(reply, NoScriptError):
            again()
    return replies[len(owed) :]


def _converse(socket: Any, commands: Sequence[bytes], answer_seconds: float, owed: int = 0) -> list[Reply]:
    """Send, and read a reply for each command, after those that were owed before."""
    replies: list[Reply] = []
    wanted = len(commands) + owed
    socket.sendall(b"".join(commands) if len(commands) > 1 else commands[0])
    rest = resp.read(socket.recv(_CHUNK) or _ended(), replies, wanted)
    if len(replies) < wanted:
        # The socket's own timeout is for each piece; a server that drips would never meet it.
        until = time.monotonic() + answer_seconds
        while len(replies) < wanted:
            rest = resp.read(rest + (socket.recv(_CHUNK) or _ended()), replies, wanted)
            if len(replies) < wanted and time.monotonic() > until:
                raise TimeoutError
    if rest:
        raise InvalidResponse("it sent what nobody had asked for")
    raise_if_away(replies)
    return replies


def _is_quiet(connection: Any) -> bool:
    """Whether the server has neither closed the connection nor sent what nobody asked for."""
    try:
        return not connection.can_read(timeout=0)
    except redis.RedisError:
        return False


def _ended() -> NoReturn:
    raise ConnectionResetError("the server closed it")
