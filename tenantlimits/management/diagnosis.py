"""What the doctor looks at: each look answers findings, in words that say what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.checks import ERROR, CheckMessage
from django.db import connections, router
from django.db.utils import DatabaseError
from django.test import RequestFactory
from django.utils import timezone

from tenantlimits import checks
from tenantlimits.conf import NAME, conf
from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.domain.limits import Mode
from tenantlimits.management.findings import Finding, Findings, Health
from tenantlimits.management.server import store
from tenantlimits.models import Limit, Switch, Tier, UsageHour
from tenantlimits.models.choices import Layer
from tenantlimits.tenancy import checked
from tenantlimits.usage import total


def diagnose() -> Findings:
    """Every look in turn. What hangs on something that failed is not looked at."""
    yield from settings_checks()
    if checks.check_names() or checks.check_values():
        yield Finding(Health.FAIL, "The rest was not looked at.", "Mend the settings first.")
        return
    yield from resolver()
    yield from drf()
    yield from threads()
    if not checks.check_cache() and not checks.check_cache_makes_connections():
        yield from store()
    yield from rows()


def settings_checks() -> Findings:
    """Our system checks of the settings."""
    for check in checks.SETTINGS_CHECKS:
        yield from _of_check(check)


def _of_check(check: Callable[..., list[CheckMessage]], **options: object) -> Findings:
    messages = check(**options)
    if not messages:
        yield Finding(Health.OK, _TITLES.get(check.__name__) or _title(check.__name__))
    for message in messages:
        health = Health.FAIL if message.level >= ERROR else Health.WARN
        yield Finding(health, f"{message.msg} ({message.id})", str(message.hint or ""))


_TITLES = {
    "check_names": f"Every key of {NAME} is a setting.",
    "check_values": "Every setting has a value, and every function that one names can be imported.",
    "check_middleware_is_there": "TenantLimitsMiddleware is in MIDDLEWARE,",
    "check_middleware_is_there_once": "and only once,",
    "check_middleware_is_after_authentication": "after AuthenticationMiddleware where there is one.",
    "check_cors_is_outside": "Where there is a CorsMiddleware, refusals get its fields, too.",
    "check_throttle_has_its_middleware": "TenantThrottle does not stand without the middleware.",
    "check_instants_have_a_zone": "Instants have a time zone (USE_TZ).",
    "check_threads_run": "Threads are not turned off (uWSGI).",
    "check_cache": "The cache that keeps the state is one of django-redis,",
    "check_cache_makes_connections": "with options of which a connection can be made,",
    "check_cache_is_our_own": "in a database of its own.",
    "check_store_is_shared": "All processes share the state.",
    "check_lanes_of_views": "The lane of every view is in the settings.",
    "check_lanes_of_limits": "The lane of every limit is in the settings.",
    "check_default_tier_has_a_row": "DEFAULT_TIER has a row.",
    "check_anonymous_tier_has_a_row": "ANONYMOUS_TIER, where it names one, has a row.",
    "check_tiers_in_use_have_limits": "Every tier in use has limits.",
    "check_tiers_in_use_have_shares": "Every tier in use has a share of every pool,",
    "check_pools_of_shares": "the pool of every share is in the settings,",
    "check_shares_fit_their_pools": "and no share is more than its pool.",
    "check_pools_can_be_used": "All of every pool can be used.",
    "check_pools_are_not_oversubscribed": "The shares of those who come at once do not exceed a pool by far.",
}
"""What a check has found to be so where it finds nothing wrong."""


def _title(name: str) -> str:
    """For a check that is newer than these words."""
    return name.removeprefix("check_").replace("_", " ").capitalize() + "."


def resolver() -> Findings:
    """Whether TENANT_RESOLVER stands a caller who is not logged in, as most of a site's first requests are."""
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    try:
        tenant = conf.TENANT_RESOLVER(request)
        words = "answers None" if tenant is None else f"answers {checked(tenant, 'TENANT_RESOLVER')!r}"
    except TenantLimitsError as error:
        yield Finding(Health.FAIL, str(error), "Answer None for callers without a tenant.")
    except Exception as error:  # noqa: BLE001 - the host's code may raise anything, and that is the finding
        # Not a failure: it may need what its own middleware puts on a request.
        words = f"TENANT_RESOLVER raises {type(error).__name__} for a caller who is not logged in: {error}"
        yield Finding(Health.WARN, words, "Have it answer None there; else such requests end with status 500.")
    else:
        yield Finding(Health.OK, f"TENANT_RESOLVER {words} for a caller who is not logged in.")


def drf() -> Findings:
    """Whether DRF's views, where there are any, are limited before they run."""
    if "rest_framework" not in settings.INSTALLED_APPS:
        return
    if find_spec("rest_framework") is None:
        yield Finding(Health.FAIL, "INSTALLED_APPS has rest_framework, which is not installed.", "Install it.")
    elif checks.THROTTLE in getattr(settings, "REST_FRAMEWORK", {}).get("DEFAULT_THROTTLE_CLASSES", ()):
        yield Finding(Health.OK, "DRF's views ask TenantThrottle.")
    else:
        words = (
            "DEFAULT_THROTTLE_CLASSES of REST_FRAMEWORK lacks TenantThrottle: DRF's views run before they are charged."
        )
        yield Finding(Health.WARN, words, f"Add {checks.THROTTLE!r} there, or to every view.")


def threads() -> Findings:
    """Whether threads run here: one of them renews the leases of this process."""
    ran = threading.Event()
    threading.Thread(target=ran.set, daemon=True).start()
    if ran.wait(timeout=2):
        yield Finding(Health.OK, "Threads run here. Under uWSGI they do with enable-threads = true.")
    else:
        words = "Threads do not run here: slots of operations longer than LEASE_SECONDS would lapse."
        yield Finding(Health.FAIL, words, "Under uWSGI set enable-threads = true.")


def rows() -> Findings:
    """What the database holds."""
    using = router.db_for_read(Tier)
    try:
        tables = set(connections[using].introspection.table_names())
    except DatabaseError as error:
        yield Finding(Health.FAIL, f"Database {using!r} cannot be read ({error}).", "Correct DATABASES, or start it.")
        return
    if Tier._meta.db_table not in tables:
        yield Finding(Health.FAIL, f"Database {using!r} lacks our tables.", "Run manage.py migrate.")
        return
    for check in checks.ROW_CHECKS:
        yield from _of_check(check, databases=[using])
    for look in (switch, layers, anonymous, flushes):
        yield from look()


def switch() -> Findings:
    """The switch of the whole site."""
    row = Switch.current()
    if row.mode == Mode.ENFORCE:
        yield Finding(Health.OK, "The site's switch is at enforce.")
    else:
        words = f"The site's switch is at {row.mode}, so that nobody is refused anything: {row.reason}"
        yield Finding(Health.WARN, words, 'manage.py tenantlimits_switch enforce --reason "..."')


def layers() -> Findings:
    """Limits that count users or credentials, while nobody says who that is."""
    missing = {
        Layer.CREDENTIAL: ("CREDENTIAL_RESOLVER", conf.CREDENTIAL_RESOLVER is None),
        Layer.USER: ("USER_RESOLVER", conf.USER_RESOLVER is None and checks.AUTHENTICATION not in settings.MIDDLEWARE),
    }
    for layer, (setting, is_missing) in missing.items():
        limits = [str(limit) for limit in Limit.objects.filter(layer=layer).select_related("tier")]
        if limits and is_missing:
            words = (
                f"{', '.join(limits)}: counted for each {layer.value}, which nobody names, so that they limit nothing."
            )
            yield Finding(Health.WARN, words, f"Set {NAME}[{setting!r}]: a function of the request.")
        elif limits:
            yield Finding(Health.OK, f"Limits for each {layer.value} have somebody to count.")


def anonymous() -> Findings:
    """What callers without a tenant may do."""
    slug = conf.ANONYMOUS_TIER
    if slug is None:
        yield Finding(Health.OK, "Callers without a tenant are refused (ANONYMOUS_TIER is None).")
        return
    tier = Tier.objects.filter(slug=slug).first()
    if tier is None:
        return  # which a check has said
    if tier.mode == Mode.ENFORCE:
        yield Finding(Health.OK, f"Tier {slug} is enforced for callers without a tenant.")
        return
    since = timezone.now() - timedelta(days=7)
    seen = total(UsageHour.objects.filter(tenant__key="", start__gte=since))
    refused = sum(seen.observed_by.values())
    yield Finding(
        Health.WARN,
        f"Tier {slug} is at {tier.mode}: callers without a tenant are refused nothing. In the last 7 days it would "
        f"have refused {refused:,} of {seen.requests:,} requests.",
        "If those are floods rather than many people behind one address, set its mode to enforce in the admin.",
    )


def flushes() -> Findings:
    """Whether somebody writes usage down."""
    newest = UsageHour.objects.exclude(complete_until=None).order_by("-complete_until").first()
    if newest is None or newest.complete_until is None:
        words = "No usage has been written down yet."
        yield Finding(Health.WARN, words, _FLUSH)
        return
    age = timezone.now() - newest.complete_until
    words = f"Usage was last written down up to {newest.complete_until:%Y-%m-%d %H:%M} UTC."
    late = age > timedelta(hours=2)
    yield Finding(Health.WARN if late else Health.OK, words, _FLUSH if late else "")


_FLUSH = "Have cron run manage.py tenantlimits_flush every minute, or Celery's beat the task tenantlimits.flush_usage."
