"""Leases that this process holds, the one thread that renews them all, and how long operations take."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

import redis

from tenantlimits.conf import conf
from tenantlimits.domain.plans import Cap, Plan
from tenantlimits.engine.base import Engine, Lease, Release, Renew

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Held:
    """A lease of this process. Times are seconds on the monotonic clock: durations, which no clock has to agree on."""

    lease: Lease
    engine: Engine
    lane: str
    max_seconds: float | None
    since: float
    renewed_at: float
    lost: bool = False


class _Heartbeat:
    """Renews every lease of this process three times in its length, from one thread that lives while there are any."""

    def __init__(self) -> None:
        # Reentrant: a response that is dropped unclosed gives its slot back when it is collected, at any moment.
        self._lock = threading.RLock()
        self._held: dict[bytes, Held] = {}
        self._thread: threading.Thread | None = None

    def add(self, held: Held) -> None:
        """Renew a lease from now on."""
        with self._lock:
            self._held[held.lease.id] = held
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="tenantlimits-heartbeat", daemon=True)
                self._thread.start()

    def drop(self, lease: Lease) -> None:
        """Renew a lease no more."""
        with self._lock:
            self._held.pop(lease.id, None)

    def held(self) -> list[Held]:
        """The leases that are renewed now."""
        with self._lock:
            return list(self._held.values())

    def forget(self) -> None:
        """A forked child holds none of its parent's leases, and has none of its threads."""
        self._lock, self._held, self._thread = threading.RLock(), {}, None

    def _beat(self) -> None:
        while True:
            time.sleep(conf.LEASE_SECONDS / 3)
            with self._lock:
                if not self._held:
                    self._thread = None
                    return
                held = list(self._held.values())
            self._renew([one for one in held if not self._is_overdue(one)])

    def _is_overdue(self, held: Held) -> bool:
        if held.max_seconds is None or time.monotonic() - held.since < held.max_seconds:
            return False
        logger.warning("An operation in lane %s outlasts max_hold_seconds: it loses its slot.", held.lane)
        self.drop(held.lease)
        return True

    def _renew(self, held: list[Held]) -> None:
        for engine in {one.engine for one in held}:
            mine = [one for one in held if one.engine is engine]
            asked_at = time.monotonic()
            # A holder that was silent for a whole lease (stopped, paused) may have a successor: it takes nothing back.
            again = tuple(asked_at - one.renewed_at < one.lease.length_us / 1_000_000 for one in mine)
            try:
                alive = engine.run(Renew(tuple(one.lease for one in mine), again))
            except redis.RedisError as error:
                logger.warning("%d leases could not be renewed (%s).", len(mine), error)
                continue
            for one, is_alive in zip(mine, alive, strict=True):
                if one.lease.id not in self._held:
                    # It ended meanwhile, and what was asked here may have come after that and taken its slot again.
                    self._release(one)
                elif is_alive:
                    one.renewed_at = asked_at
                else:
                    self._lose(one)

    def _release(self, held: Held) -> None:
        try:
            held.engine.post(Release(held.lease))
        except redis.RedisError as error:
            logger.warning("A slot could not be given back (%s): it comes back when its lease ends.", error)

    def _lose(self, held: Held) -> None:
        held.lost = True
        self.drop(held.lease)
        logger.warning("An operation in lane %s has lost its slot and runs on without one.", held.lane)


heartbeat = _Heartbeat()
os.register_at_fork(after_in_child=heartbeat.forget)


class _HoldTimes:
    """How long operations of a lane hold their slot, in seconds: a running mean, for honest estimates of waits."""

    MOST_LANES = 1000

    def __init__(self) -> None:
        self._means: OrderedDict[str, float] = OrderedDict()

    def note(self, lane: str, seconds: float) -> None:
        """An operation took so long. A lost update between threads costs a little accuracy, no more."""
        before = self._means.get(lane, seconds)
        self._means[lane] = before + (seconds - before) / 8
        if len(self._means) > self.MOST_LANES:
            self._means.popitem(last=False)

    def until_free(self, lane: str, plan: Plan) -> float:
        """Seconds until a slot of the plan's smallest cap may come free; at least 1."""
        slots = min((term.spec.amount for term in plan.asked if isinstance(term.spec, Cap)), default=1.0)
        return max(1.0, self._means.get(lane, 1.0) / max(1.0, slots))


hold_times = _HoldTimes()
