"""Waiting to be admitted: in line, and no longer than the store says.

For callers of an API that has limits of its own: whoever has to wait sleeps for the longest wait of the limits that
refused, and asks again. In one process the operations of a tenant and lane wait in the order in which they came, and
only the first of them asks, so that a hundred of them are no stampede.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from tenantlimits.domain.decisions import Code, Decision
from tenantlimits.domain.errors import SlotRefused
from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.gate.asking import Ask, Outcome
from tenantlimits.gate.deciding import admitting
from tenantlimits.gate.steps import Steps
from tenantlimits.pools.process import ProcessPool
from tenantlimits.pools.registry import AnySlot
from tenantlimits.pools.wanted import Wanted

POLL_SECONDS = 0.05
"""Nobody can say when a running operation ends, so a cap that is full is asked again after this."""
_MOST_WAITING = 100_000


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let time pass: a step."""

    seconds: float

    def wait(self) -> None:
        """In this thread."""
        time.sleep(self.seconds)

    async def await_(self) -> None:
        """In an event loop."""
        await asyncio.sleep(self.seconds)


class _Lines:
    """A line for each tenant and lane in which somebody waits: a pool of one, in which the first has the slot."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: WeakValueDictionary[tuple[str, str], ProcessPool] = WeakValueDictionary()

    def of(self, ask: Ask) -> ProcessPool:
        """The line that an operation joins; it is kept by those who stand in it."""
        key = (ask.identity.tenant, ask.lane.name)
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = ProcessPool(f"line of {key[1]}", PoolRules(capacity=1, queue=_MOST_WAITING))
            return line


_lines = _Lines()


def waiting(ask: Ask, seconds: float) -> Steps[Outcome]:
    """Ask until the operation is admitted, or will not be within so many seconds; then its last refusal."""
    until = time.monotonic() + seconds
    turn: AnySlot | SlotRefused = yield Wanted(_lines.of(ask), ask.identity.tenant, Share(1), seconds)
    try:
        while True:
            left = max(0.0, until - time.monotonic())
            outcome = yield from admitting(replace(ask, wait=left))
            pause = _pause(outcome.decision)
            if pause is None or isinstance(turn, SlotRefused) or time.monotonic() + pause > until:
                return outcome
            yield Sleep(pause)
    finally:
        if not isinstance(turn, SlotRefused):
            turn.release()


def _pause(decision: Decision) -> float | None:
    """Seconds after which it is worth asking again; None where it is not."""
    if decision.allowed or decision.never:
        return None
    if decision.code in (Code.CONCURRENCY_LIMITED, Code.CAPACITY_FULL):
        return POLL_SECONDS
    return decision.retry_after
