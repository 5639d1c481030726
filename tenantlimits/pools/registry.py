"""The pools that the settings name, each built when it is first used."""

from __future__ import annotations

import logging
import os
import threading

from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from tenantlimits.conf import conf
from tenantlimits.domain.pools import PoolSpec, Scope
from tenantlimits.engine.pools import StoreError
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.gate.store import stores
from tenantlimits.pools.fleet import FleetPool, FleetSlot
from tenantlimits.pools.process import ProcessPool, Slot

logger = logging.getLogger(__name__)

AnyPool = ProcessPool | FleetPool
AnySlot = Slot | FleetSlot


class _Pools:
    """The pools of this process, by name."""

    def __init__(self) -> None:
        self._is_prepared = False
        self.forget()

    def of(self, name: str) -> AnyPool:
        """A pool; UnknownPool with those there are. A capacity that has changed is in force from now on."""
        spec = conf.pool(name)
        known = self._built.get(name)
        if known is None:
            with self._lock:
                known = self._built[name] = self._built.get(name) or (spec, _built(spec))
        if known[0] != spec:
            known[1].change_rules(spec.rules)
            self._built[name] = (spec, known[1])
        return known[1]

    def built(self) -> dict[str, object]:
        """Those that have been used in this process, of whatever scope."""
        return {name: pool for name, (_spec, pool) in self._built.copy().items()}

    def prepare(self) -> None:
        """Let the store know the pools of the fleet, once: it learns of one for a lease before it gives slots of it."""
        if self._is_prepared:
            return
        try:
            for name, spec in conf.POOLS.items():
                pool = self.of(name) if spec.scope is Scope.FLEET else None
                if isinstance(pool, FleetPool):
                    pool.prepare()
        except (StoreError, ImproperlyConfigured) as error:
            # The next tick tries again; whoever uses a pool meets the trouble itself, and is told.
            logger.debug("The pools cannot be made known now (%s).", error)
            return
        self._is_prepared = True

    def forget(self) -> None:
        """Begin with empty pools: nothing runs in them in this process."""
        self._lock = threading.Lock()
        self._built: dict[str, tuple[PoolSpec, AnyPool]] = {}
        self._is_prepared = False


def _built(spec: PoolSpec) -> AnyPool:
    store = stores.engine
    if spec.scope is Scope.PROCESS or not isinstance(store, RedisEngine):
        return ProcessPool(spec.name, spec.rules)
    lease_seconds = spec.lease_seconds or conf.LEASE_SECONDS
    return FleetPool(
        spec.name, spec.rules, store=store, lease_seconds=lease_seconds, processes=lambda: stores.processes
    )


pools = _Pools()
os.register_at_fork(after_in_child=pools.forget)


def _forget(*, setting: str, **kwargs: object) -> None:
    if setting in ("TENANTLIMITS", "CACHES"):
        pools.forget()


setting_changed.connect(_forget, dispatch_uid="tenantlimits.pools.registry")
