"""A store that a test takes away and gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

DEAD = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
"""CACHES with a port where nobody listens."""


@contextmanager
def paused(url: str) -> Iterator[None]:
    """A server that reads what it is sent and answers no write and no script, as if it were stopped."""
    with redis.Redis.from_url(url) as client:
        client.client_pause(60_000, all=False)
        try:
            yield
        finally:
            client.client_unpause()
