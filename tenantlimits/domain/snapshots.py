"""What a pool holds at one moment, for people to look at: who runs, who waits, and why they wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tenantlimits.domain.shares import PoolRules, Standing


class Why(StrEnum):
    """Why operations of a tenant wait. The first of several says most."""

    SHARE_TOO_SMALL = "share_too_small"
    """It has used up its share, and nothing more is lent: slots are idle while it waits."""
    SHARE_USED = "share_used"
    """It has used up its share, and there is nothing to borrow."""
    CAPACITY = "capacity"
    """All slots are in use, though its share is not."""
    OPENS_SOON = "opens_soon"
    """The store has to learn first who has a slot; until then it gives out none."""
    NEXT = "next"
    """A slot is on its way to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one process holds in a pool, or the fleet in its own. `since` of standings is in seconds before now.

    Of very many tenants only those with the most are there, so that sums are below `running` and `waiting`. No slots
    are given out for `opens_in` seconds.
    """

    rules: PoolRules
    running: int
    waiting: int
    standings: Mapping[str, Standing]
    opens_in: float = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether tenants are left out."""
        found = self.standings.values()
        return sum(one.running for one in found) < self.running or sum(one.waiting for one in found) < self.waiting

    def reasons(self) -> dict[str, Why]:
        """Why each tenant waits that does."""
        waits = {tenant: one for tenant, one in self.standings.items() if one.waiting}
        is_lent_out = self._is_lent_out() if waits else False
        return {tenant: self._why(one, is_lent_out=is_lent_out) for tenant, one in waits.items()}

    def _why(self, one: Standing, *, is_lent_out: bool) -> Why:
        if self.opens_in > 0:
            return Why.OPENS_SOON
        is_full = self.running >= self.rules.capacity
        if one.running < one.share:
            return Why.CAPACITY if is_full else Why.NEXT
        if is_full:
            return Why.SHARE_USED
        return Why.SHARE_TOO_SMALL if is_lent_out else Why.NEXT

    def _is_lent_out(self) -> bool:
        """Whether nothing more may be borrowed. Of tenants that are left out it is taken that they borrow the rest."""
        lent = self.rules.lent_at_most
        if self.is_cut:
            return lent < self.rules.capacity
        return sum(one.borrowed for one in self.standings.values()) >= lent


@dataclass(frozen=True, slots=True)
class Held:
    """What one tenant holds of a pool, in each process where it holds anything; of the fleet's pool that is one.

    `reasons` are why it waits, each once.
    """

    parts: tuple[Standing, ...] = ()
    reasons: tuple[Why, ...] = ()

    @property
    def share(self) -> int:
        """Its share, of each process; the largest where they do not agree (yet)."""
        return max((one.share for one in self.parts), default=0)

    @property
    def running(self) -> int:
        """How many run, in all processes."""
        return sum(one.running for one in self.parts)

    @property
    def borrowed(self) -> int:
        """How many of those run above its share."""
        return sum(one.borrowed for one in self.parts)

    @property
    def waiting(self) -> int:
        """How many wait, in all processes."""
        return sum(one.waiting for one in self.parts)

    @property
    def busiest(self) -> Standing:
        """Where most of it runs: shares are those of a process, so that is what to compare one with."""
        nothing = Standing(0, 0, 0, None)
        return max(self.parts, key=lambda one: (one.running, one.waiting), default=nothing)

    @property
    def oldest_wait(self) -> float | None:
        """For how long the first has waited, in seconds; None where nobody waits."""
        return max((-one.since for one in self.parts if one.since is not None), default=None)

    @property
    def estimate(self) -> float:
        """Seconds until one that comes now may run, where the wait is longest."""
        return max((one.estimate for one in self.parts), default=0.0)

    @property
    def why(self) -> Why | None:
        """What says most of why it waits; None where nobody does."""
        return min(self.reasons, key=list(Why).index, default=None)

    @property
    def is_share_too_small(self) -> bool:
        """Whether it waits while slots are idle."""
        return Why.SHARE_TOO_SMALL in self.reasons


def held(snapshots: Iterable[Snapshot]) -> dict[str, Held]:
    """What each tenant holds in a pool of which these are all processes' parts."""
    parts: dict[str, list[Standing]] = {}
    reasons: dict[str, set[Why]] = {}
    for snapshot in snapshots:
        for tenant, one in snapshot.standings.items():
            parts.setdefault(tenant, []).append(one)
        for tenant, why in snapshot.reasons().items():
            reasons.setdefault(tenant, set()).add(why)
    return {tenant: Held(tuple(found), tuple(reasons.get(tenant, ()))) for tenant, found in parts.items()}
