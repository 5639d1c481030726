"""What is done to a real store: each block begins the trouble and ends it. `acme` is the tenant that floods."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import redis
from django.core.cache import caches

from tenantlimits.domain.limits import MINUTE
from tenantlimits.domain.periods import US
from tenantlimits.engine.keys import Identity, keys_of
from tenantlimits.gate import admit
from tenantlimits.gate.store import engine_replaced
from tests.chaos.fleet import LIMIT, PREFIX, Fleet
from tests.chaos.proxy import Habit
from tests.chaos.server import HOST
from tests.engine.builders import redis_engine
from tests.polling import eventually

Trouble = Callable[[Fleet, str], AbstractContextManager[None]]
FILLERS = [f"filler-{n}" for n in range(300)]
FILLER_BYTES, ROOM_BYTES = 50_000, 5 << 20


@contextmanager
def none(fleet: Fleet, acme: str) -> Iterator[None]:
    """Nothing is done."""
    yield


@contextmanager
def killed(fleet: Fleet, acme: str) -> Iterator[None]:
    fleet.server.kill()
    yield
    fleet.server.start()


@contextmanager
def stopped(fleet: Fleet, acme: str) -> Iterator[None]:
    fleet.server.stop()
    yield
    fleet.server.go_on()


@contextmanager
def restarted_empty(fleet: Fleet, acme: str) -> Iterator[None]:
    fleet.server.kill()
    fleet.server.forget()
    yield
    fleet.server.start()


@contextmanager
def restarted_from_a_snapshot(fleet: Fleet, acme: str) -> Iterator[None]:
    fleet.server.shut_down()
    yield
    fleet.server.start(log=False)


@contextmanager
def logging_again(fleet: Fleet, acme: str) -> Iterator[None]:
    """Around a start from a snapshot: the next fault needs the log of commands."""
    yield
    with fleet.server.client() as client:
        client.config_set("appendonly", "yes")
        assert eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"], 10)


@contextmanager
def with_a_replica(fleet: Fleet, acme: str) -> Iterator[None]:
    fleet.other.start()
    with fleet.other.client() as client:
        client.replicaof(HOST, str(fleet.server.at))
        assert eventually(lambda: client.info("replication")["master_link_status"] == "up", 10)
    yield
    fleet.other.kill()


@contextmanager
def failed_over(fleet: Fleet, acme: str) -> Iterator[None]:
    """The server becomes a replica of what was its own, and is promoted again."""
    with fleet.server.client() as old, fleet.other.client() as new:
        old.client_pause(5000, all=False)  # so that the replica has all of it
        assert eventually(lambda: _offset(old, "master") == _offset(new, "slave"), 5)
        new.replicaof("NO", "ONE")
        old.replicaof(HOST, str(fleet.other.at))
        old.client_unpause()
        yield
        assert eventually(lambda: old.info("replication")["master_link_status"] == "up", 10)
        old.replicaof("NO", "ONE")


def _offset(client: redis.Redis, role: str) -> int:
    return int(client.info("replication")[f"{role}_repl_offset"])


@contextmanager
def flushed(fleet: Fleet, acme: str) -> Iterator[None]:
    with fleet.server.client() as client:
        client.flushall()
    yield


@contextmanager
def cleared(fleet: Fleet, acme: str) -> Iterator[None]:
    caches["default"].clear()
    yield


@contextmanager
def scripts_flushed(fleet: Fleet, acme: str) -> Iterator[None]:
    with fleet.server.client() as client:
        for _ in range(100):
            client.script_flush()
            time.sleep(0.01)
    yield


def configured(*, cuts_off: bool = False, **options: tuple[object, object]) -> Trouble:
    """The server is configured otherwise; each option has its value meanwhile, and then.

    With `cuts_off` whoever is connected has to connect anew.
    """

    @contextmanager
    def trouble(fleet: Fleet, acme: str) -> Iterator[None]:
        with fleet.server.client() as client:
            for name, (meanwhile, _) in options.items():
                client.config_set(name, meanwhile)
            if cuts_off:
                client.client_kill_filter(_type="normal", skipme=True)
            yield
            for name, (_, then) in options.items():
                client.config_set(name, then)

    return trouble


@contextmanager
def crowded(fleet: Fleet, acme: str) -> Iterator[None]:
    """Other keys push out what was not used for longest."""
    with fleet.server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + ROOM_BYTES)
        for name in FILLERS:
            client.set(name, bytes(FILLER_BYTES))
        yield
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
        client.delete(*FILLERS)


@contextmanager
def busy(fleet: Fleet, acme: str) -> Iterator[None]:
    """Another client's script that does not end: inside of it the clock stands still, so it has to be ended."""

    def run() -> None:
        with contextlib.suppress(redis.RedisError), fleet.server.client() as slow:
            slow.eval("while true do end", 0)

    with fleet.server.client() as client:
        client.config_set("busy-reply-threshold", 100)
        slow = threading.Thread(target=run)
        slow.start()
        yield
        client.script_kill()
        slow.join()
        client.config_set("busy-reply-threshold", 5000)


@contextmanager
def behind_a_proxy(fleet: Fleet, acme: str) -> Iterator[None]:
    fleet.put_proxy()
    yield
    fleet.take_proxy()


def proxy_that(habit: Habit) -> Trouble:
    """Needs `behind_a_proxy` around it."""

    @contextmanager
    def trouble(fleet: Fleet, acme: str) -> Iterator[None]:
        fleet.behave(habit)
        yield
        fleet.behave(Habit.PASS)

    return trouble


@contextmanager
def mistyped(fleet: Fleet, acme: str) -> Iterator[None]:
    """Somebody wrote lists where acme's state and usage should be."""
    keys = keys_of(PREFIX, Identity(tenant=acme))
    with fleet.server.client() as client, client.pipeline() as together:
        for key in (keys.tenant, keys.closed):
            together.delete(key).rpush(key, "not ours")
        together.execute()
    yield


@contextmanager
def used_in_the_future(fleet: Fleet, acme: str) -> Iterator[None]:
    """Half of acme's limit, a minute away on the server's clock, as after a failover to a slower one."""
    ahead = redis_engine(fleet.server.url, PREFIX, clock=lambda: (time.time() + MINUTE) * US)
    with engine_replaced(ahead):
        assert all(admit(lane="reads", tenant=acme).allowed for _ in range(LIMIT // 2))
    ahead.close()
    yield
