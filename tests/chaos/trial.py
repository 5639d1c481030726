"""One fault during a flood: what was seen, and whether it is what was promised."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tenantlimits.gate.keeper import TICK_SECONDS
from tests.chaos.faults import Fault
from tests.chaos.fleet import TIMEOUT_SECONDS, Fleet, Usage, in_flight, usage_of
from tests.chaos.flood import Flood, Seen, flooding, ledger_of
from tests.polling import eventually

BEFORE_SECONDS, QUIET_SECONDS = 0.5, 0.4
"""Of flood before the fault; and without an answer that was decided without the store, until it is over."""
PATIENCE_SECONDS = 6.0
UNTOLD_SECONDS = TICK_SECONDS + TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What was seen from before a fault until after it. Times are seconds since the epoch."""

    fault: Fault
    acme: str
    seen: Sequence[Seen]
    lost: int
    ended_at: float
    longest: float
    opened_before: Mapping[int, int]
    usage: Usage = field(default_factory=Counter)
    still_held: float = 0.0

    @property
    def shared(self) -> int:
        """Acme's reads that the store let in."""
        return sum(one.admitted and not one.degraded for one in self._reads) + self.fault.beside

    @property
    def local(self) -> int:
        """Acme's reads that the processes let in without the store."""
        return sum(one.admitted and one.degraded for one in self._reads)

    @property
    def _reads(self) -> Iterator[Seen]:
        return (one for one in self.seen if (one.tenant, one.lane) == (self.acme, "reads"))

    @property
    def shared_again(self) -> float:
        """Seconds from the end of the fault to the last answer that was decided without the store."""
        return max([0.0, *(one.asked_at - self.ended_at for one in self.seen if one.degraded)])

    @property
    def touches(self) -> dict[int, tuple[int, int]]:
        """By process: how many requests found out for themselves, and how often it left its store alone."""
        found: dict[int, list[Seen]] = defaultdict(list)
        for one in self.seen:
            found[one.pid].append(one)
        return {
            pid: (
                sum(one.touched for one in answers),
                max(one.openings for one in answers) - self.opened_before.get(pid, 0),
            )
            for pid, answers in found.items()
        }

    @property
    def unanswered(self) -> int:
        """Requests to whose question no answer came: the store may have counted them, and the process then did."""
        return sum(one.touched for one in self.seen)

    @property
    def is_settled(self) -> bool:
        """Whether the store knows all, and nobody holds a slot."""
        return not self.missing and not self.still_held

    @property
    def failed(self) -> int:
        """Requests without an answer, and answers that no lane declares."""
        return self.lost + sum(not one.is_declared for one in self.seen)

    @property
    def ledger(self) -> Usage:
        """What has to be in the usage. What a store forgets need not; what was decided without it, or later, has to."""
        forgets, ended_at = self.fault.forgets, self.ended_at
        found = ledger_of(one for one in self.seen if not forgets or one.degraded or one.asked_at > ended_at)
        found[self.acme, "reads", "allowed"] += self.fault.beside
        return found

    @property
    def missing(self) -> Usage:
        """What is not in the usage."""
        return self.ledger - self.usage

    @property
    def surplus(self) -> int:
        """How many requests are in the usage that nobody sent, or twice."""
        return 0 if self.fault.forgets else (self.usage - self.ledger).total()


def untold_of(seen: Sequence[Seen]) -> int:
    """Refusals that processes may have repeated from memory since they last told the store, until it failed.

    The count of these may have been under way; where no answer came to it, it is not sent again.
    """
    failed_at = {one.pid: one.asked_at for one in reversed(seen) if one.degraded}
    return sum(not one.admitted and 0 < failed_at.get(one.pid, 0) - one.asked_at < UNTOLD_SECONDS for one in seen)


def run(fault: Fault, fleet: Fleet) -> Course:
    """Let it happen."""
    acme, bolt = fleet.cast()
    with fault.around(fleet, acme):
        time.sleep(QUIET_SECONDS)  # the workers find the store, wherever it has been put
        fleet.long_waits()
        with flooding(fleet.workers, acme, bolt) as flood:
            time.sleep(BEFORE_SECONDS)
            with fault.trouble(fleet, acme):
                time.sleep(fault.seconds)
            ended_at = time.time()
            wait_until_quiet(flood, ended_at)
        course = Course(
            fault=fault, acme=acme, seen=flood.seen, lost=flood.lost.total(), ended_at=ended_at,
            longest=max(fleet.long_waits(), default=0.0), opened_before=dict(fleet.openings),
        )  # fmt: skip
        fleet.openings |= {one.pid: one.openings for one in sorted(flood.seen, key=lambda one: one.openings)}
        return _settled(course, acme, bolt)


def wait_until_quiet(flood: Flood, ended_at: float) -> None:
    """Until nothing has been decided without the store for a while."""

    def is_quiet() -> bool:
        now = time.time()
        last = max([one.answered_at for one in list(flood.seen) if one.degraded], default=0.0)
        return now - max(last, ended_at) > QUIET_SECONDS

    eventually(is_quiet, PATIENCE_SECONDS, every=0.05)


def _settled(course: Course, acme: str, bolt: str) -> Course:
    """The course with what is in the rows, when the processes have told the store all that they know."""

    def now() -> Course:
        return replace(course, usage=usage_of(acme, bolt), still_held=in_flight(acme))

    eventually(lambda: now().is_settled, PATIENCE_SECONDS, every=0.05)
    return now()
