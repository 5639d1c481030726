"""The rows: tiers with limits and shares, tenants, overrides, the switch, usage by the hour, and the change log."""

from tenantlimits.models.log import Change
from tenantlimits.models.overrides import SHARE_TARGET, TIER_TARGET, Override
from tenantlimits.models.shares import Pool, Share
from tenantlimits.models.switch import Switch
from tenantlimits.models.tenants import Tenant
from tenantlimits.models.tiers import Limit, Tier
from tenantlimits.models.usage import UsageHour

__all__ = [
    "SHARE_TARGET",
    "TIER_TARGET",
    "Change",
    "Limit",
    "Override",
    "Pool",
    "Share",
    "Switch",
    "Tenant",
    "Tier",
    "UsageHour",
]
