"""The slot of a lane's pool, which an operation has before its limits are asked, and gives back when it ends."""

from __future__ import annotations

from dataclasses import replace

import redis

from tenantlimits.domain.decisions import Code, Decision, PoolRefusal
from tenantlimits.domain.errors import QueueFull, QueueTimeout, SlotRefused
from tenantlimits.domain.lanes import Excess
from tenantlimits.domain.pools import ShareInForce
from tenantlimits.domain.shares import Share
from tenantlimits.engine.base import Tally
from tenantlimits.gate.asking import Ask, blank
from tenantlimits.gate.lookup import policy_in_force
from tenantlimits.gate.steps import Steps
from tenantlimits.gate.store import stores
from tenantlimits.policy.loading import Policy
from tenantlimits.pools.registry import AnySlot, pools
from tenantlimits.pools.wanted import Wanted


def slot_for(ask: Ask) -> Steps[AnySlot | Decision | None]:
    """The slot that the operation takes of its lane's pool, or the refusal where there is none.

    None where it takes none: the lane has no pool, the operation is not held, or what is under way has a slot there.
    """
    name = ask.lane.pool
    if name is None or ask.lease is None or name in ask.pools:
        return None
    policy = yield from policy_in_force(ask.identity, ask.first_tier)
    in_force = policy.shares[name]
    lane = ask.lane
    wanted = Wanted(
        pools.of(name), ask.identity.tenant, _share(in_force, ask), _seconds(ask),
        lane.on_store_failure, lane.max_hold_seconds,
    )  # fmt: skip
    try:
        answer: AnySlot | SlotRefused = yield wanted
    except redis.RedisError as error:
        stores.health.note(error, lane)
        return blank(ask, allowed=False, degraded=True)
    return _refused(ask, policy, in_force, answer) if isinstance(answer, SlotRefused) else answer


def _share(in_force: ShareInForce, ask: Ask) -> Share:
    """The tenant's share, and room to wait for as many as its lane lets."""
    most = [queue for queue in (in_force.share.queue, ask.lane.queue) if queue is not None]
    return replace(in_force.share, queue=min(most, default=None))


def _seconds(ask: Ask) -> float:
    if ask.wait is not None:
        return ask.wait
    return (ask.lane.wait_seconds or 0.0) if ask.lane.excess is Excess.WAIT else 0.0


def _refused(ask: Ask, policy: Policy, in_force: ShareInForce, error: SlotRefused) -> Decision:
    """The refusal as a decision; it is counted as one, though no limit was asked."""
    plan = ask.planned(policy)
    tally = Tally(plan=plan, identity=ask.identity, fits=(True,) * len(plan.asked), times=1)
    stores.count(tally)
    decision = blank(ask, allowed=False)
    named = replace(decision.plan, tier=policy.tier, tier_name=policy.tier_name)
    standing = error.standing
    refusal = PoolRefusal(
        code=_code(error), pool=error.pool, name=in_force.name, share=standing.share, running=standing.running,
        waiting=standing.waiting, source=in_force.source,
    )  # fmt: skip
    return replace(decision, plan=named, by_pool=refusal, busy_seconds=error.retry_after)


def _code(error: SlotRefused) -> Code:
    if isinstance(error, QueueFull):
        return Code.QUEUE_FULL
    if isinstance(error, QueueTimeout):
        return Code.QUEUE_TIMEOUT
    return Code.CONCURRENCY_LIMITED if error.standing.running >= error.standing.share else Code.CAPACITY_FULL
