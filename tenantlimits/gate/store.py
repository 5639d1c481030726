"""The store that decides, built from the settings, and the one that stands in while it cannot be reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from tenantlimits.conf import Store, conf
from tenantlimits.engine.base import Engine
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.engine.redis import RedisEngine


def now_us() -> float:
    """This process's clock: only for stores in this process. The clock of record is the Redis server's."""
    return time.time() * 1_000_000


class _Stores:
    """The stores of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._named: Engine | None = None
        self._instead: Engine | None = None
        self.local = MemoryEngine(clock=now_us)

    @property
    def engine(self) -> Engine:
        """The store that the settings name, built at first use, unless another one decides instead."""
        engine = self._instead or self._named
        if engine is None:
            with self._lock:
                engine = self._named = _built()
        return engine

    def decide_by(self, engine: Engine | None) -> Engine | None:
        """Decide by another store from now on, or by the settings' again; answers what decided instead before."""
        before, self._instead = self._instead, engine
        return before

    def rebuild(self) -> None:
        """The settings name another store now; what was counted without one is forgotten, too."""
        self._named, self.local = None, MemoryEngine(clock=now_us)


def _built() -> Engine:
    if conf.STORE is Store.MEMORY:
        return MemoryEngine(clock=now_us, prefix=conf.KEY_PREFIX)
    from django_redis import get_redis_connection  # noqa: PLC0415 - a memory store needs no Redis installed

    try:
        client = get_redis_connection(conf.CACHE_ALIAS)
    except NotImplementedError as error:
        raise ImproperlyConfigured(
            f"CACHES[{conf.CACHE_ALIAS!r}] is not a django-redis cache: set its BACKEND to "
            "'django_redis.cache.RedisCache', or name another alias in TENANTLIMITS['CACHE_ALIAS']."
        ) from error
    connections = Connections(
        client.connection_pool,
        connect_seconds=conf.CONNECT_TIMEOUT_SECONDS,
        answer_seconds=conf.STORE_TIMEOUT_SECONDS,
    )
    return RedisEngine(connections, prefix=conf.KEY_PREFIX)


stores = _Stores()


@contextmanager
def engine_replaced(engine: Engine) -> Iterator[Engine]:
    """Decide by another store inside the block."""
    before = stores.decide_by(engine)
    try:
        yield engine
    finally:
        stores.decide_by(before)


def _rebuild(*, setting: str, **kwargs: object) -> None:
    if setting in ("TENANTLIMITS", "CACHES"):
        stores.rebuild()


setting_changed.connect(_rebuild, dispatch_uid="tenantlimits.gate.store")
