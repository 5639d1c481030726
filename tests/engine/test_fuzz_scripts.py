"""Scripts that find garbage: under our keys, or in their arguments. They answer, end, and lock nobody out for ever."""

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tenantlimits.domain.limits import DAY, HOUR, Layer
from tenantlimits.domain.periods import to_us
from tenantlimits.engine import resp
from tenantlimits.engine.base import (
    Acknowledge,
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
    Settle,
    Tally,
)
from tenantlimits.engine.keys import Identity, keys_of, shard_of
from tests.engine.builders import NOON, Caller, Clock, bucket, cap, counter, log, quota, redis_engine

SOME = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
LIMITS = [
    bucket(50), log(50), quota(50, DAY), counter(50), cap(9), bucket(50, lane="other", name="other"),
    log(50, HOUR, name="user-log", layer=Layer.USER), cap(9, name="user-cap", layer=Layer.USER),
    quota(50, DAY, name="key-quota", layer=Layer.CREDENTIAL),
]  # fmt: skip
_number = itertools.count()


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
            Peek(plan=plan, identity=one.identity, cost=1000),
            Settle(plan=plan, identity=one.identity, delta=500, witnesses={term.id: 1.0 for term in plan.asked}),
            Release(lease), Renew((lease,), (True,)), Begin(one.identity), Move(frozenset({one.identity.tenant})),
            Collect(member), Pending(), Announce(b"me"),
            Tally(plan=plan, identity=one.identity, fits=(False,) * len(plan.asked), times=3),
        ]  # fmt: skip
        if not isinstance(counted, redis.RedisError):
            commands += [Deposit(member, counted.closed), Acknowledge(member, counted)]
        return commands

    def heard(self, command: Any) -> Any:
        """The answer, or the error of the store."""
        try:
            return self.engine.run(command)
        except redis.RedisError as error:
            assert not isinstance(error, redis.ConnectionError), error
            return error

    def is_served_again(self, one: Caller) -> bool:
        """Whether somebody gets decisions again, after the store has failed twice at most, and everything else."""
        for _ in range(3):
            try:
                one.admit(0.001)
            except redis.RedisError:
                continue
            return not any(isinstance(self.heard(command), redis.RedisError) for command in self.everything(one)[-12:])
        return False

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


def mutations(raw: bytes) -> st.SearchStrategy[bytes]:
    """The bytes cut short, with some overwritten, with two parts swapped, followed by others, or quite others."""
    places = st.integers(0, len(raw))
    return st.one_of(
        places.map(lambda at: raw[:at]),
        st.builds(lambda at, new: raw[:at] + new + raw[at + len(new) :], places, st.binary(min_size=1, max_size=12)),
        st.builds(lambda at, new: raw[:at] + new + raw[at + len(new) :], places, st.sampled_from(NUMBERS)),
        st.builds(lambda a, b: raw[a:b] + raw[:a] + raw[b:], places, places),
        st.binary(max_size=40).map(lambda more: raw + more),
        st.binary(max_size=200),
        st.text(max_size=40).map(str.encode),
    )


# Not a number, endless, far ahead, the largest count, and counts that a script might loop over.
NUMBERS = [
    b"\xff" * 8, b"\0\0\0\0\0\0\xf0\x7f", b"\0\0\0\0\0\0\xf0\xff", b"\x7f" * 8, b"\xff\xff\xff\xff", b"\xff\xff\xff\x0f",
    b"\0" * 8, b"\0" * 4,
]  # fmt: skip
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
    return isinstance(garbage, bytes) and 1 < (garbage[8:9] or b"\0")[0] < 32


@SOME
@given(data=st.data(), which=st.integers(0, 5), stamps=st.booleans())
def test_garbage_under_our_keys_is_trouble_for_that_tenant_and_passes(world, data, which, stamps):
    """K1, C102: each verb answers or fails; then the tenant begins anew, and nobody else has noticed."""
    acme, bolt = world.somebody(stamps=stamps), world.somebody()
    key = world.keys(acme)[which]
    found = world.client.get(key) if world.client.type(key) == b"string" else b"x" * 30
    garbage = data.draw(st.sampled_from(TYPES) | mutations(found or b"x" * 30))
    assume(which > 2 or not is_of_a_newer_version(garbage))
    put(world.client, key, garbage)

    first = data.draw(st.sampled_from(world.everything(bolt)[:2])).__class__
    for command in sorted(world.everything(acme), key=lambda one: not isinstance(one, first)):
        world.heard(command)

    assert bolt.admit(0.001).allowed
    assert world.is_served_again(acme)
    assert world.endless() == []


@settings(SOME, max_examples=120)
@given(data=st.data(), stamps=st.booleans())
def test_garbage_as_an_argument_is_an_answer_or_an_error_and_leaves_a_state_that_can_be_read(world, data, stamps):
    """K1, C03: each script, with each of its arguments cut, overwritten, swapped or replaced."""
    acme = world.somebody(stamps=stamps)
    for command in [*world.everything(acme), *_admissions(acme)]:
        (packed, *_), _, script = world.engine.call(command)
        if script is None:
            continue
        world.client.script_load(script.text)
        arguments: list[list[bytes]] = []
        resp.read(packed, arguments, 1)
        first = 3 + int(arguments[0][2])
        at = data.draw(st.integers(first, len(arguments[0]) - 2)) if first < len(arguments[0]) - 1 else None
        if at is not None:
            arguments[0][at] = data.draw(mutations(arguments[0][at]))
        try:
            world.client.execute_command(*arguments[0])
        except redis.ResponseError:
            pass

    assert world.endless() == []
    assert world.is_served_again(acme)


def _admissions(one: Caller) -> list[Any]:
    from tenantlimits.engine.base import Admit

    return [Admit(plan=one.plan(), identity=one.identity, cost=1000, lease=lease) for lease in (None, b"12345678")]
