"""A site with the tenant's own pages and API, the cast with their logins, and a store on a clock of the test's.

acme is noisy, bolt is quiet, cedar must never appear in anyone else's data, and nora belongs to no tenant.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.urls import include, path
from django.views.decorators.cache import cache_page

from tenantlimits.models import Limit, Tenant, Tier
from tenantlimits.views import usage

TENANTS = {"ann": "acme", "bob": "bolt", "cy": "cedar"}
LANES = {"reads": {}, "uploads": {"cost": 5}, "exports": {}}
SITE = {
    "ROOT_URLCONF": "tests.console",
    "LOGIN_URL": "/accounts/login/",
    "MIDDLEWARE": [
        "django.middleware.cache.UpdateCacheMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "tenantlimits.middleware.TenantLimitsMiddleware",
        "django.middleware.cache.FetchFromCacheMiddleware",
    ],
    "REST_FRAMEWORK": {
        "DEFAULT_AUTHENTICATION_CLASSES": [
            "rest_framework.authentication.SessionAuthentication",
            "rest_framework.authentication.BasicAuthentication",
        ],
        "DEFAULT_THROTTLE_CLASSES": ["tenantlimits.throttling.TenantThrottle"],
    },
}

urlpatterns = [
    path("limits/", include("tenantlimits.urls")),
    path("api/limits/", include("tenantlimits.api.urls")),
    path("cached/", cache_page(600)(usage)),
    path("accounts/login/", LoginView.as_view()),
]


def tenant_of(request: HttpRequest) -> str | None:
    """The tenant of the login; the suspended are not let in."""
    if request.user.is_authenticated and request.user.get_username() == "sue":
        raise PermissionDenied("Your organisation is suspended.")
    return TENANTS.get(request.user.get_username())


def settings_of(**more: Any) -> dict[str, Any]:
    """TENANTLIMITS of the site."""
    return {"TENANT_RESOLVER": "tests.console.tenant_of", "DEFAULT_TIER": "pro", "LANES": LANES, **more}


def cast() -> dict[str, User]:
    """The logins, their tenants, and the tier that these are on: pro, with a limit of every sort."""
    tier = Tier.objects.create(slug="pro", name="Pro")
    for name, lane, amount, options in (
        ("all-rate", "all", 20, {"period_seconds": 1, "burst": 60, "counts": "requests"}),
        ("reads-minute", "reads", 500, {"period_seconds": 60}),
        ("reads-day", "reads", 10_000, {"period_seconds": 86_400, "kind": "calendar_quota"}),
        ("uploads-rate", "uploads", 40, {"period_seconds": 60}),
        ("exports-cap", "exports", 2, {"kind": "concurrency"}),
        ("exports-user", "exports", 3, {"period_seconds": 3600, "layer": "user", "kind": "sliding_log"}),
    ):
        Limit.objects.create(tier=tier, name=name, lane=lane, amount=amount, **options)
    for key in TENANTS.values():
        Tenant.objects.create(key=key, name=key.title(), tier=tier)
    return {name: User.objects.create_user(name, password="secret") for name in (*TENANTS, "nora", "sue")}
