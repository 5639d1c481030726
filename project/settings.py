"""Settings of the demo; the environment has DATABASE_URL, REDIS_URL, SECRET_KEY, ALLOWED_HOSTS, CONN_MAX_AGE, DEBUG."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import django

BASE_DIR = Path(__file__).resolve().parent.parent

# Public, so for the demo only: whoever knows the key can sign a session.
SECRET_KEY = os.environ.get("SECRET_KEY", "insecure-demo-key-" + "0" * 40)
DEBUG = os.environ.get("DEBUG") == "1"
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "tenantlimits",
    "project.portal",
]

MIDDLEWARE = [
    "project.portal.middleware.stamp_arrival",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "tenantlimits.middleware.TenantLimitsMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

# Everything comes from this site, and nothing is inline. Django has the policy since 6.0.
if django.VERSION >= (6, 0):
    MIDDLEWARE.insert(2, "django.middleware.csp.ContentSecurityPolicyMiddleware")
    SECURE_CSP = {
        "default-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "object-src": ["'none'"],
    }

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
ASGI_APPLICATION = "project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def sqlite(name: str) -> dict[str, Any]:
    """A SQLite file that several processes can write: readers go on, and a writer waits for its turn, up to 20 s."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": {
            "timeout": 20,
            # A transaction that starts as a reader and then writes fails at once, whatever the timeout.
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def postgresql(url: str) -> dict[str, Any]:
    """The database of `postgres://user:password@host:port/name`."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ValueError(f"DATABASE_URL starts with {parts.scheme!r}: write postgres://user:password@host:port/name")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.removeprefix("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": parts.port or "",
    }


DATABASE_URL = os.environ.get("DATABASE_URL")
DEMO_DATABASE = os.environ.get("DEMO_DATABASE", str(BASE_DIR / "project" / "demo.sqlite3"))
DATABASES = {
    "default": (postgresql(DATABASE_URL) if DATABASE_URL else sqlite(DEMO_DATABASE))
    # Seconds that a thread keeps its connection: for servers whose threads stay, such as gunicorn's.
    | {"CONN_MAX_AGE": int(os.environ.get("CONN_MAX_AGE", "0"))},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
    },
}

TENANTLIMITS = {
    "TENANT_RESOLVER": "project.tenancy.tenant_of",
    "USER_RESOLVER": "project.tenancy.user_of",
    "CREDENTIAL_RESOLVER": "project.tenancy.credential_of",
    "DEFAULT_TIER": "free",
    # The demo floods itself on one machine, where a store that waits for its turn is no outage.
    "STORE_TIMEOUT_SECONDS": 1,
    "LANES": {
        # Everyday pages go on, counted by each process for itself.
        "reads": {"on_store_failure": "local"},
        "uploads": {"on_store_failure": "local"},
        # Exports are what would bring the site down: without the store that counts them, none are begun.
        "exports": {"on_store_failure": "refuse"},
        # Third parties send a lost webhook again, or never; what they do is not the tenant's doing.
        "webhooks": {"counts_in_all": False, "on_store_failure": "allow"},
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "project.portal.credentials.KeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["tenantlimits.throttling.TenantThrottle"],
    # DRF's browsable pages have inline scripts, which the policy above forbids.
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
}

# What the portal's work takes. It waits, as views do for their database; nothing is computed.
PORTAL_READ_SECONDS = 0.03
PORTAL_EXPORT_SECONDS = 2.0

LOGIN_URL = "portal:login"
LOGIN_REDIRECT_URL = "portal:home"
LOGOUT_REDIRECT_URL = "portal:landing"

# A refusal is an answer, which usage counts; as a warning for each of them a flood would fill the log.
LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"django.request": {"level": "ERROR"}}}

STATIC_URL = "static/"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]
TIME_ZONE = "UTC"
