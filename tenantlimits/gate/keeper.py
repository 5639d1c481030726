"""What a process does beside its requests, in one thread: it says that it is there, and has its counts taken over.

Refusals that were repeated from memory are counted in the store, and what was decided without the store is handed over
to it, so that one flush, by whomever, writes all of it down.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator

import redis

from tenantlimits.engine.base import Acknowledge, Announce, Collect, Counted, Deposit, Engine, HourCount, Pending
from tenantlimits.engine.breaker import StoreAway, is_away
from tenantlimits.gate.refusals import Refusals

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0

at_each_tick: list[Callable[[], None]] = []
"""What else is to be done then, whether the store answers or not."""

held_in_pools: list[Callable[[], bytes]] = []
"""Says what the pools of this process hold, in bytes of its own; nothing where it has none."""


class Keeper:
    """Keeps the shared `store` informed of what this process did without asking it."""

    def __init__(self, store: Engine, local: Engine, refusals: Refusals) -> None:
        self._store, self._local, self._refusals = store, local, refusals
        self.id = os.urandom(8)
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
            # First, since it may be repeated: it finds out that a connection broke, and nothing is lost by that.
            self.processes = self._store.run(Announce(self.id, self._held()))
            self._count_refusals()
            self._hand_over()
        except redis.RedisError as error:
            logger.debug("The store cannot be told now what this process counted (%s).", error)
        for do in at_each_tick:
            do()

    def _held(self) -> bytes:
        """What the pools hold; of a process that ends nothing is left."""
        return b"" if self._ended.is_set() else b"".join(say() for say in held_in_pools)

    def _count_refusals(self) -> None:
        owed = []
        for tally in self._refusals.uncounted():
            try:
                self._store.run(tally)
            except redis.RedisError as error:
                # Where no answer came it may have been counted: nobody knows, and it is not counted twice.
                if isinstance(error, StoreAway) or (isinstance(error, redis.ResponseError) and is_away(error)):
                    owed.append(tally)
                _report_untold(error)
        self._refusals.owe(owed)

    def _hand_over(self) -> None:
        for member in self._local.run(Pending()):
            counted = self._local.run(Collect(member))
            try:
                self._store.run(Deposit(member, tuple(_hours(counted))))
            except redis.RedisError as error:
                _report_untold(error)
            else:
                self._local.run(Acknowledge(member, counted))


def _report_untold(error: redis.RedisError) -> None:
    """What is wrong with one tenant's keys, or with one node of a cluster, keeps nobody else's counts back."""
    if not is_away(error):
        logger.warning("The store does not take what this process counted of a tenant (%s).", error)


def _hours(counted: Counted) -> Iterator[HourCount]:
    yield from counted.closed
    if counted.running is not None:
        yield counted.running
