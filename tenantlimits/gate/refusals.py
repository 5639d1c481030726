"""Refusals repeated from memory: a flood is answered without asking the store what it has just said.

A refusal of rate limits holds at least for its own wait, when nobody gives anything back, so repeating it for a moment
never lets anybody in. Only for the same caller and lane, for costs at least as large, and for REFUSAL_CACHE_SECONDS
at most, which bounds how long a raised limit goes unnoticed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Decision
from tenantlimits.engine.base import Tally
from tenantlimits.engine.keys import Identity

MOST_KEPT = 10_000
"""Callers whose refusal is remembered; the one that was refused first is forgotten first."""

Question = tuple[str, str | None, str | None, str, bool]
"""Tenant, user, credential, lane, and whether it is asked inside an admitted operation."""


def question(identity: Identity, lane: str, *, inside: bool) -> Question:
    """What is asked, but for its cost."""
    return identity.tenant, identity.user, identity.credential, lane, inside


@dataclass(slots=True, eq=False)
class _Kept:
    """A refusal, until when it may be repeated (seconds, monotonic), and how often that was not counted yet."""

    identity: Identity
    decision: Decision
    until: float
    times: int = 0

    def tally(self) -> Tally:
        """The repetitions so far, which now count as counted."""
        times, self.times = self.times, 0
        return Tally(plan=self.decision.plan, identity=self.identity, fits=self.decision.fits, times=times)


class Refusals:
    """The refusals of this process that may be repeated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Question, _Kept] = {}
        self._owed: list[Tally] = []

    def __bool__(self) -> bool:
        """Whether there may be something to repeat."""
        return bool(self._kept)

    def find(self, asked: Question, cost: int) -> Decision | None:
        """The refusal to repeat, or None: ask the store. `cost` is in milli-units."""
        kept = self._kept.get(asked)
        if kept is None or cost < kept.decision.cost or time.monotonic() >= kept.until:
            return None
        with self._lock:
            kept.times += 1
        return kept.decision

    def keep(self, asked: Question, identity: Identity, decision: Decision, asked_at: float) -> None:
        """Repeat a refusal of rate limits from now on; it is as old as its question (seconds, monotonic)."""
        seconds = conf.REFUSAL_CACHE_SECONDS
        if not seconds or not decision.refusals or any(one.wait is None for one in decision.refusals):
            return
        wait = decision.retry_after
        until = asked_at + (seconds if wait is None else min(seconds, wait))
        with self._lock:
            self._drop(asked)
            self._kept[asked] = _Kept(identity, decision, until)
            if len(self._kept) > MOST_KEPT:
                self._drop(next(iter(self._kept)))

    def forget(self) -> None:
        """Repeat nothing of what was said until now."""
        with self._lock:
            for asked in list(self._kept):
                self._drop(asked)

    def uncounted(self) -> list[Tally]:
        """What was repeated and has not been counted; from now on it counts as counted."""
        now = time.monotonic()
        with self._lock:
            tallies, self._owed = self._owed, []
            tallies += [kept.tally() for kept in self._kept.values() if kept.times]
            for asked in [asked for asked, kept in self._kept.items() if kept.until <= now]:
                del self._kept[asked]
        return tallies

    def owe(self, tallies: Iterable[Tally]) -> None:
        """These could not be counted now: they are counted next time."""
        with self._lock:
            self._owed += tallies

    def _drop(self, asked: Question) -> None:
        kept = self._kept.pop(asked, None)
        if kept is not None and kept.times:
            self._owed.append(kept.tally())
