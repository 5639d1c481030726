"""One fault after another on the same tenants, and new workers: in the end all has to add up (C67, V3)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tenantlimits.models import Limit, Tenant, Tier
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.fleet import Fleet, Usage, in_flight, usage_of
from tests.chaos.flood import Flood, flooding, ledger_of
from tests.chaos.trial import PATIENCE_SECONDS, untold_of, wait_until_quiet
from tests.chaos.verdict import MOST_STORE_SECONDS, problems_of_counts, usage_in_words
from tests.polling import eventually

PROMISED = "no request is lost, none is missing in the counts, memory stays as it is"
AMOUNT_A_SECOND, BURST = 100, 200
BETWEEN_SECONDS = 1.0
ROUNDS_OF_A_WORKER = 3
MOST_GROWTH_BYTES = 4 << 20
"""Of one process, or the server, from the middle of the soak to its end."""


@dataclass(slots=True)
class Soak:
    """What was seen of all rounds together."""

    acme: str
    bolt: str
    rounds: int = 0
    asked: int = 0
    failed: int = 0
    unanswered: int = 0
    untold: int = 0
    longest: float = 0.0
    ledger: Usage = field(default_factory=Counter)
    usage: Usage = field(default_factory=Counter)
    still_held: float = 0.0
    memory: list[dict[str, int]] = field(default_factory=list)

    def note(self, flood: Flood, waits: Sequence[float]) -> None:
        """A round is over."""
        self.rounds += 1
        self.asked += len(flood.seen)
        self.failed += flood.lost.total() + sum(not one.is_declared for one in flood.seen)
        self.unanswered += sum(one.touched for one in flood.seen)
        self.untold += untold_of(flood.seen)
        self.longest = max([self.longest, *waits])
        self.ledger += ledger_of(flood.seen)

    @property
    def missing(self) -> Usage:
        """What is not in the usage."""
        return self.ledger - self.usage

    @property
    def surplus(self) -> int:
        """Requests that are in the usage twice, or were never sent."""
        return (self.usage - self.ledger).total()

    @property
    def growth(self) -> dict[str, int]:
        """By how many bytes each of those that were there in the middle has grown since."""
        middle, end = self.memory[len(self.memory) // 2], self.memory[-1]
        return {name: end[name] - middle[name] for name in middle if name in end}

    def problems(self) -> Iterator[str]:
        """What was promised and not seen."""
        if self.failed:
            yield f"{self.failed} requests lost"
        if self.longest > MOST_STORE_SECONDS:
            yield f"a request was {self.longest:.2f} s inside store calls"
        yield from problems_of_counts(self.missing, self.surplus, untold=self.untold, unanswered=self.unanswered)
        if self.still_held:
            yield f"{self.still_held:.0f} slots are held by nobody"
        if max(self.growth.values()) > MOST_GROWTH_BYTES:
            yield f"memory grew: {self.growth}"

    @property
    def summary(self) -> str:
        """What was seen, in figures."""
        grown = max(self.growth.values()) / (1 << 20)
        return (
            f"{self.asked} requests in {self.rounds} rounds, {self.unanswered} touched a store that failed, "
            f"longest {self.longest:.2f} s, {usage_in_words(self.missing, self.surplus)}, memory {grown:+.1f} MiB"
        )


def run(fleet: Fleet, seconds: int, say: Callable[[str], None]) -> Soak:
    """Go on for so long, and then until all is told."""
    soak, chosen = Soak(*_cast(fleet)), random.Random(67)
    faults = [fault for fault in FAULTS if fault.degrades and not fault.forgets]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        fault = chosen.choice(faults)
        say(f"... soak, {until - time.monotonic():.0f} s left: {fault.name}")
        _round(fleet, soak, fault)
        if not soak.rounds % ROUNDS_OF_A_WORKER:
            _replace_the_youngest_worker(fleet)
        soak.memory.append(_memory(fleet))

    def is_told() -> bool:
        soak.usage, soak.still_held = usage_of(soak.acme, soak.bolt), in_flight(soak.acme)
        return not soak.missing and not soak.still_held

    eventually(is_told, PATIENCE_SECONDS, every=0.05)
    return soak


def _cast(fleet: Fleet) -> tuple[str, str]:
    acme, bolt = fleet.cast()
    tier = Tier.objects.create(slug="soak", name="Soak")
    add = Limit.objects.create
    add(tier=tier, name="reads-rate", lane="reads", amount=AMOUNT_A_SECOND, period_seconds=1, burst=BURST)
    add(tier=tier, name="exports-cap", lane="exports", kind="concurrency", amount=2)
    for tenant in Tenant.objects.filter(key__in=(acme, bolt)):
        tenant.tier = tier
        tenant.save()
    return acme, bolt


def _round(fleet: Fleet, soak: Soak, fault: Fault) -> None:
    with fault.around(fleet, soak.acme), flooding(fleet.workers, soak.acme, soak.bolt) as flood:
        fleet.long_waits()
        time.sleep(BETWEEN_SECONDS)
        with fault.trouble(fleet, soak.acme):
            time.sleep(fault.seconds)
        wait_until_quiet(flood, time.time())
        time.sleep(BETWEEN_SECONDS)
        flood.stop()
    fleet.openings |= {one.pid: one.openings for one in flood.seen}
    soak.note(flood, fleet.long_waits())


def _replace_the_youngest_worker(fleet: Fleet) -> None:
    """It ends as at a deployment, with counts that it has told nobody; the others stay to be measured."""
    alive = [pid for pid in fleet.openings if _stat(pid)]
    youngest = max(alive, key=lambda pid: int(_stat(pid)[19]))
    os.kill(youngest, signal.SIGTERM)
    assert eventually(lambda: not _stat(youngest), 10), "a worker did not end"
    fleet.find_server()


def _stat(pid: int) -> list[str]:
    """What stands in /proc of a process after its name (proc_pid_stat(5), from field 3); nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _memory(fleet: Fleet) -> dict[str, int]:
    """Bytes of each worker, and of the server's data."""
    pages = {f"worker {pid}": int(stat[21]) for pid in fleet.openings if (stat := _stat(pid))}
    with fleet.server.client() as client:
        used = int(client.info("memory")["used_memory_dataset"])
    return {name: number * os.sysconf("SC_PAGE_SIZE") for name, number in pages.items()} | {"server": used}
