"""The tenant's own pages, outside the tenants' lanes: looking at one's limits costs nothing."""

from tenantlimits.views.pages import usage

__all__ = ["usage"]
