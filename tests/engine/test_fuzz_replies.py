"""Whatever a peer says: a reply, or trouble with the store, and the next question gets its own answer."""

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenantlimits.engine import resp
from tenantlimits.engine.base import (
    Acknowledge,
    Admit,
    Announce,
    Begin,
    Collect,
    Counted,
    Deposit,
    HourCount,
    Member,
    Move,
    Peek,
    Pending,
    Release,
    Renew,
    Settle,
    Tally,
)
from tenantlimits.engine.breaker import ConnectionBroke
from tenantlimits.engine.cluster import ClusterConnections
from tenantlimits.engine.connections import PING
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.redis import RedisEngine
from tests.engine.builders import ACME, Caller, Clock, bucket, cap, connections_to, counter, log, quota
from tests.engine.peers import Peer

SOME = settings(max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
ECHO = resp.command([resp.bulk("ECHO"), resp.bulk("x")])
MINE = b"$4\r\nmine\r\n"
PIECES = [
    b"+OK\r\n", b"-ERR no\r\n", b"-MOVED 1\r\n", b"-MOVED x y:z\r\n", b"-ASK \r\n", b"-\r\n", b"-NOSCRIPT none\r\n",
    b":1\r\n", b":\r\n", b":x\r\n", b"$3\r\nabc\r\n", b"$-1\r\n", b"$1\r\nabc\r\n", b"$\r\n", b"$99999999999\r\n",
    b"*2\r\n", b"*-1\r\n", b"*0\r\n", b"*1\r\n", b"*50000\r\n", b"\r\n", b"\r", b"\n", b"%1\r\n", b"_\r\n", b">1\r\n",
    b"HTTP/1.1 400 Bad Request\r\n", b":" + b"9" * 5000 + b"\r\n",
]  # fmt: skip
NOISE = st.lists(st.sampled_from(PIECES) | st.binary(max_size=12), min_size=1, max_size=8).map(b"".join)
DEEP = b"*1\r\n" * 5000


def outcome(pieces: list[bytes]) -> tuple[list[str], bytes | str]:
    """The replies that are read from the pieces, as text, and what is left, or that it is none."""
    replies: list[resp.Reply] = []
    rest = b""
    try:
        for piece in pieces:
            rest = resp.read(rest + piece, replies, 3)
    except redis.exceptions.InvalidResponse:
        return [repr(one) for one in replies], "no reply"
    return [repr(one) for one in replies], rest


@settings(max_examples=300, derandomize=True)
@given(NOISE)
@example(DEEP)
@example(b"*1000000000\r\n:1\r\n")
def test_whatever_arrives_is_a_reply_or_a_part_of_one_or_none(data):
    """C103: and it is the same in one piece and in two, wherever it is cut."""
    whole = outcome([data])

    for at in range(0, len(data), max(1, len(data) // 40)):
        assert outcome([data[:at], data[at:]]) == whole


@pytest.fixture
def peer() -> Iterator[Peer]:
    server = Peer()
    yield server
    server.close()


class Ways:
    """Connections to a peer, held or pooled, and how to ask over them: from a thread and from one event loop."""

    def __init__(self, peer: Peer, kind: Any) -> None:
        self.peer, self.held = peer, connections_to(peer.url, kind, answer_seconds=0.5, connect_seconds=0.5)
        self.loop = asyncio.new_event_loop()
        self.asking = [
            lambda: self.held.exchange([ECHO]),
            lambda: self.loop.run_until_complete(self.held.aexchange([ECHO])),
        ]

    def hear(self, says: bytes, ask: Any, *, hangs_up: bool = False) -> Any:
        """The reply, or the error."""
        self.peer.says, self.peer.hangs_up = says, hangs_up
        try:
            return ask()
        except redis.RedisError as error:
            return error


@pytest.fixture
def ways(peer, kind) -> Iterator[Ways]:
    ways = Ways(peer, kind)
    yield ways
    ways.held.close()
    ways.loop.run_until_complete(ways.loop.shutdown_asyncgens())
    ways.loop.close()


@SOME
@given(says=NOISE)
@example(DEEP)
@example(MINE + b"$5\r\nstale\r\n")
@example(b"-MOVED 1\r\n")
def test_nonsense_is_trouble_with_one_connection_and_not_the_next_answer(ways, says):
    """C101, C103, C104: from threads and from event loops."""
    for ask in ways.asking:
        for _ in range(2):  # where a peer hung up after a whole reply, only the next call can notice
            heard = ways.hear(MINE, ask)
        assert heard == [b"mine"]

        heard = ways.hear(says, ask, hangs_up=True)
        after = [ways.hear(MINE, ask) for _ in range(2)]

        assert isinstance(heard, (list, redis.RedisError))
        assert after[-1] == [b"mine"]
        assert after[0] == [b"mine"] or isinstance(after[0], ConnectionBroke)
        assert ways.held.breaker.outage is None


@pytest.mark.parametrize("says", [b"HTTP/1.1 400 Bad Request\r\n", b":x\r\n", DEEP, MINE * 2])
def test_a_connection_that_got_nonsense_is_dropped(ways, says):
    """C101: the peer leaves it open, and it is not used again."""
    for ask in ways.asking:
        assert ways.hear(MINE, ask) == [b"mine"]
        heard = ways.hear(says, ask)

        assert isinstance(heard, ConnectionBroke) or heard == [b"mine"]
        assert ways.hear(MINE, ask) == [b"mine"]


def commands(clock: Clock) -> list[Any]:
    """One of each kind."""
    acme = Caller(None, clock, [bucket(5), log(5), quota(5), counter(5), cap(2)])
    plan, lease, member = acme.plan(), acme.lease(b"lease-id"), Member(0, "acme")
    hour = HourCount(3600, "elsewhere", {}, {})
    return [
        Admit(plan=plan, identity=ACME, cost=1000), Peek(plan=plan, identity=ACME, cost=1000),
        Settle(plan=plan, identity=ACME, delta=1, witnesses={}), Release(lease), Renew((lease,), (True,)),
        Begin(ACME), Move(frozenset({"acme"})), Pending(), Collect(member), Deposit(member, (hour,)),
        Acknowledge(member, Counted(0.0, None, (hour,))), Announce(b"me"),
        Tally(plan=plan, identity=ACME, fits=(False,) * 5, times=3),
    ]  # fmt: skip


LIKELY = st.builds(
    lambda status, sizes, values: struct.pack("<B", status) + struct.pack(f"<{len(values)}d", *values) + bytes(sizes),
    st.integers(0, 5), st.integers(0, 40), st.lists(st.floats(), max_size=12),
)  # fmt: skip
LEAVES = st.none() | st.integers(-(2**63), 2**63) | st.binary(max_size=80) | LIKELY
REPLIES = st.recursive(LEAVES, lambda some: st.lists(some, max_size=4), max_leaves=6)


def packed(reply: Any) -> bytes:
    """A reply as a server sends it."""
    if isinstance(reply, list):
        return resp.command([packed(one) for one in reply])
    if reply is None:
        return b"$-1\r\n"
    return resp.bulk(reply) if isinstance(reply, bytes) else b":%d\r\n" % reply


@settings(SOME, max_examples=60)
@given(reply=REPLIES)
@example(b"")
@example(b"\x01")
@example(b"\x07" + bytes(16))
def test_a_reply_of_another_form_is_trouble_with_the_store(peer, clock, reply):
    """C103: of any command, from threads and from event loops; never struct.error, which nobody expects."""
    engine = RedisEngine(connections_to(peer.url, answer_seconds=0.5))
    peer.says = packed(reply)

    async def asked() -> None:
        for command in commands(clock):
            with contextlib.suppress(redis.RedisError):
                _look(await engine.arun(command))

    for command in commands(clock):
        with contextlib.suppress(redis.RedisError):
            _look(engine.run(command))
    asyncio.run(asked())
    engine.close()


def _look(answer: Any) -> None:
    """What is read only when somebody looks."""
    for state in getattr(answer, "states", ()):
        repr(state)


@settings(SOME, max_examples=30)
@given(reply=REPLIES)
@example(None)
@example([[0, 16383, [b"", 1]]])
@example([[0, 16383, [b"\xff", b"x"]]])
def test_a_cluster_whose_nodes_talk_nonsense_is_away(peer, reply):
    """C100, C102."""
    peer.says = packed(reply)
    host, port = peer.url.removeprefix("redis://").removesuffix("/0").split(":")
    pool = redis.ConnectionPool.from_url(peer.url)
    dial = Dial(pool, connect_seconds=0.5, answer_seconds=0.5)
    cluster = ClusterConnections(dial, [(host, int(port))], probe=lambda shard: PING)

    with pytest.raises(redis.RedisError):
        cluster.exchange([resp.command([resp.bulk("GET"), resp.bulk("tl:{s00}:x")])] * 2)
    cluster.close()


def test_stamps_that_are_cut_short_are_no_stamps(peer, clock):
    """F: half a stamp would never be the one in force."""
    peer.says = packed(b"x" * 23)
    engine = RedisEngine(connections_to(peer.url))

    with pytest.raises(redis.exceptions.InvalidResponse, match="no answer of our scripts"):
        engine.run(Begin(ACME))
    engine.close()
