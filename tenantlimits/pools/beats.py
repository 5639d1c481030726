"""What a process does for its fleet pools beside its work: it says that it is alive, and hears of slots given to it.

One thread beats for all pools while they have anything; one more listens to each store while somebody waits. What is
heard is only told to the pool, which knows whose slot it is.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import time
from base64 import urlsafe_b64encode
from contextlib import closing
from typing import Protocol
from weakref import WeakSet

from tenantlimits.engine.pools import PoolStore, StoreError

logger = logging.getLogger(__name__)

LISTEN_SECONDS = 1.0
"""So often a listener looks whether anybody waits still, and so long after a failure it is tried again."""
LINGER_SECONDS = 5.0
"""It goes on for so long when nobody waits any more."""


class Beating(Protocol):
    """A pool that has to say that it is alive. Times are seconds on the monotonic clock."""

    store: PoolStore

    @property
    def due_at(self) -> float:
        """When it has to be said next; infinite where nothing is held and nobody waits."""

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits."""

    def beat(self) -> None:
        """Say it, and act on the answer."""

    def hurry(self) -> None:
        """Say it at once."""

    def hear(self, id: bytes) -> None:
        """An operation has a slot, if it is this pool's."""

    def end(self) -> None:
        """The process ends: give back all."""

    def forget(self) -> None:
        """This is a forked child, which has none of it."""


class Beats:
    """The threads of this process, which the store knows by the name `process`."""

    def __init__(self) -> None:
        self._all: WeakSet[Beating] = WeakSet()
        self._begin()

    def _begin(self) -> None:
        self.process = urlsafe_b64encode(os.urandom(6))
        self._lock = threading.Lock()
        self._nudged = threading.Event()
        self._beating: set[Beating] = set()
        self._thread: threading.Thread | None = None
        self._planned_at = math.inf
        self._listening: dict[PoolStore, float] = {}

    def join(self, pool: Beating) -> None:
        """A pool that may beat some day."""
        self._all.add(pool)

    def add(self, pool: Beating) -> None:
        """Beat for a pool when it is due, from now on."""
        with self._lock:
            self._beating.add(pool)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="tenantlimits-fleet", daemon=True)
                self._thread.start()
        if pool.due_at < self._planned_at:
            self._nudged.set()

    def listen(self, store: PoolStore) -> None:
        """Hear what this process is given, as long as anybody waits."""
        with self._lock:
            if self._listening.get(store, -math.inf) > time.monotonic() - LISTEN_SECONDS:
                return
            self._listening[store] = math.inf
        threading.Thread(target=self._listen, args=(store,), name="tenantlimits-wakeups", daemon=True).start()

    def end(self) -> None:
        """The process ends."""
        for pool in list(self._all):
            pool.end()

    def forget(self) -> None:
        """A forked child has none of its parent's threads and slots, and a name of its own."""
        self._begin()
        for pool in list(self._all):
            pool.forget()

    def _beat(self) -> None:
        try:
            while self._is_needed():
                for pool in list(self._beating):
                    if pool.due_at <= time.monotonic():
                        pool.beat()
                self._planned_at = math.inf  # whoever comes from here on has to say so
                self._nudged.clear()
                self._planned_at = min(pool.due_at for pool in list(self._beating))
                if self._planned_at < math.inf:
                    self._nudged.wait(max(0.0, self._planned_at - time.monotonic()))
        finally:
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _is_needed(self) -> bool:
        with self._lock:
            self._beating = {pool for pool in self._beating if pool.due_at < math.inf}
            if not self._beating:
                self._thread = None
                self._planned_at = math.inf
            return bool(self._beating)

    def _listen(self, store: PoolStore) -> None:
        try:
            with closing(store.wakeups(self.process)) as wakeups:
                # What they were given before somebody listened.
                for pool in self._of(store):
                    pool.hurry()
                    self.add(pool)
                waited_at = time.monotonic()
                while time.monotonic() - waited_at < LINGER_SECONDS:
                    for id in wakeups.read(LISTEN_SECONDS):
                        for pool in self._of(store):
                            pool.hear(id)
                    if any(pool.has_waiters for pool in self._of(store)):
                        waited_at = time.monotonic()
        except StoreError as error:
            logger.debug("Slots that others give on are heard of at the next beat only (%s).", error)
            self._listening[store] = time.monotonic()
        else:
            self._listening.pop(store, None)

    def _of(self, store: PoolStore) -> list[Beating]:
        return [pool for pool in list(self._beating) if pool.store is store]


beats = Beats()
os.register_at_fork(after_in_child=beats.forget)
atexit.register(beats.end)
