"""A site with nothing but a trivial view. REDIS_URL names the store, BENCH_DATABASE a SQLite file."""

import os

SECRET_KEY = "only-for-measuring"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "tests.benchmarks.site.views"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "rest_framework", "tenantlimits"]
MIDDLEWARE: list[str] = []  # each application has its own, see application.py
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["BENCH_DATABASE"], "CONN_MAX_AGE": None},
}
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["REDIS_URL"]}}

TENANTLIMITS = {
    "TENANT_RESOLVER": "tests.benchmarks.site.views.tenant_of",
    "DEFAULT_TIER": "bench",
    "LANES": {"reads": {}, "rates": {}, "tight": {}},
    # A neighbour that takes the processor for a while is no outage.
    "STORE_TIMEOUT_SECONDS": 5,
    "CONNECT_TIMEOUT_SECONDS": 5,
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "UNAUTHENTICATED_USER": None,
}

# The peers' own settings.
RATELIMIT_PLUS = {"REDIS_URL": os.environ["REDIS_URL"]}
RATELIMIT_REDIS = {"url": os.environ["REDIS_URL"]}
TRAFFICWATCH = {"BACKEND": "redis", "KEY_FUNC": "tests.benchmarks.site.views.tenant_of"}
LOGGING_CONFIG = None
