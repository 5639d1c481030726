"""The demo: a client portal whose tenants are limited by tenantlimits."""
