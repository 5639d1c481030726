"""What each process tells the others of its own pools: who runs and who waits there, once a second, beside its name.

A report is JSON: for each pool that holds anything, its rules, its sums, and of each tenant name, share, how many run
and wait, for how long the first has waited, and how long one that comes now would. Another version's is passed over.
"""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from tenantlimits.domain.shares import PoolRules, Standing
from tenantlimits.domain.snapshots import Snapshot
from tenantlimits.pools.process import ProcessPool
from tenantlimits.pools.registry import pools

logger = logging.getLogger(__name__)

MOST_TENANTS = 200
"""Of so many tenants of a pool a process tells."""

_UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)


def own_snapshots() -> dict[str, Snapshot]:
    """What this process's own pools hold; those that hold nothing are left out."""
    found = {name: pool.snapshot(MOST_TENANTS) for name, pool in pools.built().items() if isinstance(pool, ProcessPool)}
    return {name: one for name, one in found.items() if one.running or one.waiting}


def own_report() -> bytes:
    """The same, for the store."""
    found = own_snapshots()
    if not found:
        return b""
    return json.dumps({name: _told(one) for name, one in found.items()}, separators=(",", ":")).encode()


def snapshots_in(report: bytes, *, age: float) -> dict[str, Snapshot]:
    """What a process said that it held, so many seconds ago."""
    try:
        return {str(name): _read(one, age) for name, one in json.loads(report).items()}
    except _UNREADABLE as error:
        logger.debug("What a process says of its pools cannot be read (%s).", error)
        return {}


def _told(one: Snapshot) -> list[Any]:
    rules = one.rules
    tenants = [
        [tenant, each.share, each.running, each.waiting, _rounded(each.since), _rounded(each.estimate)]
        for tenant, each in one.standings.items()
    ]
    return [rules.capacity, rules.lendable, rules.queue, one.running, one.waiting, tenants]


def _read(told: list[Any], age: float) -> Snapshot:
    capacity, lendable, queue, running, waiting, tenants = told
    standings = {
        str(tenant): Standing(
            int(share),
            int(runs),
            int(waits),
            None if since is None else min(0.0, _finite(since) - age),
            _finite(estimate),
        )
        for tenant, share, runs, waits, since, estimate in tenants
    }
    rules = PoolRules(capacity=int(capacity), lendable=float(lendable), queue=int(queue))
    return Snapshot(rules=rules, running=int(running), waiting=int(waiting), standings=standings)


def _finite(seconds: Any) -> float:
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} is no time to wait")
    return float(seconds)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
