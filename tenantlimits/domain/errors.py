"""Everything this package raises on purpose.

TenantLimitsError
├── InvalidLimit          a limit that cannot mean anything (also a ValueError)
├── InvalidCost           a cost that is not a number of units (also a ValueError)
├── InvalidTenant         a resolver's answer that is not a tenant key (also a ValueError)
├── InvalidOverride       an override without reason, end, target or room (also a ValueError)
├── InvalidShare          a share of a pool that cannot be (also a ValueError)
├── UnknownPool           a pool that no setting names (also a LookupError)
├── UnknownLane           a lane that no setting names (also a LookupError)
├── UnknownTier           a tier that has no row (also a LookupError)
├── UnknownTenant         a tenant that has no row (also a LookupError)
├── LimitExceeded         an operation was refused; carries the Decision
└── SlotRefused           a pool has no slot for the tenant now
    ├── QueueFull         and no room to wait for one
    └── QueueTimeout      nor had it one within the time that the operation waited
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenantlimits.domain.decisions import Decision
    from tenantlimits.domain.shares import Standing


class TenantLimitsError(Exception):
    """Root of the tree: catch this to catch everything this package raises on purpose."""


class InvalidLimit(TenantLimitsError, ValueError):
    """A limit that cannot mean anything, such as 12 units per no time."""


class InvalidCost(TenantLimitsError, ValueError):
    """A cost that is negative, not finite, too large or not a number."""


class InvalidTenant(TenantLimitsError, ValueError):
    """A resolver answered something other than None or a text of 1 to 255 characters."""


class InvalidOverride(TenantLimitsError, ValueError):
    """An override that may not be written, with the reason in words."""


class InvalidShare(TenantLimitsError, ValueError):
    """A share of a pool that cannot be, such as one of more slots than the pool has."""


class UnknownPool(TenantLimitsError, LookupError):
    """A pool that the setting POOLS does not name."""


class UnknownLane(TenantLimitsError, LookupError):
    """A lane that the setting LANES does not name."""


class UnknownTier(TenantLimitsError, LookupError):
    """A tier that has no row."""


class UnknownTenant(TenantLimitsError, LookupError):
    """A tenant that has no row."""


class LimitExceeded(TenantLimitsError):
    """An operation was refused. `decision` says by which limits, why and until when."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(decision.summary())


class SlotRefused(TenantLimitsError):
    """A pool has no slot for the tenant now: its share is in use, or the whole pool is. `standing` says which."""

    def __init__(self, pool: str, tenant: str, standing: Standing) -> None:
        self.pool, self.tenant, self.standing = pool, tenant, standing
        super().__init__(self.words())

    @property
    def retry_after(self) -> float:
        """Seconds until it may have a slot: an estimate, at least 1."""
        return max(1.0, self.standing.estimate)

    def words(self) -> str:
        """One sentence for logs."""
        one = self.standing
        why = "its share is in use" if one.running >= one.share else "the whole pool is in use"
        return (
            f"No slot of pool {self.pool} for tenant {self.tenant}: {why} (running {one.running}, share {one.share})."
        )


class QueueFull(SlotRefused):
    """So many operations wait for a slot already that this one may not."""

    def words(self) -> str:
        return f"No room to wait for pool {self.pool}: {self.standing.waiting} operations of tenant {self.tenant} wait."


class QueueTimeout(SlotRefused):
    """The operation waited `waited` seconds for a slot and had none."""

    def __init__(self, pool: str, tenant: str, standing: Standing, waited: float) -> None:
        self.waited = waited
        super().__init__(pool, tenant, standing)

    def words(self) -> str:
        return f"No slot of pool {self.pool} for tenant {self.tenant} within {self.waited:g} s."
