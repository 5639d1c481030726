"""What a process does beside its requests, in one thread: it says that it is there, and has its counts taken over.

Refusals that were repeated from memory are counted in the store, and what was decided without the store is handed over
to it, so that one flush, by whomever, writes all of it down.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator

import redis

from tenantlimits.engine.base import Acknowledge, Announce, Collect, Counted, Deposit, Engine, HourCount, Pending
from tenantlimits.gate.refusals import Refusals

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
ANNOUNCE_SECONDS = 5.0


class Keeper:
    """Keeps the shared `store` informed of what this process did without asking it."""

    def __init__(self, store: Engine, local: Engine, refusals: Refusals) -> None:
        self._store, self._local, self._refusals = store, local, refusals
        self._id = os.urandom(8)
        self._announced_at = -ANNOUNCE_SECONDS
        self._ended = threading.Event()
        self.processes: int | None = None

    def start(self) -> None:
        """Go on until stopped."""
        threading.Thread(target=self._run, name="tenantlimits-keeper", daemon=True).start()

    def stop(self) -> None:
        """Do what is left to do, once, and no more."""
        if not self._ended.is_set():
            self._ended.set()
            self.tick()

    def _run(self) -> None:
        self.tick()
        while not self._ended.wait(TICK_SECONDS):
            self.tick()

    def tick(self) -> None:
        """All of it, now. Without the store it stays for the next time."""
        try:
            self._announce()
            self._count_refusals()
            self._hand_over()
        except redis.RedisError as error:
            logger.debug("The store cannot be told now what this process counted (%s).", error)

    def _announce(self) -> None:
        now = time.monotonic()
        if now - self._announced_at >= ANNOUNCE_SECONDS:
            self.processes = self._store.run(Announce(self._id))
            self._announced_at = now

    def _count_refusals(self) -> None:
        tallies = self._refusals.uncounted()
        while tallies:
            try:
                self._store.run(tallies[-1])
            except redis.RedisError:
                # Of the last one nobody knows: it may have been counted, and is not counted twice.
                self._refusals.owe(tallies[:-1])
                raise
            tallies.pop()

    def _hand_over(self) -> None:
        for member in self._local.run(Pending()):
            counted = self._local.run(Collect(member))
            self._store.run(Deposit(member, tuple(_hours(counted))))
            self._local.run(Acknowledge(member, counted))


def _hours(counted: Counted) -> Iterator[HourCount]:
    yield from counted.closed
    if counted.running is not None:
        yield counted.running
