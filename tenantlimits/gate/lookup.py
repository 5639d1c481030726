"""The policy of a tenant, as steps: from memory, else from the database on the stamps of now."""

from __future__ import annotations

from collections.abc import Callable

import redis

from tenantlimits.engine.base import Begin, Begun
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.policies import Load, policies
from tenantlimits.gate.steps import Steps
from tenantlimits.gate.store import now_us
from tenantlimits.policy.loading import Policy


def current_policy(identity: Identity, first_tier: Callable[[], str | None]) -> Steps[Policy]:
    """The tenant's policy in memory, or from the database on the stamps of now."""
    policy = policies.get(identity)
    if policy is None:
        policy = yield from reloaded(identity, first_tier)
    return policy


def reloaded(identity: Identity, first_tier: Callable[[], str | None]) -> Steps[Policy]:
    """Stamp first, then rows: what is saved in between moves the stamp, and the policy is stale at once."""
    begun: Begun = yield Begin(identity)
    policy: Policy = yield Load(identity, begun, begun.now_us, first_tier)
    return policy


def policy_in_force(identity: Identity, first_tier: Callable[[], str | None]) -> Steps[Policy]:
    """The same, and where the store is away by this process's clock."""
    try:
        return (yield from current_policy(identity, first_tier))
    except redis.RedisError:
        return (yield from policy_without_store(identity, first_tier))


def policy_without_store(identity: Identity, first_tier: Callable[[], str | None]) -> Steps[Policy]:
    """The latest known policy, or what the database says now."""
    policy = policies.latest(identity, now_us())
    if policy is None:
        policy = yield Load(identity, None, now_us(), first_tier)
    return policy
