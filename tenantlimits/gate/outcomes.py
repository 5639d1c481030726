"""How this process has decided so far, for metrics: counted where every decision is made, and read now and then."""

from __future__ import annotations

import threading

from tenantlimits.domain.decisions import Decision

ALLOWED = "allowed"
"""The outcome of what was allowed; the others are the codes of refusals."""

Counts = dict[tuple[str, ...], int]


class Outcomes:
    """Decisions since this process began. Who reads makes a copy, which one call of dict() does at an instant.

    `decisions` by lane and outcome. Of them, `degraded` by lane were made without the shared store, and `without_tier`
    by lane were limited by nothing, since the tier that the settings name has no row.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.decisions: Counts = {}
        self.degraded: Counts = {}
        self.without_tier: Counts = {}

    def note(self, decision: Decision) -> None:
        """Count one decision."""
        plan = decision.plan
        outcome = ALLOWED if decision.allowed else str(decision.code)
        with self._lock:
            _count(self.decisions, plan.lane, outcome)
            if decision.degraded:
                _count(self.degraded, plan.lane)
            # Where there are no stamps, no policy stands behind it that could have had a tier.
            if not plan.tier and plan.stamps is not None:
                _count(self.without_tier, plan.lane)


def _count(counts: Counts, *labels: str) -> None:
    counts[labels] = counts.get(labels, 0) + 1
