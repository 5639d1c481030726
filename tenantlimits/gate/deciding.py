"""One decision, from who asks for what to the answer: written once as steps (see `gate.steps`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import redis

from tenantlimits.conf import conf
from tenantlimits.domain.decisions import Decision
from tenantlimits.domain.plans import Plan
from tenantlimits.engine.base import Answer, Command
from tenantlimits.gate.asking import Ask, Outcome, blank, decision_of
from tenantlimits.gate.fallback import without_store
from tenantlimits.gate.lookup import current_policy, reloaded
from tenantlimits.gate.policies import sees_uncommitted_changes
from tenantlimits.gate.slots import slot_for
from tenantlimits.gate.steps import Steps
from tenantlimits.gate.store import stores
from tenantlimits.pools.wanted import give_up

_MOST_ATTEMPTS = 5
"""A policy that is stale so often in a row changes faster than it can be read."""


def admitting(ask: Ask) -> Steps[Outcome]:
    """Ask and record. Never raises redis.RedisError: the lane says what happens without a store."""
    outcome = yield from _admitting(ask)
    stores.outcomes.note(outcome.decision)
    return outcome


def _admitting(ask: Ask) -> Steps[Outcome]:
    if not ask.identity.tenant and conf.ANONYMOUS_TIER is None and ask.plan is None:
        return Outcome(blank(ask, allowed=False), None, None)
    repeated = _repeated(ask)
    if repeated is not None:
        return Outcome(repeated, None, None)
    slot = yield from slot_for(ask)
    if isinstance(slot, Decision):
        return Outcome(slot, None, None)
    if slot is None:
        return (yield from _asking(ask))
    outcome = None
    try:
        outcome = yield from _asking(ask)
    finally:
        # Refused by its limits, failed or given up: the slot is for somebody else.
        if outcome is None or outcome.decision.refused:
            give_up(slot)
    return replace(outcome, slot=slot) if outcome.decision.allowed else outcome


def _asking(ask: Ask) -> Steps[Outcome]:
    asked_at = time.monotonic()
    try:
        answer, plan = yield from _decided(ask, ask.command)
    except redis.RedisError as error:
        stores.health.note(error, ask.lane)
        return (yield from without_store(ask))
    decision = decision_of(ask, plan, answer)
    if decision.refused and ask.plan is None and stores.repeats_refusals:
        stores.refusals.keep(ask.question, ask.identity, decision, asked_at)
    return Outcome(decision, answer, stores.engine)


def _repeated(ask: Ask) -> Decision | None:
    """The refusal that the store gave to the same question just now, where the store may still be of that opinion."""
    if not stores.refusals or ask.plan is not None or ask.wait is not None or sees_uncommitted_changes():
        return None
    return stores.refusals.find(ask.question, ask.cost)


def peeking(ask: Ask) -> Steps[Outcome]:
    """The decision that would be made now; redis.RedisError where the store cannot say."""
    answer, plan = yield from _decided(ask, ask.peek)
    return Outcome(decision_of(ask, plan, answer), answer, stores.engine)


def _decided(ask: Ask, command: Callable[[Plan], Command[Answer]]) -> Steps[tuple[Answer, Plan]]:
    """Ask the store until the policy that is asked by is the one in force."""
    if ask.plan is not None:
        answer: Answer = yield command(ask.plan)
        return answer, ask.plan
    policy = yield from current_policy(ask.identity, ask.first_tier)
    for _ in range(_MOST_ATTEMPTS):
        plan = ask.planned(policy)
        answer = yield command(plan)
        if answer.decided:
            return answer, plan
        policy = yield from reloaded(ask.identity, ask.first_tier)
    raise redis.RedisError(f"The policy of tenant {ask.identity.tenant!r} changes faster than it can be read.")
