"""Connections, held or pooled: what breaks is dropped, nothing is sent twice, and nobody reads another's reply."""

import asyncio
import gc
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from tenantlimits.engine import connections as module
from tenantlimits.engine import plain
from tenantlimits.engine.base import Admit
from tenantlimits.engine.breaker import ConnectionBroke
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.engine.resp import bulk, command
from tests.engine.builders import ACME, Caller, bucket, connections_to
from tests.listening import Listener
from tests.polling import eventually


def packed(*arguments):
    return command([bulk(one) for one in arguments])


def echo(held, text):
    return held.exchange([packed("ECHO", text)])[0]


@pytest.fixture
def held(redis_url, kind):
    connections = connections_to(redis_url, kind)
    yield connections
    connections.close()


class Silent(Listener):
    """A server that accepts, answers +OK to all that sets a connection up, and never answers a script."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.drip = b""
        self.listen()

    def serve(self, client: socket.socket) -> None:
        while data := client.recv(65536):
            self.received.append(data)
            if b"EVAL" not in data:
                client.sendall(b"+OK\r\n" * data.count(b"*"))
            elif self.drip:
                self._drip(client)

    def _drip(self, client: socket.socket) -> None:
        """An endless reply, of which a byte comes before each timeout."""
        client.sendall(b"$1000000\r\n")
        while True:
            time.sleep(0.01)
            client.sendall(self.drip)

    @property
    def scripts(self) -> int:
        return sum(data.count(b"EVAL") for data in self.received)


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


def test_replies_come_in_the_order_of_the_commands_and_an_error_is_one_of_them(held):
    replies = held.exchange(
        [packed("ECHO", "a"), packed("NO-SUCH-COMMAND"), packed("ECHO", "b"), packed("GET", "no-key")]
    )

    assert (replies[0], replies[2], replies[3]) == (b"a", b"b", None)
    assert isinstance(replies[1], redis.ResponseError)
    assert echo(held, "c") == b"c"


def test_a_reply_larger_than_a_packet_is_read_whole(held):
    large = "x" * 1_000_000

    assert [len(one) for one in held.exchange([packed("ECHO", large), packed("ECHO", "y")])] == [1_000_000, 1]
    assert held.exchange([]) == []


def test_one_connection_serves_one_call_after_the_other(held):
    numbers = {held.exchange([packed("CLIENT", "ID")])[0] for _ in range(5)}

    assert len(numbers) == 1


def test_threads_never_read_each_others_replies(held):
    texts = [f"t{n}" for n in range(600)]

    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda text: echo(held, text), texts))

    assert replies == [text.encode() for text in texts]


def test_a_held_connection_that_the_server_has_ended_is_dropped(redis_url, redis_client):
    """C101: the next call fails once, for it may have been carried out; the one after it works."""
    held = connections_to(redis_url)
    number = held.exchange([packed("CLIENT", "ID")])[0]
    redis_client.client_kill_filter(_id=str(number))

    with pytest.raises(redis.ConnectionError):
        echo(held, "lost")

    assert echo(held, "found") == b"found"
    assert held.exchange([packed("CLIENT", "ID")])[0] != number
    held.close()


def test_a_connection_that_ends_under_a_call_is_no_outage(held, redis_client, key_prefix):
    """C101: a server that ends one connection may well take the next."""
    number = held.exchange([packed("CLIENT", "ID")])[0]

    def end_it() -> None:
        while not any(one["id"] == str(number) and one["cmd"] == "blpop" for one in redis_client.client_list()):
            time.sleep(0.005)
        redis_client.client_kill_filter(_id=str(number))

    ending = threading.Thread(target=end_it)
    ending.start()
    with pytest.raises(ConnectionBroke):
        held.exchange([packed("BLPOP", f"{key_prefix}:list", "5")])
    ending.join()

    assert held.breaker.outage is None
    assert echo(held, "found") == b"found"


def test_a_connection_that_idled_is_looked_at_before_it_is_used(held, redis_client, monkeypatch):
    """Servers close what idles; nobody's call has to fail for that."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0)
    number = held.exchange([packed("CLIENT", "ID")])[0]
    redis_client.client_kill_filter(_id=str(number))

    assert echo(held, "found") == b"found"


def test_a_call_that_timed_out_leaves_no_reply_behind_for_the_next(redis_url, redis_client, key_prefix, kind):
    """C104."""
    held = connections_to(redis_url, kind, answer_seconds=0.05)

    with pytest.raises(redis.TimeoutError):
        held.exchange([packed("BLPOP", f"{key_prefix}:list", "1")])
    redis_client.rpush(f"{key_prefix}:list", "late")

    assert eventually(lambda: held.breaker.outage is None)  # until then nobody asks
    assert [echo(held, "mine"), echo(held, "too")] == [b"mine", b"too"]
    held.close()


def test_an_interrupted_call_leaves_no_reply_behind_either(held, monkeypatch):
    """A signal handler or a worker's timeout may raise between sending and reading."""
    reading = (module.resp, "read") if isinstance(held, Connections) else (plain, "_read")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*reading, interrupted)
        with pytest.raises(KeyboardInterrupt):
            echo(held, "never read")

    assert echo(held, "mine") == b"mine"


def test_a_forked_child_talks_over_its_own_connection(redis_url):
    """Run in a process without threads, where a fork is safe: parent and child call at the same time."""
    source = f"""
import os, redis
from tests.engine.builders import connections_to
from tests.engine.test_connections import echo, packed
held = connections_to({redis_url!r})
before = held.exchange([packed("CLIENT", "ID")])[0]
child = os.fork()
name = "child" if child == 0 else "parent"
wrong = sum(echo(held, f"{{name}}{{n}}") != f"{{name}}{{n}}".encode() for n in range(300))
same = held.exchange([packed("CLIENT", "ID")])[0] == before
if child == 0:
    os._exit(10 * same + bool(wrong))
status = os.waitpid(child, 0)[1]
print(wrong, same, os.waitstatus_to_exitcode(status))
"""
    printed = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)

    assert printed.stdout.split() == ["0", "True", "0"]


def test_a_port_where_nobody_listens_fails_at_once(kind):
    """C102, C104: no retries, no back-off."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    held = connections_to(f"redis://127.0.0.1:{port}/0", kind)

    started = time.monotonic()
    with pytest.raises(redis.ConnectionError):
        echo(held, "x")
    with pytest.raises(redis.ConnectionError):
        asyncio.run(held.aexchange([packed("PING")]))

    assert time.monotonic() - started < 3


def test_a_charge_without_an_answer_was_sent_once(silent, clock, kind):
    """C73: redis-py's own client would send it up to eleven times."""
    engine = RedisEngine(connections_to(silent.url, kind, answer_seconds=0.1))
    acme = Caller(engine, clock, [bucket(5)])

    started = time.monotonic()
    with pytest.raises(redis.TimeoutError):
        acme.admit()

    assert time.monotonic() - started < 3
    time.sleep(0.05)  # what was sent twice would be on its way
    assert silent.scripts == 1


def test_a_charge_without_an_answer_was_sent_once_from_an_event_loop_too(silent, clock, kind):
    """C73."""
    engine = RedisEngine(connections_to(silent.url, kind, answer_seconds=0.1))
    plan = Caller(engine, clock, [bucket(5)]).plan()

    with pytest.raises(redis.TimeoutError):
        asyncio.run(engine.arun(Admit(plan=plan, identity=ACME, cost=1000)))

    assert silent.scripts == 1


def test_the_reply_to_a_cancelled_call_is_nobodys(redis_url, redis_client, key_prefix):
    """C65: it comes all the same, before the reply of the next call."""
    held = connections_to(redis_url)

    async def scenario():
        number = (await held.aexchange([packed("CLIENT", "ID")]))[0]
        waiting = asyncio.ensure_future(held.aexchange([packed("BLPOP", f"{key_prefix}:list", "3")]))
        await asyncio.sleep(0.05)  # by now the server waits with us
        assert str(number) in [one["id"] for one in redis_client.client_list() if one["cmd"] == "blpop"]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        asked = asyncio.ensure_future(held.aexchange([packed("ECHO", "mine"), packed("CLIENT", "ID")]))
        await asyncio.sleep(0)
        redis_client.rpush(f"{key_prefix}:list", "late")
        return number, await asked

    number, replies = asyncio.run(scenario())

    assert replies == [b"mine", number]


def test_tasks_share_one_connection_and_a_task_that_gives_up_takes_it_from_nobody(redis_url):
    """A thousand requests under way are no thousand connections."""
    held = connections_to(redis_url)

    async def scenario():
        asked = [asyncio.ensure_future(held.aexchange([packed("CLIENT", "ID")])) for _ in range(1000)]
        await asyncio.sleep(0)
        asked[0].cancel()  # it was the first to want a connection
        return await asyncio.gather(*asked[1:])

    assert len({number for (number,) in asyncio.run(scenario())}) == 1


def test_what_breaks_under_many_tasks_breaks_for_each_of_them_once(redis_url, redis_client):
    """C101: nobody waits for ever, and the next question finds a new connection."""
    held = connections_to(redis_url)

    async def scenario():
        number = (await held.aexchange([packed("CLIENT", "ID")]))[0]
        asked = [asyncio.ensure_future(held.aexchange([packed("BLPOP", "no-such-list", "5")])) for _ in range(5)]
        await asyncio.sleep(0.05)
        redis_client.client_kill_filter(_id=str(number))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        return outcomes, await held.aexchange([packed("ECHO", "found")])

    outcomes, found = asyncio.run(scenario())

    assert {type(one).__name__ for one in outcomes} == {"ConnectionBroke"}
    assert found == [b"found"]


def test_tasks_never_read_each_others_replies(redis_url, kind):
    held = connections_to(redis_url, kind)
    texts = [f"t{n}" for n in range(40)]

    async def scenario():
        return await asyncio.gather(*(held.aexchange([packed("ECHO", text)]) for text in texts))

    assert asyncio.run(scenario()) == [[text.encode()] for text in texts]


def test_each_event_loop_has_connections_of_its_own(redis_url, kind):
    held = connections_to(redis_url, kind)

    async def scenario():
        numbers = [(await held.aexchange([packed("CLIENT", "ID")]))[0] for _ in range(3)]
        return set(numbers)

    first, second = asyncio.run(scenario()), asyncio.run(scenario())

    assert len(first) == len(second) == 1
    assert first != second


def test_a_loop_that_ended_without_closing_leaves_no_warning_and_no_harm(redis_url, recwarn, kind):
    """`async_to_sync` and `asyncio.run` end their loops without telling us."""
    held = connections_to(redis_url, kind)

    for _ in range(3):
        assert asyncio.run(held.aexchange([packed("ECHO", "x")])) == [b"x"]
        gc.collect()

    assert [str(one.message) for one in recwarn if issubclass(one.category, ResourceWarning)] == []


def test_an_async_connection_that_the_server_has_ended_is_dropped(redis_url, redis_client, kind):
    """C101."""
    held = connections_to(redis_url, kind)

    async def scenario():
        number = (await held.aexchange([packed("CLIENT", "ID")]))[0]
        redis_client.client_kill_filter(_id=str(number))
        await asyncio.sleep(0.05)  # the loop hears of the end
        return await held.aexchange([packed("ECHO", "found")])

    assert asyncio.run(scenario()) == [b"found"]


def test_closing_ends_the_connections_that_nobody_uses(redis_url, redis_client, kind):
    held = connections_to(redis_url, kind)
    number = held.exchange([packed("CLIENT", "ID")])[0]

    held.close()

    assert str(number) not in {one["id"] for one in redis_client.client_list()}


def test_a_reply_that_nobody_waits_for_is_read_with_the_next_ones(redis_url, redis_client, key_prefix):
    held, again = connections_to(redis_url), []

    held.post(packed("SET", f"{key_prefix}:x", "1"), lambda: again.append("again"))
    assert held.exchange([packed("GET", f"{key_prefix}:x"), packed("ECHO", "mine")]) == [b"1", b"mine"]

    assert again == []
    assert echo(held, "too") == b"too"
    held.close()


def test_what_was_sent_without_waiting_is_done_again_where_its_script_was_not_known(redis_url):
    """C99."""
    held, again = connections_to(redis_url), []

    held.post(packed("EVALSHA", "0" * 40, "0"), lambda: again.append("again"))

    assert echo(held, "mine") == b"mine"
    assert again == ["again"]
    held.close()


def test_replies_that_nobody_reads_are_bounded(redis_url):
    held = connections_to(redis_url)

    for _ in range(100):
        held.post(packed("ECHO", "x" * 1000), lambda: None)

    assert max(len(owed) for _, _, owed in held._free) <= module.MOST_OWED + 1
    assert echo(held, "mine") == b"mine"
    held.close()


def test_a_connection_that_idled_pays_what_it_owes_before_it_is_used(redis_url, monkeypatch):
    held, again = connections_to(redis_url), []
    number = held.exchange([packed("CLIENT", "ID")])[0]
    held.post(packed("EVALSHA", "0" * 40, "0"), lambda: again.append("again"))
    monkeypatch.setattr(module, "IDLE_SECONDS", 0)

    assert held.exchange([packed("CLIENT", "ID")])[0] == number
    assert again == ["again"]
    held.close()
