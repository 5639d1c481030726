"""What ran when, by the views' own account: each appends a line to one file as it begins and as it ends."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

VARIABLE = "SITE_JOURNAL"


@contextmanager
def under_way(label: str) -> Iterator[None]:
    """Work that the journal knows of. The clock is the machine's monotonic one, the same in every process."""
    id = os.urandom(8).hex()
    _write("begin", id, label)
    try:
        yield
    finally:
        _write("end", id, label)


def _write(what: str, id: str, label: str) -> None:
    # One write of a short line to a file opened for appending: lines of several processes never mix.
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, f"{time.monotonic()} {os.getpid()} {what} {id} {label}\n".encode())
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class Work:
    """One operation of a process, in seconds of the monotonic clock; `end` is infinite while it runs."""

    pid: int
    label: str
    begin: float
    end: float


class Journal:
    """The file, read by the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def works(self, killed: Mapping[int, float] | None = None) -> list[Work]:
        """All operations. `killed`: processes that were ended at an instant, and their operations with them."""
        found: dict[str, Work] = {}
        for line in self.path.read_text().splitlines():
            at, pid, what, id, label = line.split(" ")
            if what == "begin":
                found[id] = Work(int(pid), label, float(at), (killed or {}).get(int(pid), math.inf))
            else:
                found[id] = replace(found[id], end=float(at))
        return list(found.values())

    def running(self) -> list[Work]:
        """Those that have not ended."""
        return [work for work in self.works() if work.end == math.inf]

    def most_at_once(self, killed: Mapping[int, float] | None = None) -> int:
        """How many ran at once at the worst instant."""
        works = self.works(killed)
        return max((sum(one.begin <= work.begin < one.end for one in works) for work in works), default=0)
