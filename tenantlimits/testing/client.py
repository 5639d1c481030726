"""Kept-alive connections to one server, for requests that wait neither for each other nor for an answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tenantlimits.testing.wire import Answer, MalformedAnswer, parsed

MAX_CONNECTIONS = 800
"""Requests under way at once; one above gets no answer. Below the 1,024 files that a process usually may open."""
SPREAD = 32
"""Connections that are opened before one is used again, so that all of a server's processes get their part."""


@dataclass(slots=True, eq=False)
class Request:
    """Bytes to send. `ended` is called once, with the answer or None. `deadline` is an instant of the loop's clock."""

    payload: bytes
    ended: Callable[[Answer | None], None]
    deadline: float
    bodiless: bool = False
    was_sent_again: bool = False
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class Client:
    """The connections. Used longest ago, used next: so that all of them, and the processes behind, stay in use."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address, self._loop = address, asyncio.get_running_loop()
        self._idle: deque[_Connection] = deque()
        self._open: set[_Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def send(self, request: Request) -> None:
        """Send on a free connection, or on a new one."""
        self._under_way += 1
        self._quiet.clear()
        count = len(self._open) + len(self._opening)
        if self._idle and count >= SPREAD:
            self._idle.popleft().ask(request)
        elif count < MAX_CONNECTIONS:
            self.send_on_new(request)
        else:
            self.end(request, None)

    def send_on_new(self, request: Request) -> None:
        """Send on a connection of its own, which is kept afterwards."""
        task = self._loop.create_task(self._connect(request))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self, request: Request) -> None:
        try:
            async with asyncio.timeout_at(request.deadline):
                _transport, connection = await self._loop.create_connection(lambda: _Connection(self), *self._address)
        except OSError:  # TimeoutError is one
            self.end(request, None)
        else:
            connection.ask(request)

    async def wait(self) -> None:
        """Until everything has ended: each request does so by its deadline. Then close."""
        await self._quiet.wait()
        for connection in list(self._open):
            connection.transport.abort()
        await asyncio.sleep(0)

    def end(self, request: Request, answer: Answer | None) -> None:
        """A request is over."""
        if request.timer is not None:
            request.timer.cancel()
        self._under_way -= 1
        if self._under_way == 0:
            self._quiet.set()
        request.ended(answer)

    def opened(self, connection: _Connection) -> None:
        """A connection stands."""
        self._open.add(connection)

    def freed(self, connection: _Connection) -> None:
        """A connection can be used again."""
        self._idle.append(connection)

    def closed(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


class _Connection(asyncio.Protocol):
    """One connection, with at most one request under way."""

    transport: asyncio.Transport

    def __init__(self, client: Client) -> None:
        self._client, self._answered = client, 0
        self._request: Request | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._client.opened(self)

    def ask(self, request: Request) -> None:
        """Send the request."""
        self._request = request
        request.timer = asyncio.get_running_loop().call_at(request.deadline, self.transport.abort)
        self.transport.write(request.payload)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._parse(ended=False)

    def connection_lost(self, _error: Exception | None) -> None:
        self._client.closed(self)
        if self._request is not None:
            self._parse(ended=True)
        request, self._request = self._request, None
        if request is not None and self._was_dropped_while_idle(request):
            request.was_sent_again = True
            self._client.send_on_new(request)
        elif request is not None:
            self._client.end(request, None)

    def _was_dropped_while_idle(self, request: Request) -> bool:
        """Whether the server closed a kept connection just as we used it: then it has not seen the request."""
        overdue = asyncio.get_running_loop().time() >= request.deadline
        return bool(self._answered) and not self._received and not request.was_sent_again and not overdue

    def _parse(self, *, ended: bool) -> None:
        request = self._request
        if request is None:
            return self.transport.abort()  # nobody asked
        try:
            answer = parsed(self._received, bodiless=request.bodiless, ended=ended)
        except MalformedAnswer:
            return self.transport.abort()
        if answer is None:
            return None
        self._request, self._answered = None, self._answered + 1
        self._received.clear()
        if answer.closes:
            self.transport.close()
        else:
            self._client.freed(self)
        return self._client.end(request, answer)
