"""The rows: tiers with their limits, tenants, overrides, the switch, usage by the hour, and the change log."""

from tenantlimits.models.log import Change
from tenantlimits.models.overrides import TIER_TARGET, Override
from tenantlimits.models.switch import Switch
from tenantlimits.models.tenants import Tenant
from tenantlimits.models.tiers import Limit, Tier
from tenantlimits.models.usage import UsageHour

__all__ = ["TIER_TARGET", "Change", "Limit", "Override", "Switch", "Tenant", "Tier", "UsageHour"]
