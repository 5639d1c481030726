"""A server of its own for what takes the store away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from django.test import override_settings


@pytest.fixture
def own_store(own_valkey: str) -> Iterator[redis.Redis]:
    """The limits live on a server that nobody else uses; a client of it."""
    caches = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": own_valkey}}
    with override_settings(CACHES=caches), redis.Redis.from_url(own_valkey) as client:
        yield client
