"""Settings of a small site for real servers; the environment says on which database, store and limits (see servers.py).

TENANTLIMITS and the database come as JSON from the test, which uses the same ones itself.
"""

import json
import os

SECRET_KEY = "of-the-scenarios-only"
ALLOWED_HOSTS = ["127.0.0.1"]
DATABASES = {"default": json.loads(os.environ["SITE_DATABASE"])}
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["REDIS_URL"]}}
TENANTLIMITS = json.loads(os.environ["SITE_TENANTLIMITS"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "tenantlimits",
]
MIDDLEWARE = [
    "tests.scenarios.site.middleware.tell_decision",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tests.scenarios.site.middleware.authenticate",
    "tenantlimits.middleware.TenantLimitsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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
ROOT_URLCONF = "tests.scenarios.site.urls"
WSGI_APPLICATION = "tests.scenarios.site.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STATIC_URL = "static/"
USE_TZ = True
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tests.scenarios.site.middleware.ByToken"],
    "DEFAULT_THROTTLE_CLASSES": ["tenantlimits.throttling.TenantThrottle"],
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    # A refusal is no news here.
    "loggers": {"django.request": {"level": "ERROR"}},
}

# Token -> the tenant that it was given to.
TOKENS = {"token-of-acme": "acme", "token-of-bolt": "bolt", "token-of-cedar": "cedar"}
