"""Counted usage as the bytes that stand in the store; see lua/usage.lua."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tenantlimits.domain.limits import Mode
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import lane_tag
from tenantlimits.engine.base import HourCount, LaneCount, RefusalCount, Tally

_LARGEST = 2**32 - 1
_HIGHEST_PEAK = 2**16 - 1


def hour_count(block: bytes, source: str = "") -> HourCount:
    """An hour from its bytes; without a `source` the store that holds it has counted it."""
    start_s, born_ms, _, lanes = struct.unpack_from("<IIBB", block)
    end = 10 + 22 * lanes
    counts = {
        tag: LaneCount(allowed, refused, peak, cost)
        for tag, allowed, refused, peak, cost in struct.iter_unpack("<4sIIHd", block[10:end])
    }
    refusals = {(tag, id): RefusalCount(*counts) for tag, id, *counts in struct.iter_unpack("<4s4sII", block[end:])}
    return HourCount(start_s, source or f"redis:{born_ms}", counts, refusals, block)


def closed_hour(field: bytes, block: bytes) -> HourCount:
    """An hour from the hash of those that are closed: its own by their start, deposited ones with their source."""
    return hour_count(block, field.partition(b":")[2].decode())


def hour_field(hour: HourCount) -> str:
    """Where an hour stands in that hash."""
    return f"{hour.start_s}" if hour.source.startswith("redis:") else f"{hour.start_s}:{hour.source}"


def packed_hour(hour: HourCount) -> bytes:
    """An hour that another store has counted, as its bytes."""
    return b"".join([struct.pack("<IIBB", hour.start_s, 0, 1, len(hour.lanes)), *_parts(hour)])


def _parts(hour: HourCount) -> Iterator[bytes]:
    for tag, count in hour.lanes.items():
        allowed, refused, peak = min(count.allowed, _LARGEST), min(count.refused, _LARGEST), count.peak
        yield struct.pack("<4sIIHd", tag, allowed, refused, min(peak, _HIGHEST_PEAK), count.cost)
    for (tag, id), times in hour.refusals.items():
        yield struct.pack("<4s4sII", tag, id, min(times.refused, _LARGEST), min(times.observed, _LARGEST))


def packed_tally(tally: Tally) -> tuple[bytes, bytes, bytes]:
    """The arguments of lua/tally.lua."""
    plan = tally.plan
    missed = b"".join(
        term.id + (b"r" if term.mode is Mode.ENFORCE else b"o")
        for term, fits in zip(plan.asked, tally.fits, strict=True)
        if not fits and term.mode is not Mode.OFF
    )
    return (
        struct.pack("<dI4s", plan.hour_offset_us / US, tally.times, lane_tag(plan.lane)),
        missed,
        plan.tenant.encode(),
    )
