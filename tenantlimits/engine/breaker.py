"""Whether a server is worth asking: one that failed is not asked again until it has answered a probe.

A timeout alone would cost every request its length for as long as a server is stopped. Here those pay it that were
under way when it stopped; a thread that lives as long as the trouble asks again, and nobody waits for it.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import redis
from redis.exceptions import ClusterDownError, InvalidResponse, OutOfMemoryError, ReadOnlyError

PROBE_SECONDS = 0.25
"""Between two probes; each process waits a fifth more or less than that."""
RELAPSE_SECONDS = 1.0
MOST_PATIENT = 4
"""A server that fails again so soon is left alone before the next probe, for up to so many times PROBE_SECONDS."""
STALLED_SECONDS = 3.0
"""A probing thread that was silent for so long does not run (a server without threads): a caller probes instead."""

_chance = random.Random()  # noqa: S311 - so that processes take turns; of our own, for a host may seed the common one

# What a server says that will refuse whoever asks next, too, and has no class of its own in redis-py.
_UNFIT = ("MISCONF", "BUSY", "NOREPLICAS", "LOADING", "MASTERDOWN", "UNBLOCKED")


class StoreAway(redis.ConnectionError):
    """The server was not asked, because it is known not to answer."""


class ConnectionBroke(redis.ConnectionError):
    """A connection that had served before ended: of the server this says nothing, a new connection will tell."""


@dataclass(frozen=True, slots=True)
class Outage:
    """What was seen first, and when (seconds, monotonic)."""

    error: redis.RedisError
    began_at: float


class Watch(Protocol):
    """Who hears of a server's troubles. Called from any thread, also the probing one; must neither raise nor wait."""

    def opened(self, error: redis.RedisError) -> None:
        """The server is not asked any more."""

    def closed(self, seconds: float) -> None:
        """It is asked again, after so long."""


class Unwatched:
    """Nobody hears of it."""

    def opened(self, error: redis.RedisError) -> None:
        """Go on."""

    def closed(self, seconds: float) -> None:
        """Go on."""


def is_away(error: BaseException) -> bool:
    """Whether this is trouble with the server, which the next caller would have, too, and not with one command."""
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError)):
        return not isinstance(error, ConnectionBroke)
    if isinstance(error, (ReadOnlyError, OutOfMemoryError, ClusterDownError)):
        return True
    return isinstance(error, redis.ResponseError) and str(error).startswith(_UNFIT)


def raise_if_away(replies: Sequence[object]) -> None:
    """Raise a reply that says that the server will refuse the next command, too."""
    for reply in replies:
        if reply.__class__ is not bytes and isinstance(reply, redis.RedisError) and is_away(reply):
            raise reply


def raise_if_error(replies: Sequence[object]) -> None:
    """Raise a reply that is an error of any kind."""
    for reply in replies:
        if isinstance(reply, redis.RedisError):
            raise reply


def named(error: OSError | InvalidResponse, *, is_new: bool) -> redis.RedisError:
    """Trouble with a socket by redis-py's name for it; `is_new` where nothing had been asked on it before.

    A peer that talks nonsense on a new connection is no store, so that the next caller would not be served either.
    """
    if isinstance(error, TimeoutError):
        return redis.TimeoutError("The server did not answer in time.")
    kind = redis.ConnectionError if is_new else ConnectionBroke
    return kind(f"The connection to the server broke: {error}.")


class Breaker:
    """Closed, `outage` is None. `probe` asks the server once, in bounded time, and raises what is wrong with it."""

    def __init__(self, probe: Callable[[], None], watch: Watch) -> None:
        self.outage: Outage | None = None
        self._probe, self._watch = probe, watch
        self._lock = threading.Lock()
        self._tried_at = self._closed_at = -math.inf
        self._patience = 0
        self._pid = os.getpid()

    def check(self) -> None:
        """StoreAway while the breaker is open."""
        outage = self.outage
        if outage is None:
            return
        if self._pid != os.getpid():
            # The child of a fork has none of our threads, and may find another world.
            self._lock, self.outage, self._pid = threading.Lock(), None, os.getpid()
            return
        if time.monotonic() - self._tried_at > STALLED_SECONDS and self._answers():
            return
        raise StoreAway(f"The server is not asked since it failed ({outage.error}).") from outage.error

    def open(self, error: redis.RedisError) -> None:
        """Ask the server no more until it answers a probe."""
        with self._lock:
            if self.outage is not None:
                return
            self._tried_at = time.monotonic()
            self.outage = Outage(error, self._tried_at)
            # A probe that is answered proves little where scripts are not: then each closing costs callers their time.
            is_relapse = self._tried_at - self._closed_at < RELAPSE_SECONDS
            self._patience = min(2 * self._patience or 1, MOST_PATIENT) if is_relapse else 0
        self._watch.opened(error)
        try:
            threading.Thread(target=self._wait, name="tenantlimits-probe", daemon=True).start()
        except RuntimeError:  # no more threads, or the interpreter is ending: see `check`
            return

    def _wait(self) -> None:
        time.sleep(self._patience * PROBE_SECONDS)
        while self.outage is not None and not self._answers():
            time.sleep(PROBE_SECONDS * _chance.uniform(0.8, 1.2))

    def _answers(self) -> bool:
        self._tried_at = time.monotonic()
        try:
            self._probe()
        except redis.RedisError:
            return False
        self._close()
        return True

    def _close(self) -> None:
        with self._lock:
            outage, self.outage = self.outage, None
            self._closed_at = time.monotonic()
        if outage is not None:
            self._watch.closed(time.monotonic() - outage.began_at)
