"""Decisions without the store: what the lane declares for that."""

from __future__ import annotations

import logging
from functools import partial

from django.db import Error

from tenantlimits.domain.lanes import OnStoreFailure
from tenantlimits.domain.local import local_plan
from tenantlimits.domain.plans import Plan
from tenantlimits.gate.asking import Ask, Outcome, blank, decision_of
from tenantlimits.gate.lookup import policy_without_store
from tenantlimits.gate.steps import Steps
from tenantlimits.gate.store import stores
from tenantlimits.policy.flushed import flushed_use

logger = logging.getLogger(__name__)


def without_store(ask: Ask) -> Steps[Outcome]:
    """What the lane declares for a store that cannot be reached."""
    if ask.lane.on_store_failure is not OnStoreFailure.LOCAL:
        allowed = ask.lane.on_store_failure is OnStoreFailure.ALLOW
        return Outcome(blank(ask, allowed=allowed, degraded=True), None, None)
    plan = yield from _local_plan(ask)
    answer = stores.local.run(ask.command(plan))
    return Outcome(decision_of(ask, plan, answer, degraded=True), answer, stores.local)


def _local_plan(ask: Ask) -> Steps[Plan]:
    """This process's part of the plan, by its own clock: without the store there is no other."""
    if ask.plan is not None:
        return local_plan(ask.plan, processes=stores.processes, cost=ask.cost, flushed={})
    policy = yield from policy_without_store(ask.identity, ask.first_tier)
    plan = ask.planned(policy)
    if policy.flushed is None:
        policy.flushed = yield partial(_flushed, plan)
    return local_plan(plan, processes=stores.processes, cost=ask.cost, flushed=policy.flushed)


def _flushed(plan: Plan) -> dict[bytes, float]:
    """What the rows know; nothing where the database is away, too, which then is the host's trouble and not ours."""
    try:
        return flushed_use(plan)
    except Error as error:
        logger.warning("The use of calendar quotas cannot be read (%s): they begin anew in this process.", error)
        return {}
