"""The store in Redis or Valkey: one EVALSHA for a decision, on the server's clock, over a held connection."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import redis
from redis.exceptions import InvalidResponse, NoPermissionError

from tenantlimits.domain.plans import Plan, Stamps, Subject
from tenantlimits.engine import pools, resp, scripts
from tenantlimits.engine.base import (
    PRESENCE_MS,
    USAGE_TTL_MS,
    Acknowledge,
    Admit,
    Announce,
    Begin,
    Begun,
    Collect,
    Command,
    Counted,
    Deposit,
    Member,
    Move,
    Peek,
    Pending,
    Release,
    Renew,
    Report,
    Reports,
    Settle,
    Status,
    Tally,
    Told,
    Transport,
)
from tenantlimits.engine.breaker import is_away
from tenantlimits.engine.hours import closed_hour, hour_count, hour_field, packed_hour, packed_tally
from tenantlimits.engine.keys import (
    SHARDS,
    Identity,
    Keys,
    keys_of,
    member_keys,
    pending_key,
    processes_key,
    reports_key,
    stamp_key,
)
from tenantlimits.engine.packing import KEY_OF, NO_LEASE, STATUSES, Compiled, packed_keys
from tenantlimits.engine.resp import Reply, bulk
from tenantlimits.engine.scripts import Script
from tenantlimits.engine.wakeups import Wakeups

R = TypeVar("R")

_NUMBERS = tuple(bulk(number) for number in range(7))
"""How many keys a script gets, packed: stamp, closed hours, pending set and three subjects at most."""
_AS_BYTES = "surrogateescape"
"""A member of the pending set that is no text keeps nobody else's usage back, and is acknowledged like any other."""
_UNREADABLE = (struct.error, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""What reading a reply of another form raises. A `try` costs nothing; looking at the form would, in every decision."""


Call = tuple[Sequence[bytes], Callable[[list[Reply]], Any], Script | None]
"""What is sent for a command, packed; how its replies are read; and the script that it runs."""


class RedisEngine:
    """A store that all processes share. `clock`, for tests and simulations, replaces the server's (us)."""

    def __init__(self, connections: Transport, *, prefix: str = "tl", clock: Callable[[], float] | None = None) -> None:
        self._connections, self._prefix, self._clock = connections, prefix, clock
        self._caller_clock = clock is not None
        self._posted: set[type] = set()
        self._release_script = self._whole("release")
        self._calls: dict[type, Callable[[Any], Call]] = {
            Admit: self._admit, Peek: self._peek, Settle: self._settle, Release: self._release, Renew: self._renew,
            Begin: self._begin, Move: self._move,
            Pending: self._pending, Collect: self._collect, Acknowledge: self._acknowledge,
            Deposit: self._deposit, Tally: self._tally, Announce: self._announce,
            Reports: self._reports,
            **pools.calls(self._eval, prefix),
        }  # fmt: skip

    def call(self, command: Command[Any]) -> Call:
        """What is sent for a command."""
        return self._calls[type(command)](command)

    def run(self, command: Command[R]) -> R:
        """Run a command; redis.RedisError where the store cannot be reached or answers with an error."""
        commands, read, script = self._calls[type(command)](command)
        replies = self._connections.exchange(commands)
        try:
            unknown = _unknown(replies)
            if unknown:
                _mend(replies, unknown, self._connections.exchange(_again(commands, unknown, script)))
            result: R = read(replies)
        except redis.ResponseError as error:
            self._connections.exchange(self._discarding(commands, script, error))
            raise
        except _UNREADABLE as error:
            self._connections.exchange(self._discarding(commands, script, error))
            raise _unreadable(replies) from error
        return result

    def post(self, command: Command[Any]) -> None:
        """Have a command run whose reply nobody needs; redis.RedisError where it cannot be sent."""
        kind = type(command)
        if kind not in self._posted:
            # The first time it is waited for: the server may not know the script, and so would not have run it yet.
            self.run(command)
            self._posted.add(kind)
            return
        for packed in self._calls[kind](command)[0]:
            self._connections.post(packed, lambda: self.run(command))

    async def arun(self, command: Command[R]) -> R:
        """The same from an event loop."""
        commands, read, script = self._calls[type(command)](command)
        replies = await self._connections.aexchange(commands)
        try:
            unknown = _unknown(replies)
            if unknown:
                _mend(replies, unknown, await self._connections.aexchange(_again(commands, unknown, script)))
            result: R = read(replies)
        except redis.ResponseError as error:
            await self._connections.aexchange(self._discarding(commands, script, error))
            raise
        except _UNREADABLE as error:
            await self._connections.aexchange(self._discarding(commands, script, error))
            raise _unreadable(replies) from error
        return result

    def wakeups(self, process: bytes) -> Wakeups:
        """What a process of this name hears when others give slots on to it; redis.RedisError as for `run`."""
        return Wakeups(self._connections.connect(), pools.channel_of(self._prefix, process))

    def close(self) -> None:
        """Close idle connections."""
        self._connections.close()

    # Decisions

    def _admit(self, command: Admit) -> Call:
        # In one piece: each function that is called on this path costs more than the work that it does.
        compiled, who = command.plan.compiled, command.identity
        if not isinstance(compiled, Compiled) or compiled.caller_clock is not self._caller_clock:
            compiled = self._compiled(command.plan)
        names = packed_keys(self._prefix, who.tenant, who.user, who.credential)
        packed = compiled.command(names, command.cost, command.lease or NO_LEASE)
        if self._clock is not None:
            packed += self._now()
        return [packed], compiled.answer, compiled.admit

    def _peek(self, command: Peek) -> Call:
        compiled = self._compiled(command.plan)
        script = scripts.peek(compiled.shape, caller_clock=self._caller_clock)
        return self._on_plan(script, command, [compiled.question(command.cost, NO_LEASE)], compiled.answer)

    def _settle(self, command: Settle) -> Call:
        compiled = self._compiled(command.plan)
        script = scripts.settle(compiled.shape, caller_clock=self._caller_clock)
        witnesses = [command.witnesses.get(term.id, 0.0) for term in command.plan.asked]
        charged = bulk(struct.pack(f"<{len(witnesses)}d", *witnesses))
        return self._on_plan(script, command, [compiled.question(command.delta, NO_LEASE), charged], _status)

    def _on_plan(
        self, script: Script, command: Admit | Peek | Settle, arguments: list[bytes], read: Callable[[list[Reply]], Any]
    ) -> Call:
        names = self._names(command.identity)
        keys = [names[number] for number in self._compiled(command.plan).keys]
        return [self._packed(script, keys, arguments)], read, script

    def _compiled(self, plan: Plan) -> Compiled:
        compiled = plan.compiled
        if not isinstance(compiled, Compiled) or compiled.caller_clock is not self._caller_clock:
            compiled = plan.compiled = Compiled.of(plan, caller_clock=self._caller_clock)
        return compiled

    # Leases

    def _release(self, command: Release) -> Call:
        lease, script = command.lease, self._release_script
        names = self._names(lease.identity)
        keys = [names[KEY_OF[caps.subject]] for caps in lease.caps]
        return [self._packed(script, keys, [bulk(lease.id)])], _is_positive, script

    def _renew(self, command: Renew) -> Call:
        # One script for each subject's state, all in one round trip: a script's keys must share a cluster's slot.
        batches: dict[str, tuple[list[Any], list[int]]] = {}
        for number, (lease, again) in enumerate(zip(command.leases, command.again, strict=True)):
            for caps in lease.caps:
                key = _subject_key(self._keys(lease.identity), caps.subject)
                arguments, owners = batches.setdefault(key, ([struct.pack("<dd", lease.length_us, caps.ttl_ms)], []))
                held = b"".join(id + struct.pack("<d", amount) for id, amount in caps.amounts)
                arguments += [lease.id, int(again), held]
                owners.append(number)

        def held_now(replies: list[Reply]) -> tuple[bool, ...]:
            alive = [True] * len(command.leases)
            for reply, (_, owners) in zip(replies, batches.values(), strict=True):
                for held, number in zip(reply, owners, strict=True):
                    alive[number] &= bool(held)
            return tuple(alive)

        return self._eval("renew", [([key], arguments) for key, (arguments, _) in batches.items()], held_now)

    # Stamps

    def _begin(self, command: Begin) -> Call:
        keys = self._keys(command.identity)
        return self._eval("begin", [([keys.stamp, keys.tenant], [os.urandom(8), os.urandom(8)])], _begun)

    def _move(self, command: Move) -> Call:
        if command.tenants is None:
            return [_moved(stamp_key(self._prefix, shard)) for shard in range(SHARDS)], _nothing, None
        names = [keys.tenant for tenant in command.tenants for keys in self._all_keys(tenant)]
        return self._eval("move", [([name], [os.urandom(8)]) for name in names], _nothing)

    # Usage

    def _pending(self, _: Pending) -> Call:
        keys = [pending_key(self._prefix, shard) for shard in range(SHARDS)]
        return [resp.command([bulk("SMEMBERS"), bulk(key)]) for key in keys], _members, None

    def _collect(self, command: Collect) -> Call:
        keys = member_keys(self._prefix, command.member.shard, command.member.tenant)
        return self._eval("collect", [([keys.tenant, keys.closed], [])], _counted)

    def _acknowledge(self, command: Acknowledge) -> Call:
        keys = member_keys(self._prefix, command.member.shard, command.member.tenant)
        running = command.counted.running
        member = command.member.tenant.encode(errors=_AS_BYTES)
        arguments: list[Any] = [member, running.token if running else b""]
        for hour in command.counted.closed:
            arguments += [hour_field(hour), hour.token]
        return self._eval("acknowledge", [([keys.tenant, keys.closed, keys.pending], arguments)], _is_positive)

    def _deposit(self, command: Deposit) -> Call:
        keys = member_keys(self._prefix, command.member.shard, command.member.tenant)
        arguments: list[Any] = [command.member.tenant.encode(errors=_AS_BYTES)]
        for hour in command.hours:
            arguments += [hour_field(hour), packed_hour(hour)]
        return self._eval("deposit", [([keys.closed, keys.pending], arguments)], _nothing)

    def _tally(self, command: Tally) -> Call:
        script, names = scripts.tally(caller_clock=self._caller_clock), self._names(command.identity)
        return (
            [self._packed(script, [names[number] for number in range(4)], [*map(bulk, packed_tally(command))])],
            _nothing,
            script,
        )

    def _announce(self, command: Announce) -> Call:
        keys = [processes_key(self._prefix), reports_key(self._prefix)]
        return self._eval("announce", [(keys, [command.process, PRESENCE_MS, command.held])], _number)

    def _reports(self, _: Reports) -> Call:
        keys = [processes_key(self._prefix), reports_key(self._prefix)]
        return self._eval("reports", [(keys, [PRESENCE_MS])], _told)

    # Calls

    def _keys(self, identity: Identity) -> Keys:
        return keys_of(self._prefix, identity)

    def _all_keys(self, tenant: str) -> list[Keys]:
        if tenant:
            return [self._keys(Identity(tenant=tenant))]
        return [member_keys(self._prefix, shard, "") for shard in range(SHARDS)]

    def _whole(self, name: str) -> Script:
        return scripts.whole(name, caller_clock=self._caller_clock)

    def _eval(
        self, name: str, batch: Sequence[tuple[Sequence[str], Sequence[Any]]], read: Callable[[list[Reply]], Any]
    ) -> Call:
        """One script over many keys in one round trip."""
        script = self._whole(name)
        commands = [self._packed(script, [*map(bulk, keys)], [*map(bulk, arguments)]) for keys, arguments in batch]
        return commands, read, script

    def _packed(self, script: Script, keys: list[bytes], arguments: list[bytes]) -> bytes:
        """A run of a script, of keys and arguments that are packed."""
        if self._clock is not None:
            arguments = [*arguments, self._now()]
        head = resp.count(3 + len(keys) + len(arguments))
        return b"".join([head, *script.call, _NUMBERS[len(keys)], *keys, *arguments])

    def _discarding(self, commands: Sequence[bytes], script: Script | None, error: Exception) -> Sequence[bytes]:
        """What to send after an error: what cannot be read under the keys of a script would fail for ever.

        This call fails all the same. Nothing is sent where the error says something of the server, or of our account.
        """
        if script is None or is_away(error) or isinstance(error, NoPermissionError):
            return []
        discard = self._whole("discard")
        load = resp.command([bulk("SCRIPT"), bulk("LOAD"), bulk(discard.text)])
        return [load, *(self._packed(discard, _keys_in(one), []) for one in commands)]

    def _names(self, identity: Identity) -> Mapping[int, bytes]:
        return packed_keys(self._prefix, identity.tenant, identity.user, identity.credential)

    def _now(self) -> bytes:
        """The caller's clock, a script's last argument."""
        assert self._clock is not None
        return bulk(repr(self._clock()))


def _unknown(replies: list[Reply]) -> list[int]:
    """The numbers of the replies that say that a script is not known; any other error is raised."""
    unknown = []
    for number, reply in enumerate(replies):
        if isinstance(reply, redis.RedisError):
            if not isinstance(reply, redis.exceptions.NoScriptError):
                raise reply
            unknown.append(number)
    return unknown


def _keys_in(packed: bytes) -> list[bytes]:
    """The keys of a packed run of a script."""
    found: list[list[bytes]] = []
    resp.read(packed, found, 1)
    _, _, number, *rest = found[0]
    return [bulk(key) for key in rest[: int(number)]]


def _unreadable(replies: list[Reply]) -> InvalidResponse:
    return InvalidResponse(f"{str(replies)[:200]} is no answer of our scripts: is another program using the server?")


def _again(commands: Sequence[bytes], unknown: list[int], script: Script | None) -> list[bytes]:
    """What to send to a server that did not know the script: its text first."""
    assert script is not None
    load = resp.command([bulk("SCRIPT"), bulk("LOAD"), bulk(script.text)])
    return [load, *(commands[number] for number in unknown)]


def _mend(replies: list[Reply], unknown: list[int], again: list[Reply]) -> None:
    """Put the second replies in the places of those that failed; an error among them is raised."""
    for reply in again:
        if isinstance(reply, redis.RedisError):
            raise reply
    for number, reply in zip(unknown, again[1:], strict=True):
        replies[number] = reply


def _subject_key(keys: Keys, subject: Subject) -> str:
    key = keys.subjects[subject]
    assert key is not None, f"a plan asks a {subject.name.lower()} limit of a caller who is none"
    return key


def _moved(stamp: str) -> bytes:
    return resp.command([bulk(one) for one in ("SET", stamp, os.urandom(8), "PX", USAGE_TTL_MS)])


def _nothing(_: list[Reply]) -> None:
    return None


def _number(replies: list[Reply]) -> int:
    return int(replies[0])


def _told(replies: list[Reply]) -> Told:
    processes, *rest = replies[0]
    return Told(int(processes), tuple(map(Report, rest[::3], map(int, rest[1::3]), rest[2::3])))


def _is_positive(replies: list[Reply]) -> bool:
    return bool(replies[0])


def _status(replies: list[bytes]) -> Status:
    return STATUSES[replies[0][0]]


def _begun(replies: list[Reply]) -> Begun:
    reply = replies[0]
    return Begun(Stamps(reply[:8], reply[8:16]), struct.unpack_from("<d", reply, 16)[0])


def _members(replies: list[Reply]) -> tuple[Member, ...]:
    return tuple(
        sorted(Member(shard, raw.decode(errors=_AS_BYTES)) for shard, members in enumerate(replies) for raw in members)
    )


def _counted(replies: list[Reply]) -> Counted:
    now, running, *closed = replies[0]
    hours = tuple(map(closed_hour, closed[::2], closed[1::2]))
    return Counted(struct.unpack("<d", now)[0], hour_count(running) if running else None, hours)
