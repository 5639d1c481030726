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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.module_loading import import_string

from tenantlimits.conf import NAME, Store, conf, suggestion, threads
from tenantlimits.domain.errors import UnknownLane
from tenantlimits.domain.limits import ALL_LANE
from tenantlimits.engine.breaker import Unwatched
from tenantlimits.gate.routes import View, lanes_named_by, view_name
from tenantlimits.gate.transport import transport
from tenantlimits.models import Limit, Override, Tenant, Tier

MIDDLEWARE = "tenantlimits.middleware.TenantLimitsMiddleware"
THROTTLE = "tenantlimits.throttling.TenantThrottle"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
CORS = "corsheaders.middleware.CorsMiddleware"

SETTING_IDS = {
    "TENANT_RESOLVER": "E002",
    "DEFAULT_TIER": "E003",
    "TIER_RESOLVER": "E004",
    "USER_RESOLVER": "E005",
    "CREDENTIAL_RESOLVER": "E006",
    "EXEMPT": "E007",
    "ANONYMOUS_TIER": "E008",
    "TRUSTED_PROXIES": "E009",
    "CACHE_ALIAS": "E010",
    "CLUSTER": "E024",
    "HELD_CONNECTIONS": "E023",
    "STORE": "E011",
    "KEY_PREFIX": "E012",
    "LANES": "E013",
    "DEFAULT_LANE": "E014",
    "CONNECT_TIMEOUT_SECONDS": "E015",
    "STORE_TIMEOUT_SECONDS": "E016",
    "LEASE_SECONDS": "E017",
    "POLICY_BACKSTOP_SECONDS": "E018",
    "REFUSAL_CACHE_SECONDS": "E022",
    "RESPONSES": "E019",
    "TIME_ZONE": "E020",
    "MAX_OVERRIDE_DAYS": "E021",
}

Messages = list[CheckMessage]


def register() -> None:
    """Register all of them; from the app's `ready`."""
    for check in SETTINGS_CHECKS:
        checks.register(check, "tenantlimits")
    for check in ROW_CHECKS:
        checks.register(check, "tenantlimits", Tags.database)


def check_names(**_kwargs: object) -> Messages:
    """E001: TENANTLIMITS is a dict, and each of its keys is a setting."""
    try:
        conf.refuse_unknown_names()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="tenantlimits.E001")]
    return []


def check_values(**_kwargs: object) -> Messages:
    """E002 to E024: each setting has a value that it can have."""
    return [Error(error, id=f"tenantlimits.{SETTING_IDS[name]}") for name, error in _wrong_values()]


def _wrong_values() -> Iterator[tuple[str, str]]:
    for name in SETTING_IDS:
        try:
            getattr(conf, name)
        except ImproperlyConfigured as error:
            # LANES holds DEFAULT_LANE, whose own check says what is wrong with it, as E001 does of a dict that is none.
            if str(error).startswith(f"{NAME}[{name!r}]"):
                yield name, str(error)


def check_middleware_is_there(**_kwargs: object) -> Messages:
    """E030: without the middleware no request is admitted, and none is given back."""
    if MIDDLEWARE in settings.MIDDLEWARE:
        return []
    hint = f"Add {MIDDLEWARE!r} after {AUTHENTICATION!r}.{suggestion(MIDDLEWARE, settings.MIDDLEWARE)}"
    return [Error("MIDDLEWARE lacks TenantLimitsMiddleware, so that nothing is limited.", hint, id="tenantlimits.E030")]


def check_middleware_is_there_once(**_kwargs: object) -> Messages:
    """E031: twice would open two records on one request."""
    if list(settings.MIDDLEWARE).count(MIDDLEWARE) < 2:
        return []
    return [
        Error("MIDDLEWARE has TenantLimitsMiddleware more than once.", "Keep the last one.", id="tenantlimits.E031")
    ]


def check_middleware_is_after_authentication(**_kwargs: object) -> Messages:
    """E032: before authentication every caller is anonymous."""
    if not _stands_before(MIDDLEWARE, AUTHENTICATION):
        return []
    return [
        Error(
            "TenantLimitsMiddleware stands before AuthenticationMiddleware, so that no request has a user yet.",
            f"Move {MIDDLEWARE!r} below {AUTHENTICATION!r} in MIDDLEWARE.",
            id="tenantlimits.E032",
        )
    ]


def check_cors_is_outside(**_kwargs: object) -> Messages:
    """W035: a refusal without CORS fields reaches a browser's script as a network error."""
    if not _stands_before(MIDDLEWARE, CORS):
        return []
    return [
        checks.Warning(
            "CorsMiddleware stands after TenantLimitsMiddleware, so that refusals carry no CORS fields.",
            f"Move {CORS!r} to the top of MIDDLEWARE.",
            id="tenantlimits.W035",
        )
    ]


def _stands_before(first: str, second: str) -> bool:
    order = list(settings.MIDDLEWARE)
    return first in order and second in order and order.index(first) < order.index(second)


def check_throttle_has_its_middleware(**_kwargs: object) -> Messages:
    """E033: TenantThrottle reads the record that the middleware opens on the request."""
    classes: Sequence[object] = getattr(settings, "REST_FRAMEWORK", {}).get("DEFAULT_THROTTLE_CLASSES", ())
    if THROTTLE not in classes or MIDDLEWARE in settings.MIDDLEWARE:
        return []
    return [
        Error(
            "REST_FRAMEWORK has TenantThrottle, which does nothing right without TenantLimitsMiddleware.",
            f"Add {MIDDLEWARE!r} to MIDDLEWARE, after {AUTHENTICATION!r}.",
            id="tenantlimits.E033",
        )
    ]


def check_instants_have_a_zone(**_kwargs: object) -> Messages:
    """E034: without time zones an override's end is ambiguous for an hour a year."""
    if settings.USE_TZ:
        return []
    return [
        Error(
            "USE_TZ is off, so that the end of an override is no instant.", "Set USE_TZ = True.", id="tenantlimits.E034"
        )
    ]


def check_threads_run(**_kwargs: object) -> Messages:
    """E036: uWSGI runs none unless it is told to. Only inside it can that be seen: a site refuses to start there."""
    try:
        threads.refuse_missing()
    except ImproperlyConfigured:
        return [Error(threads.WORDS, threads.REMEDY, id="tenantlimits.E036")]
    return []


def check_cache(**_kwargs: object) -> Messages:
    """E040 to E042: while STORE is "redis", CACHE_ALIAS is a cache of django-redis."""
    alias = _alias()
    if alias is None:
        return []
    if alias not in settings.CACHES:
        return [
            Error(
                f"CACHES has no {alias!r}, which {NAME}['CACHE_ALIAS'] names.",
                _cache_hint(alias),
                id="tenantlimits.E040",
            )
        ]
    modules = _modules(str(settings.CACHES[alias].get("BACKEND")))
    if "django_redis.cache" in modules:
        return []
    if "django.core.cache.backends.redis" in modules:
        words = f"CACHES[{alias!r}] is Django's own Redis cache, which does not lend its connection."
        return [Error(words, _cache_hint(alias), id="tenantlimits.E041")]
    words = f"CACHES[{alias!r}] is no Redis cache: every process would count for itself."
    return [Error(words, _cache_hint(alias), id="tenantlimits.E042")]


def _alias() -> str | None:
    """CACHE_ALIAS, while state lives there; where the settings are wrong, their own checks say so."""
    try:
        return conf.CACHE_ALIAS if conf.STORE is Store.REDIS else None
    except ImproperlyConfigured:
        return None


def _modules(backend: str) -> set[str]:
    """The modules of the class and of what it is built on."""
    try:
        return {base.__module__ for base in import_string(backend).__mro__}
    except ImportError:
        return set()


def _cache_hint(alias: str) -> str:
    options = settings.CACHES.get(alias, {})
    location = options.get("LOCATION") if "redis" in str(options.get("BACKEND")) else None
    return (
        f'Write in CACHES[{alias!r}]: "BACKEND": "django_redis.cache.RedisCache", '
        f'"LOCATION": {location or "redis://127.0.0.1:6379/1"!r}.'
    )


def check_cache_makes_connections(**_kwargs: object) -> Messages:
    """E045: its options are such that a connection can be made; no server is asked."""
    if _alias() is None or check_names() or check_values() or check_cache():
        return []
    try:
        transport(Unwatched())
    except ImproperlyConfigured as error:
        hint = f"Correct CACHES[{conf.CACHE_ALIAS!r}]: we connect by its LOCATION and OPTIONS, as django-redis does."
        return [Error(str(error), hint, id="tenantlimits.E045")]
    return []


def check_cache_is_our_own(**_kwargs: object) -> Messages:
    """W043: `cache.clear()` empties the whole database, whatever the key prefix."""
    alias = _alias()
    if alias is None or alias not in settings.CACHES:
        return []
    location = settings.CACHES[alias].get("LOCATION")
    sharing = [name for name, other in settings.CACHES.items() if name != alias and other.get("LOCATION") == location]
    if alias != "default" and not sharing:
        return []
    return [
        checks.Warning(
            f"Limits and the cache {(sharing or [alias])[0]!r} share a database, which cache.clear() empties: "
            "what tenants have used would be forgotten.",
            f"Give limits an alias and a database of their own (redis://127.0.0.1:6379/1), as {NAME}['CACHE_ALIAS'].",
            id="tenantlimits.W043",
        )
    ]


def check_store_is_shared(**_kwargs: object) -> Messages:
    """W044: the memory store counts in each process for itself."""
    try:
        if conf.STORE is Store.REDIS or settings.DEBUG:
            return []
    except ImproperlyConfigured:
        return []
    words = f"{NAME}['STORE'] is 'memory': every process counts for itself, so that N workers allow N times the limit."
    return [checks.Warning(words, "It is meant for tests: take it out, or write 'redis'.", id="tenantlimits.W044")]


def check_lanes_of_views(**_kwargs: object) -> Messages:
    """E050: a view in an unknown lane would answer nothing but errors."""
    if not getattr(settings, "ROOT_URLCONF", None) or check_values():
        return []
    return [
        Error(f"{view_name(view)}: {error}", id="tenantlimits.E050")
        for view in _views(get_resolver().url_patterns)
        for lane in sorted(lanes_named_by(view))
        for error in _unknown_lane(lane)
    ]


def _views(patterns: Sequence[URLPattern | URLResolver]) -> Iterator[View]:
    for one in patterns:
        if isinstance(one, URLResolver):
            yield from _views(one.url_patterns)
        else:
            yield one.callback


def _unknown_lane(lane: str) -> list[UnknownLane]:
    try:
        conf.lane(lane)
    except UnknownLane as error:
        return [error]
    return []


def check_lanes_of_limits(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W060: a limit whose lane no setting names is never asked."""
    return [
        checks.Warning(
            f"Limit {name} of tier {tier} is in lane {lane!r}, which is not in {NAME}['LANES']: it limits nothing.",
            f"Add the lane there, or move the limit.{suggestion(lane, conf.LANES)}",
            id="tenantlimits.W060",
        )
        for alias in _ready(databases)
        for tier, name, lane in Limit.objects.using(alias)
        .exclude(lane__in=[ALL_LANE, *conf.LANES])
        .values_list("tier__slug", "name", "lane")
    ]


def check_default_tier_has_a_row(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W061: until it has, its tenants are counted but not limited."""
    return [
        _missing_tier(conf.DEFAULT_TIER, "DEFAULT_TIER: its tenants", "W061")
        for alias in _ready(databases)
        if not Tier.objects.using(alias).filter(slug=conf.DEFAULT_TIER).exists()
    ]


def check_anonymous_tier_has_a_row(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W062: until it has, callers without a tenant are counted but not limited."""
    return [
        _missing_tier(conf.ANONYMOUS_TIER, "ANONYMOUS_TIER: callers without a tenant", "W062")
        for alias in _ready(databases)
        if conf.ANONYMOUS_TIER and not Tier.objects.using(alias).filter(slug=conf.ANONYMOUS_TIER).exists()
    ]


def _missing_tier(slug: str | None, whose: str, number: str) -> CheckMessage:
    return checks.Warning(
        f"There is no tier {slug!r}, which is {whose} are counted but not limited.",
        f"Make it in the admin, under Tiers; or in a shell by Tier.objects.create(slug={slug!r}), and its limits.",
        id=f"tenantlimits.{number}",
    )


def check_tiers_in_use_have_limits(databases: Sequence[str] | None = None, **_kwargs: object) -> Messages:
    """W063: the tenants of a tier without limits are unlimited."""
    return [
        checks.Warning(
            f"Tier {tier.slug} has no limits, so that its tenants are unlimited.",
            "Give it limits; where its tenants shall be unlimited, one that says so.",
            id="tenantlimits.W063",
        )
        for alias in _ready(databases)
        for tier in Tier.objects.using(alias).filter(limits=None)
        if tier.is_in_use()
    ]


def _ready(databases: Sequence[str] | None) -> list[str]:
    """Those of the databases that keep our tables, and have them by now: `migrate` checks before it makes them.

    None while a setting is wrong, which its own check says.
    """
    if check_names() or check_values():
        return []
    ours = [alias for alias in databases or () if router.allow_migrate_model(alias, Tier)]
    tables = {model._meta.db_table for model in (Tier, Limit, Tenant, Override)}
    return [alias for alias in ours if tables <= set(connections[alias].introspection.table_names())]


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
)
