"""A server that fails is asked no more until it answers a probe, and nobody waits for the probe."""

import asyncio
import os
import threading
import time

import pytest
import redis

from tenantlimits.engine import breaker as module
from tenantlimits.engine.breaker import Breaker, ConnectionBroke, StoreAway, is_away
from tenantlimits.engine.connections import PING, Connections
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.keys import probe_key
from tenantlimits.engine.resp import bulk, command
from tests.engine.builders import connections_to
from tests.engine.test_connections import Silent, echo, packed

TROUBLE = redis.TimeoutError("no answer")


class Heard:
    """What a watch was told."""

    def __init__(self) -> None:
        self.opened_by: list[str] = []
        self.is_closed = threading.Event()

    def opened(self, error: redis.RedisError) -> None:
        self.opened_by.append(str(error))

    def closed(self, seconds: float) -> None:
        self.is_closed.set()


class Server:
    """What a probe finds, as the test says."""

    def __init__(self, *, answers: bool) -> None:
        self.answers, self.probes, self.asked = answers, 0, threading.Event()

    def __call__(self) -> None:
        self.probes += 1
        self.asked.set()
        if not self.answers:
            raise TROUBLE


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Probe so often that no test has to wait."""
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.005)


def test_an_open_breaker_refuses_at_once_and_says_why(heard):
    breaker = Breaker(Server(answers=False), heard)

    breaker.open(TROUBLE)

    with pytest.raises(StoreAway, match="no answer"):
        breaker.check()
    breaker.outage = None


def test_it_closes_by_itself_when_a_probe_is_answered(heard):
    server = Server(answers=False)
    breaker = Breaker(server, heard)
    breaker.open(TROUBLE)
    assert server.asked.wait(5)
    assert not heard.is_closed.is_set()

    server.answers = True

    assert heard.is_closed.wait(5)
    breaker.check()
    assert heard.opened_by == ["no answer"]


def test_a_server_that_fails_again_at_once_is_left_alone_for_longer(heard, monkeypatch):
    """C104: it answers probes and no scripts; each closing would cost some callers their time."""
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.05)
    breaker = Breaker(Server(answers=True), heard)
    took = []

    for _ in range(5):
        heard.is_closed.clear()
        breaker.open(TROUBLE)
        began = time.monotonic()
        assert heard.is_closed.wait(5)
        took.append(time.monotonic() - began)

    assert took[0] < took[1] < took[2] < took[3]
    assert took[4] >= module.MOST_PATIENT * module.PROBE_SECONDS


def test_many_who_fail_at_once_open_it_once(heard):
    """C104: and one thread probes, not one for each of them."""
    server = Server(answers=False)
    breaker = Breaker(server, heard)
    before = threading.active_count()

    for _ in range(20):
        breaker.open(TROUBLE)

    assert len(heard.opened_by) == 1
    assert threading.active_count() <= before + 1
    server.answers = True
    assert heard.is_closed.wait(5)


def test_where_no_thread_runs_a_caller_probes_instead(heard, monkeypatch):
    """uWSGI without threads: it would stay open for ever."""
    monkeypatch.setattr(module.threading.Thread, "start", lambda self: None)
    monkeypatch.setattr(module, "STALLED_SECONDS", -1)
    server = Server(answers=False)
    breaker = Breaker(server, heard)
    breaker.open(TROUBLE)
    with pytest.raises(StoreAway):
        breaker.check()

    server.answers = True
    breaker.check()

    assert heard.is_closed.is_set()


def test_the_child_of_a_fork_finds_it_closed(heard):
    breaker = Breaker(Server(answers=False), heard)
    breaker.open(TROUBLE)

    breaker._pid = os.getpid() + 1  # as a child sees what its parent left it
    breaker.check()

    assert breaker.outage is None


@pytest.mark.parametrize(
    "error",
    [
        redis.ConnectionError("refused"),
        redis.TimeoutError("late"),
        redis.AuthenticationError("invalid username-password pair"),
        redis.exceptions.BusyLoadingError("loading"),
        redis.exceptions.ReadOnlyError("You can't write against a read only replica."),
        redis.exceptions.OutOfMemoryError("command not allowed"),
        redis.exceptions.ClusterDownError("CLUSTERDOWN"),
        redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
        redis.ResponseError("BUSY Redis is busy running a script"),
        redis.ResponseError("NOREPLICAS Not enough good replicas to write."),
    ],
    ids=lambda error: type(error).__name__ + str(error)[:8],
)
def test_what_the_next_caller_would_meet_too_opens_it(error):
    """C101, C102."""
    assert is_away(error)


@pytest.mark.parametrize(
    "error",
    [
        redis.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
        redis.exceptions.NoScriptError("NOSCRIPT"),
        redis.exceptions.NoPermissionError("NOPERM"),
        ConnectionBroke("one of many"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_trouble_with_one_command_or_one_connection_does_not(error):
    assert not is_away(error)


def watched(url, heard, probe=PING, kind=Connections):
    dial = Dial(redis.ConnectionPool.from_url(url), connect_seconds=1, answer_seconds=0.05)
    return kind(dial, recover=lambda one: one.ask_once(probe), watch=heard)


def test_a_server_that_does_not_answer_costs_one_caller_its_time(heard, kind):
    """C104: those after it are answered at once, from threads and from event loops."""
    silent = Silent()
    held = watched(silent.url, heard, command([bulk("EVAL")]), kind)
    with pytest.raises(redis.TimeoutError):
        held.exchange([packed("EVAL", "x")])

    started = time.monotonic()
    for _ in range(50):
        with pytest.raises(StoreAway):
            held.exchange([packed("EVAL", "x")])
        with pytest.raises(StoreAway):
            asyncio.run(held.aexchange([packed("EVAL", "x")]))

    assert time.monotonic() - started < 2  # a hundred timeouts would be five seconds
    held.breaker.outage = None
    silent.close()


def test_a_server_that_drips_costs_two_timeouts_at_most(heard):
    """C104: each piece comes in time, the whole never does."""
    silent = Silent()
    silent.drip = b"x"
    held = watched(silent.url, heard)

    started = time.monotonic()
    with pytest.raises(redis.TimeoutError):
        held.exchange([packed("EVAL", "x")])

    assert time.monotonic() - started < 1
    held.breaker.outage = None
    silent.close()


def test_a_read_only_server_is_left_and_its_connections_are_dropped(own_valkey, heard, kind):
    """C101: after its promotion the next decision finds it, without a restart."""
    held = watched(own_valkey, heard, packed("SET", probe_key("tl"), "1", "PX", "1000"), kind)
    before = held.exchange([packed("CLIENT", "ID")])
    with redis.Redis.from_url(own_valkey) as client:
        client.replicaof("127.0.0.1", "1")
        try:
            with pytest.raises(redis.exceptions.ReadOnlyError):
                held.exchange([packed("SET", "tl:x", "1")])
            assert not heard.is_closed.wait(0.05)
        finally:
            client.replicaof("NO", "ONE")

    assert heard.is_closed.wait(5)
    assert held.exchange([packed("SET", "tl:x", "1")]) == [b"OK"]
    assert held.exchange([packed("CLIENT", "ID")]) != before
    held.close()


def test_one_connection_that_breaks_takes_no_other_caller_along(redis_url, redis_client, heard):
    """C101: all free connections are dropped, and the next caller makes a new one."""
    held = connections_to(redis_url)
    number = held.exchange([packed("CLIENT", "ID")])[0]
    redis_client.client_kill_filter(_id=str(number))

    with pytest.raises(ConnectionBroke):
        echo(held, "lost")

    assert held.breaker.outage is None
    assert echo(held, "found") == b"found"
    held.close()
