"""Who waits for a slot: a thread or a task. Each is woken once, by whoever has a slot for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol

from tenantlimits.domain.shares import Grant

_LONGEST_SECONDS = 86_400.0


class Waiter(Protocol):
    """Something that waits. `grant` is the slot that it was given, at `since`; None until then."""

    grant: Grant[Waiter] | None
    since: float

    def wake(self) -> bool:
        """Its slot is there. False where nobody is left to take it."""


class ThreadWaiter:
    """A thread that waits."""

    __slots__ = ("_woken", "grant", "since")

    def __init__(self) -> None:
        self.grant: Grant[Waiter] | None = None
        self.since = 0.0
        # A lock that is held is the cheapest thing that a thread can wait for: an Event takes a lock and a condition.
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self) -> bool:
        self._woken.release()
        return True

    def wait(self, seconds: float) -> None:
        """Until it is woken, or for so long."""
        self._woken.acquire(timeout=min(seconds, _LONGEST_SECONDS))


class TaskWaiter:
    """A task of an event loop that waits."""

    __slots__ = ("_loop", "_woken", "grant", "since")

    def __init__(self) -> None:
        self.grant: Grant[Waiter] | None = None
        self.since = 0.0
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> bool:
        if asyncio._get_running_loop() is self._loop:
            self._set()
            return True
        try:
            self._loop.call_soon_threadsafe(self._set)
        except RuntimeError:  # its loop has ended without it
            return False
        return True

    async def wait(self, seconds: float) -> None:
        """Until it is woken, or for so long."""
        timer = self._loop.call_later(min(seconds, _LONGEST_SECONDS), self._set)
        try:
            await self._woken
        finally:
            timer.cancel()

    def _set(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)
