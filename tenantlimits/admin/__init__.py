"""What staff see and change: tiers, tenants, overrides, pools and the switch; usage and the change log to read."""

from tenantlimits.admin import overrides, pools, records, switch, tenants, tiers

__all__ = ["overrides", "pools", "records", "switch", "tenants", "tiers"]
