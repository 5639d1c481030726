"""Time zones in which a day turns soon: nobody waits for midnight to see what happens at it."""

from __future__ import annotations

import math
import os
import struct
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenantlimits.domain.limits import DAY


@dataclass(frozen=True, slots=True)
class Zones:
    """A folder of zones, known to this process, and to those that are started with `environment`."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For processes that have to know them."""
        return {"PYTHONTZPATH": _path(self.folder)}

    def whose_midnight_comes(self, now: float, *, seconds: float) -> tuple[str, float]:
        """The name of a new zone, and the instant of its next midnight: so many seconds from now, or a little more."""
        midnight = math.ceil(now + seconds)
        name = f"Soon/{midnight}"
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(_tzif(-midnight % DAY))
        return name, float(midnight)


@contextmanager
def zones_in(folder: Path) -> Iterator[Zones]:
    """Zones in a new folder."""
    folder.mkdir()
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(_path(folder).split(os.pathsep))
    try:
        yield Zones(folder)
    finally:
        zoneinfo.reset_tzpath(before)


def _path(folder: Path) -> str:
    return os.pathsep.join([str(folder), *(part for part in zoneinfo.TZPATH if part != str(folder))])


def _tzif(offset: int) -> bytes:
    """A zone that stands off UTC by so many seconds, always (RFC 9636, version 1)."""
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 5)
    return b"TZif" + bytes(16) + counts + struct.pack(">lBB", offset, 0, 0) + b"SOON\0"
