"""Held connections of event loops: one for each loop, over which all of its tasks ask at once.

redis-py connects, and then the connection is a conversation of ours. Its replies come in the order of the questions, so
a thousand requests under way need one connection, not a thousand; and the protocol that reads a reply wakes its task
directly, where redis-py's streams wake the loop several times.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakKeyDictionary

from redis.exceptions import InvalidResponse

from tenantlimits.engine import resp
from tenantlimits.engine.breaker import named, raise_if_away
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.resp import Reply


@dataclass(slots=True, eq=False)
class _Question:
    """So many replies are awaited by a task. One that was cancelled still has its replies read, by nobody.

    `deadline` is on the loop's clock.
    """

    wanted: int
    deadline: float
    answered: asyncio.Future[None]
    replies: list[Reply] = field(default_factory=list)


class Conversation(asyncio.Protocol):
    """One connection. On trouble with any of its questions it is over for all."""

    def __init__(self, connection: Any) -> None:
        # redis-py's connection lets go of its stream, which lives as long as we do: both close what they are left with.
        self._stream, connection._writer, connection._reader = connection._writer, None, None
        self._transport = cast(asyncio.Transport, self._stream.transport)
        self._transport.set_protocol(self)
        self._loop = asyncio.get_running_loop()
        self._asked: deque[_Question] = deque()
        self._rest = b""
        self._timer: asyncio.TimerHandle | None = None
        self.is_new = True
        self.is_over = self._transport.is_closing()

    async def ask(self, commands: Sequence[bytes], answer_seconds: float) -> list[Reply]:
        """A reply for each command. OSError where there is none, InvalidResponse where it cannot be read."""
        loop = self._loop
        question = _Question(len(commands), loop.time() + answer_seconds, loop.create_future())
        self._asked.append(question)
        if self._timer is None:
            self._timer = loop.call_at(question.deadline, self._watch)
        self._transport.write(b"".join(commands))
        await question.answered
        return question.replies

    def _watch(self) -> None:
        """End the conversation where its first question is late. One timer for all: a timer for each costs 2 us."""
        self._timer = None
        if self._asked and self._asked[0].deadline <= self._loop.time():
            self._end(TimeoutError())
        elif self._asked:
            self._timer = self._loop.call_at(self._asked[0].deadline, self._watch)

    def data_received(self, data: bytes) -> None:
        """Part of a reply, or several."""
        try:
            self._read(data)
        except InvalidResponse as error:
            self._end(error)

    def _read(self, data: bytes) -> None:
        rest = self._rest + data
        while rest and self._asked:
            first = self._asked[0]
            rest = resp.read(rest, first.replies, first.wanted)
            if len(first.replies) < first.wanted:
                break
            self._asked.popleft()
            self.is_new = False
            if not first.answered.done():
                first.answered.set_result(None)
        self._rest = rest
        if rest and not self._asked:
            self._end(InvalidResponse("it sent what nobody had asked for"))

    def connection_lost(self, error: Exception | None) -> None:
        """The server has closed the connection, or it broke."""
        self._end(error or ConnectionResetError("the server closed it"))

    def eof_received(self) -> bool:
        """The server sends no more: close."""
        return False

    def abort(self) -> None:
        """Close at once: a late reply is nobody's."""
        self._end(ConnectionAbortedError("it is closed"))

    def _end(self, error: Exception) -> None:
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        asked, self._asked = self._asked, deque()
        for question in asked:
            if not question.answered.done():
                question.answered.set_exception(error)
        self._transport.abort()


@dataclass(slots=True, eq=False)
class _Kept:
    """The conversation of one loop, or that which begins; and how many times the server had failed by then."""

    failures: int = -1
    current: Conversation | None = None
    beginning: asyncio.Task[Conversation] | None = None


class LoopConnections:
    """Conversations with one server, one for each event loop."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._keepers: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[_Kept, AsyncGenerator[_Kept, None]]]
        self._keepers = WeakKeyDictionary()
        self._failures = 0

    async def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """A reply for each command, or redis.RedisError."""
        known = self._keepers.get(asyncio.get_running_loop())
        kept = known[0] if known is not None else await self._begin()
        conversation = kept.current
        if conversation is None or conversation.is_over or kept.failures != self._failures:
            conversation = await self._renewed(kept)
        try:
            replies = await conversation.ask(commands, self._dial.answer_seconds)
        except (OSError, InvalidResponse) as error:
            raise named(error, is_new=conversation.is_new) from error
        raise_if_away(replies)
        return replies

    def renew(self) -> None:
        """Use no conversation again that began before now. Each is closed by its own loop."""
        self._failures += 1

    async def _begin(self) -> _Kept:
        generator = _kept()
        kept = await anext(generator)
        self._keepers[asyncio.get_running_loop()] = (kept, generator)
        return kept

    async def _renewed(self, kept: _Kept) -> Conversation:
        """A new conversation, for all who wait for one: whoever gives up waiting takes it from nobody."""
        if kept.beginning is None:
            if kept.current is not None:
                kept.current.abort()
            kept.failures = self._failures
            kept.beginning = asyncio.ensure_future(self._connected())
            kept.beginning.add_done_callback(lambda _: setattr(kept, "beginning", None))
        kept.current = conversation = await asyncio.shield(kept.beginning)
        return conversation

    async def _connected(self) -> Conversation:
        return Conversation(await self._dial.aconnect())


async def _kept() -> AsyncGenerator[_Kept, None]:
    """What is kept for one loop. A loop that ends closes its generators (asyncio.run and asgiref see to that)."""
    kept = _Kept()
    try:
        yield kept
    finally:
        if kept.current is not None:
            kept.current.abort()
