"""Whose turn it is: start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", 1996).

Each operation has a start tag, the later of the virtual time and the end of the tenant's one before; the smallest tag
is next. An end is the start and the duration over the weight. How long an operation takes is known when it has ended,
so it is charged an estimate at its start and the difference at its end (as Kubernetes' priority and fairness does).
Idleness earns no credit: virtual time goes on without the tenant.
"""

from __future__ import annotations

from dataclasses import dataclass

_SMOOTHING = 8
_AT_FIRST_SECONDS = 0.001


@dataclass(slots=True, kw_only=True)
class Account:
    """Where a tenant stands: `ends_at` is the end of its last operation in virtual time."""

    ends_at: float = 0.0


class Turns:
    """The virtual time of one pool, and how long its operations take (seconds, a running mean)."""

    def __init__(self) -> None:
        self.now = 0.0
        self.mean = _AT_FIRST_SECONDS

    def begin(self, account: Account, weight: float, *, arrived: float) -> float:
        """An operation starts of a tenant that came at a virtual time; answers what it was charged, in seconds."""
        start, mean = account.ends_at, self.mean
        if arrived > start:  # noqa: PLR1730 - once per operation, and two calls of max would be half of what it takes
            start = arrived
        if start > self.now:  # noqa: PLR1730 - likewise
            self.now = start
        account.ends_at = start + mean / weight
        return mean

    def end(self, account: Account, weight: float, *, charged: float, seconds: float) -> None:
        """It has ended after so long: the difference to what it was charged is charged or given back."""
        account.ends_at += (seconds - charged) / weight
        self.mean += (seconds - self.mean) / _SMOOTHING
