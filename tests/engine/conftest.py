"""The stores that every rule is tried on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tenantlimits.engine.base import Collect, Counted, Engine, Member
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.keys import Identity, shard_of
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.engine.plain import PlainConnections
from tenantlimits.engine.redis import RedisEngine
from tests.engine.builders import NOBODY, Caller, Clock, connections_to


@pytest.fixture
def clock() -> Clock:
    """A clock that only the test moves."""
    return Clock()


@pytest.fixture(params=[Connections, PlainConnections], ids=["held", "plain"])
def kind(request: pytest.FixtureRequest) -> type[Connections | PlainConnections]:
    """Each way to keep connections in turn."""
    kind: type[Connections | PlainConnections] = request.param
    return kind


@pytest.fixture(params=["memory", "redis", "plain"])
def engine(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Engine]:
    """Each store in turn, on the test's clock."""
    if request.param == "memory":
        yield MemoryEngine(clock=clock)
        return
    kind = PlainConnections if request.param == "plain" else Connections
    connections = connections_to(request.getfixturevalue("redis_url"), kind)
    store = RedisEngine(connections, prefix=request.getfixturevalue("key_prefix"), clock=clock)
    yield store
    store.close()


@pytest.fixture
def caller(engine: Engine, clock: Clock) -> Callable[..., Caller]:
    """`caller(limit, ...)`: somebody of acme under these limits."""

    def make(*limits, **options) -> Caller:
        return Caller(engine, clock, limits, **options)

    return make


@pytest.fixture
def forget(engine: Engine, request: pytest.FixtureRequest) -> Callable[[], None]:
    """`forget()`: the store loses everything, as after a restart without persistence."""

    def lose() -> None:
        if isinstance(engine, MemoryEngine):
            engine.__init__(clock=request.getfixturevalue("clock"))
            return
        client, prefix = request.getfixturevalue("redis_client"), request.getfixturevalue("key_prefix")
        for key in client.scan_iter(match=f"{prefix}*", count=1000):
            client.unlink(key)

    return lose


@pytest.fixture
def member() -> Callable[[str], Member]:
    """`member("acme")`: a tenant in its shard; of the anonymous ones that of the test's address."""

    def make(tenant: str) -> Member:
        return Member(shard_of(Identity(tenant=tenant) if tenant else NOBODY), tenant)

    return make


@pytest.fixture
def usage(engine: Engine, member: Callable[[str], Member]) -> Callable[[str], Counted]:
    """`usage("acme")`: what the store has counted."""
    return lambda tenant: engine.run(Collect(member(tenant)))
