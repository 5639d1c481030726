"""Plans, keys, answers and counted usage as the bytes that scripts take and give."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tenantlimits.domain.buckets import Bucket, BucketState
from tenantlimits.domain.limits import Mode
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import Cap, Plan, Spec, Stamps, State, Subject, Term, lane_tag
from tenantlimits.domain.windows import Entry, Log, Quota, QuotaState
from tenantlimits.engine import scripts
from tenantlimits.engine.base import LEASE_BYTES, Answer, HourCount, LaneCount, RefusalCount, Status, ttl_ms
from tenantlimits.engine.keys import Identity, keys_of
from tenantlimits.engine.resp import bulk
from tenantlimits.engine.scripts import Script, Shape

NO_LEASE = bytes(LEASE_BYTES)
STATUSES = tuple(Status)
_MODES = {Mode.OFF: 0.0, Mode.OBSERVE: 1.0, Mode.ENFORCE: 2.0}
KEY_OF = {Subject.TENANT: 1, Subject.USER: 4, Subject.CREDENTIAL: 5}
"""Where in `packed_keys` the state of a subject is."""


@lru_cache(maxsize=8192)
def packed_keys(prefix: str, identity: Identity) -> tuple[bytes | None, ...]:
    """Stamp, tenant's state, closed hours, pending set, user's and credential's state as arguments of a command."""
    keys = keys_of(prefix, identity)
    names = (keys.stamp, keys.tenant, keys.closed, keys.pending, *keys.subjects[1:])
    return tuple(None if name is None else bulk(name) for name in names)


_ASK = struct.Struct(f"<5sd{LEASE_BYTES}s2s")


def ask(cost: int, lease: bytes) -> bytes:
    """The argument that changes with every decision."""
    return _ASK.pack(b"$16\r\n", cost, lease, b"\r\n")


_STALE = struct.Struct("<Bd")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan as its script takes it: the text, the policy's bytes and how to read the reply. Made once per plan."""

    shape: Shape
    admit: Script
    policy: bytes
    reply: struct.Struct
    specs: tuple[Spec, ...]
    keys: tuple[int, ...]
    all_fit: tuple[bool, ...]

    @classmethod
    def of(cls, plan: Plan, *, caller_clock: bool) -> Compiled:
        """Compile a plan."""
        shape = scripts.shape_of(plan)
        reply = struct.Struct("<Bdd" + "".join(_REPLY_FORMATS[type(term.spec)] for term in plan.asked))
        return cls(
            shape=shape,
            admit=scripts.admit(shape, caller_clock=caller_clock),
            policy=bulk(packed(plan, shape)),
            reply=reply,
            specs=tuple(term.spec for term in plan.asked),
            keys=_key_numbers(shape),
            all_fit=(True,) * len(plan.asked),
        )

    def answer(self, replies: list[bytes]) -> Answer:
        """A reply's bytes as an answer."""
        reply = replies[0]
        if reply[0] > Status.ALLOWED:
            return Answer(STATUSES[reply[0]], _STALE.unpack(reply)[1])
        status, now_us, mask, *values = self.reply.unpack_from(reply)
        fits = self.all_fit if not mask else tuple(not int(mask) >> bit & 1 for bit in range(len(self.specs)))
        return Answer(STATUSES[status], now_us, fits, tuple(self._states(values, now_us, reply)))

    def _states(self, values: list[Any], now_us: float, reply: bytes) -> Iterator[State]:
        value, at = iter(values), self.reply.size
        for spec in self.specs:
            match spec:
                case Bucket():
                    yield BucketState(next(value), now_us)
                case Quota():
                    yield QuotaState(next(value), next(value))
                case Cap():
                    yield next(value)
                case Log():
                    size = 16 * next(value)
                    yield tuple(Entry(*pair) for pair in struct.iter_unpack("<dd", reply[at : at + size]))
                    at += size


def _key_numbers(shape: Shape) -> tuple[int, ...]:
    """Which of `packed_keys` a shape's script takes."""
    if not shape.counts_usage:
        return tuple(KEY_OF[subject] for subject in shape.subjects)
    return (0, 1, 2, 3, *(KEY_OF[subject] for subject in shape.subjects if subject is not Subject.TENANT))


_REPLY_FORMATS = {Bucket: "d", Quota: "dd", Log: "I", Cap: "I"}


def packed(plan: Plan, shape: Shape) -> bytes:
    """The policy's bytes: stamps, validity, then for each subject its shape, for each asked limit its numbers."""
    stamps = plan.stamps or Stamps(NO_LEASE, NO_LEASE)
    parts = [
        stamps.tenant, stamps.shard,
        struct.pack("<dddd", plan.valid_from_us, plan.valid_until_us, plan.hour_offset_us / US, plan.lease_us),
        lane_tag(plan.lane),
    ]  # fmt: skip
    for subject in shape.subjects:
        ids = [term.id for term in plan.terms if term.subject is subject]
        parts += [struct.pack("<d", ttl_ms(plan, subject)), bytes([scripts.LAYOUT_VERSION, len(ids)]), *ids]
    parts += [_numbers(term) for term in plan.asked]
    return b"".join(parts) + plan.tenant.encode()


def _numbers(term: Term) -> bytes:
    mode = _MODES[term.mode]
    match term.spec:
        case Bucket(burst, per_us):
            return struct.pack("<ddd", burst, per_us, mode)
        case Log(amount, window_us):
            return struct.pack("<ddd", amount, window_us, mode)
        case Quota(amount, _, end_us, next_end_us):
            return struct.pack("<dddd", amount, end_us, next_end_us, mode)
        case Cap(amount):
            return struct.pack("<dd", amount, mode)


def hour(block: bytes) -> HourCount:
    """Counted usage from its bytes; see lua/usage.lua."""
    start_s, born_ms, _, lanes = struct.unpack_from("<IIBB", block)
    end = 10 + 22 * lanes
    counts = {
        tag: LaneCount(allowed, refused, peak, cost)
        for tag, allowed, refused, peak, cost in struct.iter_unpack("<4sIIHd", block[10:end])
    }
    refusals = {(tag, id): RefusalCount(*counts) for tag, id, *counts in struct.iter_unpack("<4s4sII", block[end:])}
    return HourCount(start_s, f"redis:{born_ms}", counts, refusals, block)
