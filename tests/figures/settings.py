"""A site for the calls of R4: two sliding logs, in one lane and in a lane each. The environment says where it keeps."""

import os

SECRET_KEY = "only-for-measuring"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "tenantlimits"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["FIGURES_DATABASE"],
        "OPTIONS": {"timeout": 60},
    },
}
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["REDIS_URL"]}}

TENANTLIMITS = {
    "TENANT_RESOLVER": "tests.figures.calls.nobody",
    "DEFAULT_TIER": "figures",
    "LANES": {"both": {}, "second": {}, "three": {}},
    # A neighbour that takes the processor for a while is no outage.
    "STORE_TIMEOUT_SECONDS": 5,
    "CONNECT_TIMEOUT_SECONDS": 5,
}
