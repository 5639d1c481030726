"""Per-tenant limits for Django: no tenant can crowd out another."""

__version__ = "0.1.0"
