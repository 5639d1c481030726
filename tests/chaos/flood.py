"""Callers who ask again and again while something happens to the store, and write down all that they saw."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

from tests.scenarios.client import Answer, Connection
from tests.scenarios.servers import Server

NOISY, REQUESTS_OF_A_CONNECTION = 4, 10
"""Callers of acme's; and after how many requests each goes to whichever process takes it next."""
PAUSE_SECONDS, QUIET_PAUSE_SECONDS = 0.003, 0.08
READS, SLOTS, BROKEN, OPEN, SHUT = "/reads/", "/sleep/?seconds=0.02", "/broken/?seconds=0.02", "/open/", "/shut/"
LANES = {READS: "reads", SLOTS: "exports", BROKEN: "exports", OPEN: "open", SHUT: "shut"}


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer. Times are seconds since the epoch."""

    tenant: str
    path: str
    status: int
    pid: int
    degraded: bool
    errors: tuple[str, ...]
    openings: int
    asked_at: float
    answered_at: float

    @classmethod
    def of(cls, tenant: str, path: str, answer: Answer) -> Seen:
        """What the answer says."""
        fields = answer.fields
        return cls(
            tenant, path, answer.status, answer.pid, fields["X-Degraded"] == "1",
            tuple(fields["X-Store-Errors"].split()), int(fields["X-Openings"]), answer.asked_at, answer.answered_at,
        )  # fmt: skip

    @property
    def lane(self) -> str:
        """The lane of the path."""
        return LANES[self.path]

    @property
    def admitted(self) -> bool:
        """Whether the operation was let in, whatever became of it then."""
        return self.status in (200, 500)

    @property
    def is_declared(self) -> bool:
        """Whether it is an answer that the lane declares; the view that is broken on purpose has its own."""
        if self.degraded and self.lane in ("open", "shut"):
            return self.status == (200 if self.lane == "open" else 503)
        return self.status in (500 if self.path == BROKEN else 200, 429)

    @property
    def is_counted(self) -> bool:
        """Whether it has to be in the usage: who lets everything in, or nobody, counts nothing."""
        return not self.degraded or self.lane not in ("open", "shut")

    @property
    def touched(self) -> bool:
        """Whether the request itself found out that the store is in trouble."""
        return any(error != "StoreAway" for error in self.errors)


@dataclass(slots=True)
class Flood:
    """What all callers saw. `lost` are requests without an answer, by what went wrong."""

    server: Server
    acme: str
    bolt: str
    seen: list[Seen] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    _ended: threading.Event = field(default_factory=threading.Event)

    def callers(self) -> Iterator[Callable[[], None]]:
        """Acme floods one lane and takes slots in another; bolt asks now and then in each."""
        for _ in range(NOISY):
            yield lambda: self._call(self.acme, (READS,), PAUSE_SECONDS)
        yield lambda: self._call(self.acme, (SLOTS, BROKEN), PAUSE_SECONDS)
        yield lambda: self._call(self.bolt, (READS, OPEN, SHUT), QUIET_PAUSE_SECONDS)

    def stop(self) -> None:
        """Ask no more."""
        self._ended.set()

    def _call(self, tenant: str, paths: tuple[str, ...], pause_seconds: float) -> None:
        connection, left = Connection(self.server, tenant), REQUESTS_OF_A_CONNECTION
        for path in cycle(paths):
            if self._ended.is_set():
                break
            if not left:
                connection.close()
                connection, left = Connection(self.server, tenant), REQUESTS_OF_A_CONNECTION
            left -= 1
            try:
                self.seen.append(Seen.of(tenant, path, connection.get(path)))
            except (OSError, http.client.HTTPException) as error:
                self.lost[type(error).__name__] += 1
                left = 0
            time.sleep(pause_seconds)
        connection.close()


def ledger_of(seen: Iterable[Seen]) -> Counter[tuple[str, str, str]]:
    """How many, by tenant, lane, and `allowed` or `refused`, have to be in the usage."""
    return Counter((one.tenant, one.lane, "allowed" if one.admitted else "refused") for one in seen if one.is_counted)


@contextmanager
def flooding(server: Server, acme: str, bolt: str) -> Iterator[Flood]:
    """A flood that lasts as long as the block."""
    flood = Flood(server, acme, bolt)
    threads = [threading.Thread(target=call) for call in flood.callers()]
    for thread in threads:
        thread.start()
    try:
        yield flood
    finally:
        flood.stop()
        for thread in threads:
            thread.join()
