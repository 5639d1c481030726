"""What staff see and change: tiers, tenants, overrides and the switch; usage and the change log to read."""

from tenantlimits.admin import overrides, records, switch, tenants, tiers

__all__ = ["overrides", "records", "switch", "tenants", "tiers"]
