"""What stands in the settings, and around them: each check finds one mistake, and says what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.module_loading import import_string

from tenantlimits.conf import NAME, Store, conf, suggestion, threads
from tenantlimits.domain.errors import UnknownLane
from tenantlimits.engine.breaker import Unwatched
from tenantlimits.gate.routes import View, lanes_named_by, view_name
from tenantlimits.gate.transport import transport

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
    "POOLS": "E025",
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


def check_names(**_kwargs: object) -> Messages:
    """E001: TENANTLIMITS is a dict, and each of its keys is a setting."""
    try:
        conf.refuse_unknown_names()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="tenantlimits.E001")]
    return []


def check_values(**_kwargs: object) -> Messages:
    """E002 to E025: each setting has a value that it can have."""
    return [Error(error, id=f"tenantlimits.{SETTING_IDS[name]}") for name, error in _wrong_values()]


def _wrong_values() -> Iterator[tuple[str, str]]:
    for name in SETTING_IDS:
        try:
            getattr(conf, name)
        except ImproperlyConfigured as error:
            # LANES holds DEFAULT_LANE and POOLS, whose own checks say what is wrong with them, as E001 does of no dict.
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
    if not getattr(settings, "ROOT_URLCONF", None) or check_names() or check_values():
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
