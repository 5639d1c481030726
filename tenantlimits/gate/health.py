"""Whether the store can be reached: who hears of it when that changes, and what was seen of it."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

import redis

from tenantlimits.domain.lanes import Lane
from tenantlimits.gate.reporting import OnceAMinute
from tenantlimits.signals import store_degraded, store_recovered

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Health:
    """The troubles of this process with its store; of a cluster those of all its nodes together.

    `errors` counts decisions that the store did not make, by the class of what went wrong; `openings` how often a
    server was left alone because it failed.
    """

    errors: dict[str, int] = field(default_factory=dict)
    openings: int = 0
    _away: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reported: OnceAMinute = field(default_factory=OnceAMinute)

    @property
    def is_degraded(self) -> bool:
        """Whether a server is left alone now."""
        return self._away > 0

    def note(self, error: redis.RedisError, lane: Lane) -> None:
        """The store did not make a decision; one log record a minute says so."""
        name = type(error).__name__
        with self._lock:
            self.errors[name] = self.errors.get(name, 0) + 1
        if self._reported.is_due():
            logger.error(
                "The store cannot be reached (%s: %s). Lane %s: %s.", name, error, lane.name,
                lane.on_store_failure, extra={"lane": lane.name},
            )  # fmt: skip

    def opened(self, error: redis.RedisError) -> None:
        """A server is left alone until it answers again."""
        with self._lock:
            self.openings += 1
            self._away += 1
            is_first = self._away == 1
        logger.warning("The store fails (%s: %s) and is not asked until it answers.", type(error).__name__, error)
        if is_first:
            store_degraded.send_robust(sender=type(self), error=error)

    def closed(self, seconds: float) -> None:
        """The server answers again."""
        with self._lock:
            self._away -= 1
            is_last = self._away == 0
        logger.warning("The store answers again, after %.1f s.", seconds)
        if is_last:
            store_recovered.send_robust(sender=type(self), seconds=seconds)
