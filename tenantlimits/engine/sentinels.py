"""Where the master is now, as the sentinels of a pool know it."""

from __future__ import annotations

from collections.abc import Mapping

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool


class Sentinels:
    """The sentinels of a pool, each asked with our bounds on waiting: redis-py would wait for ever, and try again.

    `bounds` are redis-py's options. Many threads may ask at once, for which redis-py's own order of them is not made.
    """

    def __init__(self, pool: SentinelConnectionPool, bounds: Mapping[str, float]) -> None:
        self._service: str = pool.service_name
        self._each = [_alone(client, pool.sentinel_manager, bounds) for client in pool.sentinel_manager.sentinels]

    def master(self) -> tuple[str, int]:
        """Host and port of the master; redis.ConnectionError where no sentinel names one. Who knew is asked first."""
        asked = self._each
        for number, sentinel in enumerate(asked):
            try:
                host, port = sentinel.discover_master(self._service)  # type: ignore[no-untyped-call]  # it has no types
            except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError):
                continue
            if number:
                self._each = [sentinel, *asked[:number], *asked[number + 1 :]]
            return host, port
        raise MasterNotFoundError(f"None of {len(asked)} sentinels names a master of {self._service!r}.")


def _alone(client: redis.Redis, manager: Sentinel, bounds: Mapping[str, float]) -> Sentinel:
    """One sentinel, with what the alias says of all of them."""
    pool = client.connection_pool
    options = {**pool.connection_kwargs, **bounds, "retry": Retry(NoBackoff(), 0)}
    alone = Sentinel([], manager.min_other_sentinels)  # type: ignore[no-untyped-call]  # redis-py has no types for it
    alone._force_master_ip = getattr(manager, "_force_master_ip", None)
    alone.sentinels = [redis.Redis(connection_pool=redis.ConnectionPool(pool.connection_class, **options))]
    return alone
