"""The site of the scenarios, which also tells what it met at its store; a run has tenants of its own for each fault."""

from tests.scenarios.site import settings as base
from tests.scenarios.site.settings import *  # noqa: F403

MIDDLEWARE = ["tests.chaos.site.middleware.tell_store", *base.MIDDLEWARE]
ROOT_URLCONF = "tests.chaos.site.urls"
TOKENS = {f"token-of-{who}-{n}": f"{who}-{n}" for who in ("acme", "bolt", "cedar") for n in range(1000)}
LOGGING = base.LOGGING | {"loggers": {"django.request": {"level": "CRITICAL"}}}  # one view is broken on purpose
