"""Plans, keys, answers and counted usage as the bytes that scripts take and give."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tenantlimits.domain.buckets import Bucket, BucketState
from tenantlimits.domain.counters import Counter, CounterState
from tenantlimits.domain.lanes import MILLI
from tenantlimits.domain.limits import Mode
from tenantlimits.domain.periods import US
from tenantlimits.domain.plans import Cap, Plan, Spec, Stamps, State, Subject, Term, lane_tag
from tenantlimits.domain.windows import Entry, Log, Quota, QuotaState
from tenantlimits.engine import resp, scripts
from tenantlimits.engine.base import LEASE_BYTES, Answer, Status, ttl_ms
from tenantlimits.engine.keys import Identity, keys_of
from tenantlimits.engine.resp import bulk
from tenantlimits.engine.scripts import Script, Shape

NO_LEASE = bytes(LEASE_BYTES)
STATUSES = tuple(Status)
_MODES = {Mode.OFF: 0.0, Mode.OBSERVE: 1.0, Mode.ENFORCE: 2.0}
KEY_OF = (1, 4, 5)
"""Where in `packed_keys` the state of each subject is."""


@lru_cache(maxsize=8192)
def packed_keys(prefix: str, tenant: str, user: str | None, credential: str | None) -> Mapping[int, bytes]:
    """0 stamp, 1 tenant's state, 2 closed hours, 3 pending set, 4 user's and 5 credential's state, where there is one.

    Packed as arguments of a command. (Looked up by text, which C compares: an Identity would be compared in Python.)
    """
    keys = keys_of(prefix, Identity(tenant=tenant, user=user, credential=credential))
    names = (keys.stamp, keys.tenant, keys.closed, keys.pending, *keys.subjects[1:])
    return {number: bulk(name) for number, name in enumerate(names) if name is not None}


_ASK = struct.Struct(f"<d{LEASE_BYTES}s")
_DECIDED = struct.Struct("<Bdd")
_STALE = struct.Struct("<Bd")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan as its script takes it: the text, the policy's bytes and how to read the reply. Made once per plan."""

    shape: Shape
    admit: Script
    begin: bytes
    length: bytes
    policy: bytes
    reply: struct.Struct
    specs: tuple[Spec, ...]
    keys: tuple[int, ...]
    all_fit: tuple[bool, ...]
    used_at: tuple[tuple[int, float], ...] | None
    """Where in a reply's numbers each limit's use is, and how many are a unit; None where it is not so simple."""
    caller_clock: bool

    @classmethod
    def of(cls, plan: Plan, *, caller_clock: bool) -> Compiled:
        """Compile a plan."""
        shape = scripts.shape_of(plan)
        script, keys = scripts.admit(shape, caller_clock=caller_clock), _key_numbers(shape)
        policy = packed(plan, shape)
        length = b"$%d\r\n" % (_ASK.size + len(policy))
        return cls(
            shape=shape,
            admit=script,
            begin=resp.count(3 + len(keys) + 1 + caller_clock) + b"".join([*script.call, bulk(len(keys))]),
            policy=policy + b"\r\n",
            length=length,
            reply=struct.Struct(_DECIDED.format + "".join(_REPLY_FORMATS[type(term.spec)] for term in plan.asked)),
            specs=tuple(term.spec for term in plan.asked),
            keys=keys,
            all_fit=(True,) * len(plan.asked),
            used_at=_used_at(term.spec for term in plan.asked),
            caller_clock=caller_clock,
        )

    def question(self, cost: int, lease: bytes) -> bytes:
        """The policy, after what changes with every call, as an argument of a command."""
        return self.length + _ASK.pack(cost, lease) + self.policy

    def command(self, names: Mapping[int, bytes], cost: int, lease: bytes) -> bytes:
        """All of an admit but the clock. Most of it never changes."""
        keys = map(names.__getitem__, self.keys)
        return b"".join([self.begin, *keys, self.length, _ASK.pack(cost, lease), self.policy])

    def answer(self, replies: list[bytes]) -> Answer:
        """A reply's bytes as an answer."""
        reply = replies[0]
        if reply[0] > Status.ALLOWED:
            return Answer(STATUSES[reply[0]], _STALE.unpack(reply)[1])
        status, now_us, mask = _DECIDED.unpack_from(reply)
        entries = len(reply) - self.reply.size
        if entries < 0 or entries % 16:  # the states are read later, where nobody expects trouble with the store
            raise ValueError(f"{len(self.specs)} states are not in {len(reply)} bytes")
        fits = self.all_fit if not mask else tuple(not int(mask) >> bit & 1 for bit in range(len(self.specs)))
        return Answer(STATUSES[status], now_us, fits, _States(self, reply))

    def units(self, reply: bytes) -> list[float] | None:
        """Units used of every asked limit, without making a state of each; None where only a state can tell."""
        if self.used_at is None:
            return None
        numbers = self.reply.unpack_from(reply)
        return [numbers[at] / unit for at, unit in self.used_at]

    def states(self, reply: bytes) -> Iterator[State]:
        """The state of every asked limit in a reply."""
        _, now_us, _, *values = self.reply.unpack_from(reply)
        value, at = iter(values), self.reply.size
        for spec in self.specs:
            match spec:
                case Bucket():
                    yield BucketState(next(value), now_us)
                case Quota():
                    yield QuotaState(next(value), next(value))
                case Counter():
                    yield CounterState(next(value), next(value), now_us, spec.period_us)
                case Cap():
                    yield next(value)
                case Log():
                    size = 16 * next(value)
                    yield tuple(Entry(*pair) for pair in struct.iter_unpack("<dd", reply[at : at + size]))
                    at += size


def _used_at(specs: Iterable[Spec]) -> tuple[tuple[int, float], ...] | None:
    found, at = [], 3
    for spec in specs:
        if not isinstance(spec, Bucket | Quota | Cap):
            return None
        found.append((at, 1.0 if isinstance(spec, Cap) else MILLI))
        at += len(_REPLY_FORMATS[type(spec)])
    return tuple(found)


class _States(Sequence[State]):
    """The states in a reply, made when somebody looks at them: it takes as long as all the rest of an answer."""

    __slots__ = ("_compiled", "_known", "_reply")

    def __init__(self, compiled: Compiled, reply: bytes) -> None:
        self._compiled, self._reply = compiled, reply
        self._known: tuple[State, ...] | None = None

    @property
    def _states(self) -> tuple[State, ...]:
        if self._known is None:
            self._known = tuple(self._compiled.states(self._reply))
        return self._known

    def units(self) -> list[float] | None:
        """Units used of each limit, where that is faster than from its state."""
        return self._compiled.units(self._reply)

    def __len__(self) -> int:
        return len(self._compiled.specs)

    def __getitem__(self, index: Any) -> Any:  # an int gives a State, a slice a tuple of them
        used_at = self._compiled.used_at
        if self._known is None and used_at is not None and isinstance(index, int):
            spec, at = self._compiled.specs[index], used_at[index][0]
            if not isinstance(spec, Quota):
                numbers = self._compiled.reply.unpack_from(self._reply)
                return numbers[at] if isinstance(spec, Cap) else BucketState(numbers[at], numbers[1])
        return self._states[index]

    def __iter__(self) -> Iterator[State]:
        return iter(self._states)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._states == tuple(other)

    def __hash__(self) -> int:
        return hash(self._states)

    def __repr__(self) -> str:
        return repr(self._states)


def _key_numbers(shape: Shape) -> tuple[int, ...]:
    """Which of `packed_keys` a shape's script takes."""
    if not shape.counts_usage:
        return tuple(KEY_OF[subject] for subject in shape.subjects)
    return (0, 1, 2, 3, *(KEY_OF[subject] for subject in shape.subjects if subject is not Subject.TENANT))


_REPLY_FORMATS = {Bucket: "d", Quota: "dd", Counter: "dd", Log: "I", Cap: "I"}


def packed(plan: Plan, shape: Shape) -> bytes:
    """The policy's bytes, as `scripts.HEADER` begins them; the member of the pending set ends them."""
    stamps = plan.stamps or Stamps(NO_LEASE, NO_LEASE)
    parts = [
        struct.pack("<dddd", plan.valid_from_us, plan.valid_until_us, plan.hour_offset_us / US, plan.lease_us),
        lane_tag(plan.lane), stamps.tenant, stamps.shard,
    ]  # fmt: skip
    for subject in shape.subjects:
        ids = [term.id for term in plan.terms if term.subject is subject]
        parts += [bytes([scripts.LAYOUT_VERSION, len(ids)]), *ids]
    parts += [_numbers(term) for term in plan.asked]
    # As text that ends with a zero: Redis 7 takes 1.8 us to write out a number, half as long as for all of the SET.
    parts += [b"%d\0" % ttl_ms(plan, subject) for subject in shape.subjects]
    return b"".join(parts) + plan.tenant.encode()


def _numbers(term: Term) -> bytes:
    mode = _MODES[term.mode]
    match term.spec:
        case Bucket(burst, per_us):
            return struct.pack("<ddd", burst, per_us, mode)
        case Log(amount, window_us):
            return struct.pack("<ddd", amount, window_us, mode)
        case Counter(amount, period_us):
            return struct.pack("<ddd", amount, period_us, mode)
        case Quota(amount, _, end_us, next_end_us):
            return struct.pack("<dddd", amount, end_us, next_end_us, mode)
        case Cap(amount):
            return struct.pack("<dd", amount, mode)
