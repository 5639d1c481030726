"""Everything this package raises on purpose.

TenantLimitsError
├── InvalidLimit          a limit that cannot mean anything (also a ValueError)
├── InvalidCost           a cost that is not a number of units (also a ValueError)
├── InvalidTenant         a resolver's answer that is not a tenant key (also a ValueError)
├── InvalidOverride       an override without reason, end, target or room (also a ValueError)
├── UnknownLane           a lane that no setting names (also a LookupError)
├── UnknownTier           a tier that has no row (also a LookupError)
├── UnknownTenant         a tenant that has no row (also a LookupError)
└── LimitExceeded         an operation was refused; carries the Decision
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenantlimits.domain.decisions import Decision


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
