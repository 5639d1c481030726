"""Pools as the settings name them, and what of each is a tenant's own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenantlimits.domain.errors import InvalidShare
from tenantlimits.domain.limits import OverrideInForce
from tenantlimits.domain.shares import PoolRules, Share

MAX_SLOTS = 1_000_000
"""The most slots that a pool has, and the most operations that wait for one."""
UNSAID_SHARE = Share(slots=1)
"""What tenants have of a pool of which their tier does not say: one slot, so that nobody starves."""


class Scope(StrEnum):
    """Whose slots they are: each process has its own, or all processes share them through the store."""

    PROCESS = "process"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """A shared resource. `lease_seconds` is of a fleet's pool alone: how long a slot outlives a lost holder."""

    name: str
    capacity: int
    scope: Scope = Scope.PROCESS
    lendable: float = 1.0
    queue: int = 1000
    lease_seconds: float | None = None

    @property
    def rules(self) -> PoolRules:
        """What decides who may run."""
        return PoolRules(capacity=self.capacity, lendable=self.lendable, queue=self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareInForce:
    """A tenant's share of a pool at this moment, and where it comes from. `tier_share` None: the tier does not say."""

    pool: PoolSpec
    share: Share
    tier_share: Share | None
    override: OverrideInForce | None = None

    @property
    def name(self) -> str:
        """What the API and headers call it."""
        return f"{self.pool.name}-share"

    @property
    def tier_slots(self) -> int:
        """The slots that it has without an override."""
        return (self.tier_share or UNSAID_SHARE).slots

    @property
    def queue(self) -> int:
        """How many of the tenant's operations may wait for a slot."""
        return self.pool.queue if self.share.queue is None else min(self.share.queue, self.pool.queue)

    @property
    def source(self) -> str:
        """`tier` or `override`, the words of the API."""
        return "tier" if self.override is None else "override"


def check_slots(slots: object, *, pool: PoolSpec | None, name: str) -> None:
    """InvalidShare where a share cannot have so many slots. `pool` None: the settings know no such pool any more."""
    if type(slots) is not int or not 0 <= slots <= MAX_SLOTS:
        raise InvalidShare(
            f"{name}: a share is a whole number of slots from 0 (none of its own) to {MAX_SLOTS:,}, not {slots!r}."
        )
    if pool is not None and slots > pool.capacity:
        raise InvalidShare(
            f"{name}: {slots:,} slots are more than pool {pool.name} has for everyone: write at most {pool.capacity:,}."
        )
