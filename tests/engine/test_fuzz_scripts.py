"""Scripts that find garbage: under our keys, or in their arguments. They answer, end, and lock nobody out for ever."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tenantlimits.domain.limits import DAY, HOUR, Layer
from tenantlimits.domain.periods import to_us
from tenantlimits.engine import resp
from tenantlimits.engine.base import (
    Acknowledge,
    Admit,
    Announce,
    Begin,
    Collect,
    Deposit,
    Member,
    Move,
    Peek,
    Pending,
    Release,
    Renew,
    Reports,
    Settle,
    Tally,
)
from tenantlimits.engine.keys import Identity, keys_of, shard_of
from tests.engine.builders import NOON, Caller, Clock, bucket, cap, counter, log, quota, redis_engine

SOME = settings(
    max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # an example asks a server fifty times: shrinking would take minutes
)  # fmt: skip
LIMITS = [
    bucket(50), log(50), quota(50, DAY), counter(50), cap(9), bucket(50, lane="other", name="other"),
    log(50, HOUR, name="user-log", layer=Layer.USER), cap(9, name="user-cap", layer=Layer.USER),
    quota(50, DAY, name="key-quota", layer=Layer.CREDENTIAL),
]  # fmt: skip
_number = itertools.count()
Mutation = Callable[[bytes], bytes]
"""Bytes cut short, overwritten in part, swapped in part, followed by others, or quite others."""


class World:
    """A server of our own that kills a script which runs too long, and who asks it: a new tenant each time."""

    def __init__(self, url: str, prefix: str) -> None:
        self.client = redis.Redis.from_url(url, socket_timeout=5)
        self.clock, self.prefix = Clock(), prefix
        self.engine = redis_engine(url, prefix, self.clock)

    def somebody(self, *, stamps: bool = False) -> Caller:
        """A tenant that nobody has seen, with some use, a lease, and an hour that was closed."""
        self.clock.now_us = to_us(NOON)
        who = Identity(tenant=f"t{next(_number)}", user="u", credential="c")
        one = Caller(self.engine, self.clock, LIMITS, identity=who)
        if stamps:
            one.begin()
        one.hold(1)
        self.clock.step(HOUR)
        one.hold(2)
        return one

    def keys(self, one: Caller) -> list[str]:
        """All keys of somebody: the three states first."""
        keys = keys_of(self.prefix, one.identity)
        return [*keys.subjects, keys.closed, keys.pending, keys.stamp]

    def everything(self, one: Caller) -> list[Any]:
        """A command of each kind, well formed."""
        plan, lease = one.plan(), one.lease(os.urandom(8))
        member = Member(shard_of(one.identity), one.identity.tenant)
        counted = self.heard(Collect(member))
        commands = [
            *(Admit(plan=plan, identity=one.identity, cost=1000, lease=lease_id) for lease_id in (None, b"12345678")),
            Peek(plan=plan, identity=one.identity, cost=1000),
            Settle(plan=plan, identity=one.identity, delta=500, witnesses={term.id: 1.0 for term in plan.asked}),
            Release(lease), Renew((lease,), (True,)), Begin(one.identity), Move(frozenset({one.identity.tenant})),
            Collect(member), Pending(), Announce(b"me", b"{}"), Reports(),
            Tally(plan=plan, identity=one.identity, fits=(False,) * len(plan.asked), times=3),
        ]  # fmt: skip
        if not isinstance(counted, redis.RedisError):
            commands += [Deposit(member, counted.closed), Acknowledge(member, counted)]
        return commands

    def heard(self, command: Any) -> Any:
        """The answer, or the error of the store."""
        try:
            return self.engine.run(command)
        except redis.ConnectionError:  # also TimeoutError: a script that does not end
            raise
        except redis.RedisError as error:
            return error

    def last_troubles(self, one: Caller) -> list[Any]:
        """What the store still says to somebody who asks everything a third time."""
        for _ in range(3):
            lasting = [error for error in map(self.heard, self.everything(one)) if isinstance(error, redis.RedisError)]
            try:
                one.admit(0.001)
            except redis.RedisError as error:
                lasting.append(error)
        return [str(one) for one in lasting]

    def endless(self) -> list[bytes]:
        """The keys that would stay for ever."""
        names = list(self.client.scan_iter(match=f"{self.prefix}*", count=1000))
        return [name for name in names if self.client.pttl(name) == -1]


@pytest.fixture
def world(own_valkey, key_prefix) -> Iterator[World]:
    world = World(own_valkey, key_prefix)
    yield world
    for name in world.client.scan_iter(match=f"{key_prefix}*", count=1000):
        world.client.unlink(name)
    world.engine.close()
    world.client.close()


# Not a number, endless, far ahead, the largest count, and counts that a script might loop over.
NUMBERS = [
    b"\xff" * 8, b"\0\0\0\0\0\0\xf0\x7f", b"\0\0\0\0\0\0\xf0\xff", b"\x7f" * 8, b"\0" * 8,
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x0f", b"\0" * 4,
]  # fmt: skip
PLACES = st.integers(0, 10_000)
"""Positions in bytes whose length is not known yet: modulo that."""


def _at(raw: bytes, place: int) -> int:
    return place % (len(raw) + 1)


def _overwritten(place: int, new: bytes) -> Mutation:
    return lambda raw: raw[: _at(raw, place)] + new + raw[_at(raw, place) + len(new) :]


def _swapped(first: int, second: int) -> Mutation:
    def swap(raw: bytes) -> bytes:
        a, b = sorted((_at(raw, first), _at(raw, second)))
        return raw[a:b] + raw[:a] + raw[b:]

    return swap


MUTATIONS: st.SearchStrategy[Mutation] = st.one_of(
    PLACES.map(lambda place: lambda raw: raw[: _at(raw, place)]),
    st.builds(_overwritten, PLACES, st.binary(min_size=1, max_size=12) | st.sampled_from(NUMBERS)),
    st.builds(_swapped, PLACES, PLACES),
    st.binary(max_size=40).map(lambda more: lambda raw: raw + more),
    (st.binary(max_size=200) | st.text(max_size=40).map(str.encode)).map(lambda other: lambda raw: other),
)
TYPES = ["SADD", "LPUSH", "HSET", "ZADD"]


def put(client: redis.Redis, key: str, garbage: bytes | str) -> None:
    """Let bytes, or a key of another type, stand under a key."""
    client.delete(key)
    if isinstance(garbage, bytes):
        client.set(key, garbage, px=3_600_000)
    else:
        client.execute_command(garbage, key, *(["1", "x"] if garbage in ("HSET", "ZADD") else ["x"]))
        client.pexpire(key, 3_600_000)


def is_of_a_newer_version(garbage: bytes | str) -> bool:
    """Whether it may be by another layout, or with a kind of limit that is not known here; see `test_deploy.py`."""
    if not isinstance(garbage, bytes) or len(garbage) < 10:
        return isinstance(garbage, bytes) and 1 < (garbage[8:9] or b"\0")[0] < 32
    kinds = [garbage[at] & 7 for at in range(13, 10 + 4 * garbage[9], 4) if at < len(garbage)]
    return 1 < garbage[8] < 32 or (garbage[8] == 1 and any(kind in (3, 6, 7) for kind in kinds))


@SOME
@given(
    garbage=st.sampled_from(TYPES) | MUTATIONS, which=st.integers(0, 5), first=st.integers(0, 11), stamps=st.booleans()
)
def test_garbage_under_our_keys_is_trouble_for_that_tenant_and_passes(world, garbage, which, first, stamps):
    """K1, C102: each verb answers or fails; then the tenant begins anew, and nobody else has noticed."""
    acme, bolt = world.somebody(stamps=stamps), world.somebody()
    key = world.keys(acme)[which]
    if callable(garbage):
        garbage = garbage(world.client.get(key) if world.client.type(key) == b"string" else b"x" * 30)
    assume(which > 2 or not is_of_a_newer_version(garbage))
    put(world.client, key, garbage)

    commands = world.everything(acme)
    for command in [*commands[first:], *commands[:first]]:
        world.heard(command)

    assert bolt.admit(0.001).allowed
    assert world.last_troubles(acme) == []
    assert world.endless() == []
    world.clock.step(40 * DAY)
    assert acme.admit(1).allowed


@settings(SOME, max_examples=100)
@given(mutations=st.lists(st.tuples(PLACES, MUTATIONS), min_size=14, max_size=14), stamps=st.booleans())
def test_garbage_as_an_argument_is_an_answer_or_an_error_and_leaves_what_can_be_read(world, mutations, stamps):
    """K1, C03: each script, with one of its arguments cut, overwritten, swapped or replaced."""
    acme = world.somebody(stamps=stamps)
    for command, (place, mutation) in zip(world.everything(acme), mutations, strict=False):
        (packed, *_), _, script = world.engine.call(command)
        if script is None:
            continue
        world.client.script_load(script.text)
        run: list[list[bytes]] = []
        resp.read(packed, run, 1)
        arguments = range(3 + int(run[0][2]), len(run[0]) - 1)  # the last is the clock
        if arguments:
            at = arguments[place % len(arguments)]
            run[0][at] = mutation(run[0][at])
        with contextlib.suppress(redis.ResponseError):
            world.client.execute_command(*run[0])

    assert world.endless() == []
    assert world.last_troubles(acme) == []
    world.clock.step(40 * DAY)
    assert acme.admit(1).allowed
