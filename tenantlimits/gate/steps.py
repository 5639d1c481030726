"""Steps: what a decision needs done, one thing after another, in a thread or awaited by an event loop.

A decision is a generator that yields steps and is sent their results, so that it is written once for both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar, runtime_checkable

import redis
from asgiref.sync import sync_to_async

from tenantlimits.engine.base import Command, Engine

T = TypeVar("T")


@runtime_checkable
class Waiting(Protocol):
    """Something that waits in its own way."""

    def wait(self) -> Any:
        """Wait in this thread."""

    async def await_(self) -> Any:
        """The same from an event loop."""


Step = Command[Any] | Waiting | Callable[[], Any]
"""A command for the store, something to wait for, or a look into the database."""
Steps = Generator[Step, Any, T]


def drive(steps: Steps[T], engine: Engine) -> T:
    """Take the steps in this thread."""
    try:
        step = next(steps)
        while True:
            try:
                reply = engine.run(step) if isinstance(step, Command) else _done(step)
            except redis.RedisError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        # What the steps hold they give back now, and not when the traceback of a cancellation is forgotten.
        steps.close()


async def adrive(steps: Steps[T], engine: Engine) -> T:
    """Take the steps from an event loop; the database is asked in a thread."""
    try:
        step = next(steps)
        while True:
            try:
                reply = await engine.arun(step) if isinstance(step, Command) else await _adone(step)
            except redis.RedisError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        # What the steps hold they give back now, and not when the traceback of a cancellation is forgotten.
        steps.close()


def _done(step: Any) -> Any:
    return step.wait() if isinstance(step, Waiting) else step()


async def _adone(step: Any) -> Any:
    return await step.await_() if isinstance(step, Waiting) else await sync_to_async(step)()
