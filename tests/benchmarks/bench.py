"""A store on a server of its own, and the decisions that are asked of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from importlib.resources import files
from zoneinfo import ZoneInfo

import redis

from tenantlimits.domain.limits import Kind, Layer, Limit, LimitInForce
from tenantlimits.domain.periods import from_us
from tenantlimits.domain.plans import SUBJECT_OF_LAYER, Plan, Stamps, terms
from tenantlimits.engine.base import Admit, Answer, Begin, Status
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.keys import Identity
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.engine.resp import bulk, command
from tests.benchmarks.harness import Call, Server

PERIODS = (60, 3600, 86_400, 10, 600, 7200, 30, 43_200)
"""The first of them make a tenant's buckets. Some are long, so that the state outlives the pauses between rounds."""
AMOUNT = 10**9
# Leases lapse so soon that some five are held at any time, as in a lane under load, and every decision drops one.
LEASE_US = 500


class Bench:
    """A store on a server, and decisions to ask it for. `tenants` is how many P4 makes."""

    def __init__(self, server: Server, client: redis.Redis, *, tenants: int = 0) -> None:
        self.server, self.client, self.tenants = server, client, tenants
        self.connections = Connections(Dial(client.connection_pool, connect_seconds=1, answer_seconds=5))
        self.engine = RedisEngine(self.connections)
        self.noop_sha = client.script_load("return 1")

    def noop(self) -> object:
        """The cheapest script, as redis-py runs it."""
        return self.client.evalsha(self.noop_sha, 0)

    def held_noop(self) -> object:
        """The same on a held connection."""
        return self.connections.exchange([self.packed_noop])

    @property
    def packed_noop(self) -> bytes:
        """The same as bytes."""
        return command([bulk("EVALSHA"), bulk(self.noop_sha), bulk(0)])

    def plan(self, identity: Identity, periods: Sequence[int] = PERIODS[:4], *, stamps: Stamps | None = None) -> Plan:
        """A token bucket for each period, and a cap; with a user, one bucket more for user and credential each."""
        asked = [_in_force(f"rate-{n}", Kind.TOKEN_BUCKET, period=period) for n, period in enumerate(periods)]
        asked.append(_in_force("running", Kind.CONCURRENCY))
        if identity.user:
            asked += [_in_force(layer, Kind.TOKEN_BUCKET, 60, layer) for layer in (Layer.USER, Layer.CREDENTIAL)]
        found = terms(
            asked,
            asked_lanes=frozenset({"all"}),
            now=from_us(time.time() * 1e6),
            zone=ZoneInfo("UTC"),
            subjects=SUBJECT_OF_LAYER,
        )
        return Plan(
            tenant=identity.tenant,
            lane="reads",
            tier="pro",
            tier_name="Pro",
            terms=found,
            lease_us=LEASE_US,
            stamps=stamps or self.engine.run(Begin(identity)).stamps,
        )

    def asking(self, name: str, *, user: str | None = None, periods: Sequence[int] = PERIODS[:4]) -> AskAgain:
        """A decision that is always allowed, and holds a lease that lapses by itself."""
        identity = Identity(tenant=name, user=user, credential=user)
        ask = AskAgain(self.engine, self.plan(identity, periods), identity)
        assert ask().status is Status.ALLOWED
        return ask

    def eval(self, sha: str, keys: Sequence[str], arguments: Sequence[bytes | int | str]) -> Call:
        """A call of a script on a held connection, packed once."""
        packed = command([bulk(one) for one in ("EVALSHA", sha, len(keys), *keys, *arguments)])
        return lambda: self.connections.exchange([packed])


class AskAgain:
    """The same operation asked again and again, with a lease of its own each time."""

    def __init__(self, engine: RedisEngine, plan: Plan, identity: Identity) -> None:
        self.engine, self.plan, self.identity = engine, plan, identity

    @property
    def command(self) -> Admit:
        """What is asked."""
        return Admit(plan=self.plan, identity=self.identity, cost=1000, lease=os.urandom(8))

    def __call__(self) -> Answer:
        """Ask from this thread."""
        return self.engine.run(self.command)

    async def awaited(self) -> Answer:
        """Ask from an event loop."""
        return await self.engine.arun(self.command)

    def packed(self) -> bytes:
        """What is sent, to be sent again as it is."""
        return self.engine.call(self.command)[0][0]


def lua(name: str) -> str:
    """The text of a script of ours to compare with."""
    return files(__package__).joinpath(f"{name}.lua").read_text("utf-8")


def _in_force(name: str, kind: Kind, period: int | None = None, layer: Layer = Layer.TENANT) -> LimitInForce:
    limit = Limit(name=name, lane="all", kind=kind, amount=AMOUNT, period_seconds=period, layer=layer)
    return LimitInForce(limit=limit, tier_limit=limit)
