"""The pools that the settings name, each built when it is first used."""

from __future__ import annotations

import os
import threading

from django.core.signals import setting_changed

from tenantlimits.conf import conf
from tenantlimits.domain.pools import PoolSpec
from tenantlimits.pools.process import ProcessPool

AnyPool = ProcessPool


class _Pools:
    """The pools of this process, by name."""

    def __init__(self) -> None:
        self.forget()

    def of(self, name: str) -> AnyPool:
        """A pool; UnknownPool with those there are. A capacity that has changed is in force from now on."""
        spec = conf.pool(name)
        known = self._built.get(name)
        if known is None or known[0].scope is not spec.scope:
            with self._lock:
                known = self._built[name] = self._built.get(name) or (spec, _built(spec))
        if known[0] != spec:
            known[1].change_rules(spec.rules)
            self._built[name] = (spec, known[1])
        return known[1]

    def built(self) -> dict[str, object]:
        """Those that have been used in this process, of whatever scope."""
        return {name: pool for name, (_spec, pool) in self._built.copy().items()}

    def forget(self) -> None:
        """Begin with empty pools: nothing runs in them in this process."""
        self._lock = threading.Lock()
        self._built: dict[str, tuple[PoolSpec, AnyPool]] = {}


def _built(spec: PoolSpec) -> AnyPool:
    return ProcessPool(spec.name, spec.rules)


pools = _Pools()
os.register_at_fork(after_in_child=pools.forget)


def _forget(*, setting: str, **kwargs: object) -> None:
    if setting in ("TENANTLIMITS", "CACHES"):
        pools.forget()


setting_changed.connect(_forget, dispatch_uid="tenantlimits.pools.registry")
