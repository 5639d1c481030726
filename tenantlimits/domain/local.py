"""One process's part of every limit, for when each process has to decide alone.

The parts of all processes together are the limit, but for this: a process always has room for one operation that the
whole limit has room for, or what costs more than a part would never be let in. So the processes together let in at
most the limit and, beyond it, one operation each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tenantlimits.domain.buckets import Bucket
from tenantlimits.domain.limits import UNLIMITED
from tenantlimits.domain.plans import Cap, Plan, Spec, Term
from tenantlimits.domain.windows import Quota


def local_plan(plan: Plan, *, processes: int, cost: int, flushed: Mapping[bytes, float]) -> Plan:
    """The plan by which one of so many processes decides about an operation of `cost` milli-units.

    `flushed` is what the database knows to be used in the periods of calendar quotas, in milli-units by state id.
    Stamps and validity are the store's, so they do not bind.
    """
    parts = tuple(
        replace(term, spec=_part(term, processes, term.requested(cost), flushed.get(term.id, 0.0)))
        for term in plan.terms
    )
    return replace(plan, terms=parts, stamps=None, valid_from_us=0.0, valid_until_us=UNLIMITED, compiled=None)


def _part(term: Term, processes: int, requested: int, used: float) -> Spec:
    match term.spec:
        case Bucket(burst, per_us):
            return Bucket(_share(burst, processes, requested), per_us / processes)
        case Cap(amount):
            return Cap(amount if amount >= UNLIMITED else max(min(amount, 1), amount // processes))
        case Quota(amount):
            return replace(term.spec, amount=_share(max(0.0, amount - used), processes, requested))
        case other:
            return replace(other, amount=_share(other.amount, processes, requested))


def _share(amount: float, processes: int, requested: int) -> float:
    return max(amount / processes, min(amount, requested))
