"""Pools of the fleet as commands to the store: who has a slot, who waits, and that they are alive.

The rules are those of `domain.shares`, made atomic by lua/pool.lua. An operation has one id from its first call to its
end; so whatever is said of it may be said twice, and comes to nobody else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import redis

from tenantlimits.domain.periods import US
from tenantlimits.domain.shares import Entry, PoolRules, Share, Standing
from tenantlimits.engine.base import Command, Engine
from tenantlimits.engine.keys import pool_keys, tenant_digest
from tenantlimits.engine.resp import Reply
from tenantlimits.engine.wakeups import Wakeups

StoreError = redis.RedisError
"""The only trouble of a store, for those who may not know Redis."""
OPERATION_BYTES = 8
PROCESS_BYTES = 8
_GRANTED = 4

Evaluate = Callable[[str, Sequence[tuple[Sequence[str], Sequence[Any]]], Callable[[list[Reply]], Any]], Any]
"""Runs a script, by name, over batches of keys and arguments; the last reads the replies."""


class PoolStore(Engine, Protocol):
    """A store that has pools of a fleet."""

    def wakeups(self, process: bytes) -> Wakeups:
        """What a process of this name hears when others give slots on to it."""


class State(IntEnum):
    """What the store knows of an operation."""

    GONE = 0
    WAITS = 1
    RUNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process in a pool, with the rules that it goes by.

    `process` is 8 characters that name a channel; a slot outlives its last sign of life by `lease_seconds`, a waiter
    by `patience_seconds`.
    """

    pool: str
    process: bytes
    rules: PoolRules
    lease_seconds: float
    patience_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEnter(Command["Entered"]):
    """Want a slot for an operation, by an id of 8 random bytes."""

    member: Member
    id: bytes
    tenant: str
    share: Share
    may_wait: bool


@dataclass(frozen=True, slots=True)
class Entered:
    """`entry` None: it has a slot. `granted`: others of this process that have theirs now, in every reply.

    No slots are given out for `opens_in` seconds, since the store may have forgotten who has some.
    """

    entry: Entry | None
    standing: Standing
    opens_in: float
    granted: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PoolLeave(Command["Left"]):
    """Operations have ended, or wait no more."""

    member: Member
    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """Whether each waited or had a slot until then."""

    was_there: tuple[bool, ...]
    granted: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """An operation is alive. `again`: it may have its slot again where the store has lost it. `age` of its waiting."""

    id: bytes
    tenant: str
    share: Share
    runs: bool
    again: bool
    age: float


@dataclass(frozen=True, slots=True)
class PoolBeat(Command["Beaten"]):
    """Signs of life of all that a process has in a pool."""

    member: Member
    signs: tuple[Sign, ...]


@dataclass(frozen=True, slots=True)
class Beaten:
    """What the store knows of each now."""

    states: tuple[State, ...]
    granted: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PoolShow(Command["Shown"]):
    """Who runs and who waits."""

    member: Member


@dataclass(frozen=True, slots=True)
class Shown:
    """Every tenant that runs or waits. `since` of a standing is in seconds before now, so never above 0."""

    opens_in: float
    standings: dict[str, Standing]
    granted: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PoolFree(Command[Left]):
    """Take the oldest slot of a tenant from its holder, which runs on without."""

    member: Member
    tenant: str


def calls(evaluate: Evaluate, prefix: str) -> dict[type, Callable[[Any], Any]]:
    """How each command is sent."""
    channels = channel_of(prefix, b"")

    def sender(script: str, arguments: Callable[[Any], list[Any]], read: Callable[[Any, Reply], Any]) -> Any:
        def send(command: Any) -> Any:
            keys = pool_keys(prefix, command.member.pool)
            all_arguments = [_packed(command.member), channels, *arguments(command)]
            return evaluate(script, [(keys, all_arguments)], lambda replies: read(command, replies[0]))

        return send

    return {
        PoolEnter: sender("pool_enter", _entering, _entered),
        PoolLeave: sender("pool_leave", lambda command: [*command.ids], _left),
        PoolBeat: sender("pool_beat", _beating, _beaten),
        PoolShow: sender("pool_show", lambda _: [], _shown),
        PoolFree: sender("pool_free", lambda command: [tenant_digest(command.tenant)], _freed),
    }


def channel_of(prefix: str, process: bytes) -> bytes:
    """Where a process is told of slots that it has been given: messages are ids of its operations."""
    return f"{prefix}:woken:".encode() + process


def _packed(member: Member) -> bytes:
    rules = member.rules
    return struct.pack(
        f"<{PROCESS_BYTES}s5d",
        member.process, rules.capacity, rules.lent_at_most, rules.queue,
        member.lease_seconds * US, member.patience_seconds * US,
    )  # fmt: skip


def _name(tenant: str) -> bytes:
    return tenant.encode("utf-8", "surrogatepass")


def _entering(command: PoolEnter) -> list[Any]:
    share, rules = command.share, command.member.rules
    room = rules.queue if share.queue is None else share.queue
    packed = struct.pack("<3d12s", share.slots, room, command.may_wait, tenant_digest(command.tenant))
    return [command.id, packed, _name(command.tenant)]


def _entered(command: PoolEnter, reply: Reply) -> Entered:
    status, running, waiting, mean_us, opens_us, *granted = reply
    estimate = _estimate(command.share.slots, waiting, mean_us, opens_us)
    return Entered(
        None if status == _GRANTED else Entry(status),
        Standing(command.share.slots, running, waiting, None, estimate),
        opens_us / US,
        tuple(granted),
    )


def _estimate(share: int, waiting: int, mean_us: int, opens_us: int) -> float:
    """Seconds until one that comes now may run; see `Standing`."""
    return max(opens_us, mean_us * (waiting + 1) / max(1, share)) / US


def _left(command: PoolLeave, reply: Reply) -> Left:
    number = len(command.ids)
    return Left(tuple(map(bool, reply[:number])), tuple(reply[number:]))


def _beating(command: PoolBeat) -> list[Any]:
    arguments: list[Any] = []
    for sign in command.signs:
        state = State.RUNS if sign.runs else State.WAITS
        numbers = (state, sign.again, sign.share.slots, sign.age * US, tenant_digest(sign.tenant))
        arguments += [sign.id, struct.pack("<2B2d12s", *numbers), _name(sign.tenant)]
    return arguments


def _beaten(command: PoolBeat, reply: Reply) -> Beaten:
    number = len(command.signs)
    return Beaten(tuple(map(State, reply[:number])), tuple(reply[number:]))


def _shown(_: PoolShow, reply: Reply) -> Shown:
    opens_us, mean_us, tenants, granted = reply
    standings = {}
    for name, share, running, waiting, oldest_us in tenants:
        since = -oldest_us / US if waiting else None
        estimate = _estimate(share, waiting, mean_us, opens_us)
        standings[name.decode("utf-8", "surrogatepass")] = Standing(share, running, waiting, since, estimate)
    return Shown(opens_us / US, standings, tuple(granted))


def _freed(_: PoolFree, reply: Reply) -> Left:
    return Left((bool(reply[0]),), tuple(reply[1:]))
