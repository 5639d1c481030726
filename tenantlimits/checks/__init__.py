"""System checks of the installation: what stops a newcomer, or would let somebody run unlimited by accident.

Settings, each by its name in TENANTLIMITS:
    E001 an unknown key, or no dict    E002 TENANT_RESOLVER       E003 DEFAULT_TIER
    E004 TIER_RESOLVER                 E005 USER_RESOLVER         E006 CREDENTIAL_RESOLVER
    E007 EXEMPT                        E008 ANONYMOUS_TIER        E009 TRUSTED_PROXIES
    E010 CACHE_ALIAS                   E011 STORE                 E012 KEY_PREFIX
    E013 LANES                         E014 DEFAULT_LANE          E015 CONNECT_TIMEOUT_SECONDS
    E016 STORE_TIMEOUT_SECONDS         E017 LEASE_SECONDS         E018 POLICY_BACKSTOP_SECONDS
    E019 RESPONSES                     E020 TIME_ZONE             E021 MAX_OVERRIDE_DAYS
    E022 REFUSAL_CACHE_SECONDS         E023 HELD_CONNECTIONS      E024 CLUSTER
    E025 POOLS
The project around them:
    E030 the middleware is missing     E031 it is there twice     E032 it stands before AuthenticationMiddleware
    E033 TenantThrottle without it     E034 USE_TZ is off         W035 CorsMiddleware stands after it
    E036 uWSGI runs no threads
    E040 CACHE_ALIAS is not in CACHES  E041 it is Django's own Redis cache
    E042 it is no Redis cache          W043 cache.clear() would empty it
    W044 STORE is "memory" in production                          E045 it makes no connections
    E050 a view names a lane that is in no setting
The rows, with `check --database default` and before each migrate:
    W060 a limit's lane is in no setting                          W061 DEFAULT_TIER has no row
    W062 ANONYMOUS_TIER has no row                                W063 a tier in use has no limits
    W064 a tier in use has no share of a pool                     W065 a share's pool is in no setting
    W066 a share is more than its pool has
    W070 some of a pool can never be used                         W071 the shares of a pool are more than twice of it
"""

from __future__ import annotations

from collections.abc import Callable

from django.core import checks
from django.core.checks import Tags

from tenantlimits.checks.installation import (
    AUTHENTICATION,
    CORS,
    MIDDLEWARE,
    SETTING_IDS,
    THROTTLE,
    Messages,
    check_cache,
    check_cache_is_our_own,
    check_cache_makes_connections,
    check_cors_is_outside,
    check_instants_have_a_zone,
    check_lanes_of_views,
    check_middleware_is_after_authentication,
    check_middleware_is_there,
    check_middleware_is_there_once,
    check_names,
    check_store_is_shared,
    check_threads_run,
    check_throttle_has_its_middleware,
    check_values,
)
from tenantlimits.checks.rows import (
    check_anonymous_tier_has_a_row,
    check_default_tier_has_a_row,
    check_lanes_of_limits,
    check_tiers_in_use_have_limits,
)
from tenantlimits.checks.shares import (
    check_pools_are_not_oversubscribed,
    check_pools_can_be_used,
    check_pools_of_shares,
    check_shares_fit_their_pools,
    check_tiers_in_use_have_shares,
)

__all__ = [
    "AUTHENTICATION",
    "CORS",
    "MIDDLEWARE",
    "ROW_CHECKS",
    "SETTINGS_CHECKS",
    "SETTING_IDS",
    "THROTTLE",
    "check_cache",
    "check_cache_makes_connections",
    "check_lanes_of_views",
    "check_names",
    "check_values",
    "register",
]

SETTINGS_CHECKS: tuple[Callable[..., Messages], ...] = (
    check_names,
    check_values,
    check_middleware_is_there,
    check_middleware_is_there_once,
    check_middleware_is_after_authentication,
    check_cors_is_outside,
    check_throttle_has_its_middleware,
    check_instants_have_a_zone,
    check_threads_run,
    check_cache,
    check_cache_makes_connections,
    check_cache_is_our_own,
    check_store_is_shared,
    check_lanes_of_views,
)
ROW_CHECKS: tuple[Callable[..., Messages], ...] = (
    check_lanes_of_limits,
    check_default_tier_has_a_row,
    check_anonymous_tier_has_a_row,
    check_tiers_in_use_have_limits,
    check_tiers_in_use_have_shares,
    check_pools_of_shares,
    check_shares_fit_their_pools,
    check_pools_can_be_used,
    check_pools_are_not_oversubscribed,
)


def register() -> None:
    """Register all of them; from the app's `ready`."""
    for check in SETTINGS_CHECKS:
        checks.register(check, "tenantlimits")
    for check in ROW_CHECKS:
        checks.register(check, "tenantlimits", Tags.database)
