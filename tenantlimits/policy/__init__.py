"""What a tenant may do now, and how that changes."""

from tenantlimits.policy.writing import grant_override, invalidate, revoke_override, set_tier

__all__ = ["grant_override", "invalidate", "revoke_override", "set_tier"]
