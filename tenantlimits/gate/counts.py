"""What the stores have counted, for whoever writes it down or shows it."""

from __future__ import annotations

from typing import TypeVar

import redis

from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.engine.base import Collect, Command, Counted, Engine, Member
from tenantlimits.engine.keys import Identity, shard_of
from tenantlimits.gate.store import stores

R = TypeVar("R")


class StoreUnreachable(TenantLimitsError):
    """The store did not answer, so that nothing can be said of what it has counted."""


def counting_stores() -> tuple[Engine, ...]:
    """The shared store, and the one that counts in this process while the shared one is away."""
    return stores.engine, stores.local


def ask(engine: Engine, command: Command[R]) -> R:
    """The store's reply; StoreUnreachable where there is none."""
    try:
        return engine.run(command)
    except redis.RedisError as error:
        raise StoreUnreachable(f"The store does not answer ({type(error).__name__}: {error}).") from error


def counted_for(tenant: str) -> Counted:
    """What the shared store has counted for a tenant and nobody may have written down; StoreUnreachable."""
    return ask(stores.engine, Collect(Member(shard_of(Identity(tenant=tenant)), tenant)))
