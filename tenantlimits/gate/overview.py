"""What a tenant may do and does now, for people to look at: every limit in force, and its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import redis

from tenantlimits.domain.decisions import Reading
from tenantlimits.domain.lanes import Lane, OnStoreFailure
from tenantlimits.domain.periods import from_us
from tenantlimits.domain.snapshots import Held
from tenantlimits.engine.keys import Identity
from tenantlimits.gate.asking import Ask
from tenantlimits.gate.deciding import peeking
from tenantlimits.gate.lookup import current_policy
from tenantlimits.gate.policies import load_and_keep
from tenantlimits.gate.steps import Steps, drive
from tenantlimits.gate.store import now_us, stores
from tenantlimits.policy.loading import Policy
from tenantlimits.pools.overview import pools_now

_EVERY_LANE = Lane(name="all", on_store_failure=OnStoreFailure.REFUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A tenant's policy, with the readings of its limits and what it holds of pools, by name.

    `stale`: the store is away, so that use is not known. A pool of which nobody knows what it holds is left out.
    """

    policy: Policy
    as_of: datetime
    readings: tuple[Reading, ...]
    held: Mapping[str, Held] = field(default_factory=dict)
    stale: bool = False


def overview(identity: Identity) -> Overview:
    """What is in force for the caller, and how much of it is used. Charges nothing.

    Limits of layer user and credential are among the readings where the identity names a user or credential.
    """
    try:
        seen = drive(_looking(identity), stores.engine)
    except redis.RedisError:
        policy = load_and_keep(identity, None, now_us(), lambda: None)
        return Overview(policy=policy, as_of=from_us(now_us()), readings=(), stale=True)
    return replace(seen, held=_held(seen.policy))


def _held(policy: Policy) -> Mapping[str, Held]:
    """What the tenant holds of each pool of which that is known."""
    known = {name: pool.held_by(policy.tenant) for name, pool in pools_now().items()}
    return {name: held for name, held in known.items() if held is not None}


def _looking(identity: Identity) -> Steps[Overview]:
    policy = yield from current_policy(identity, lambda: None)
    ask = Ask(identity=identity, lane=_EVERY_LANE, cost=1000, every_lane=True)
    outcome = yield from peeking(ask)
    policy = yield from current_policy(identity, lambda: None)
    decision = outcome.decision
    return Overview(policy=policy, as_of=from_us(decision.now_us), readings=decision.readings)
