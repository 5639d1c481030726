"""The store that decides, built from the settings, and the one that stands in while it cannot be reached."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.signals import setting_changed

from tenantlimits.conf import Store, conf
from tenantlimits.engine.base import Engine, Tally
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.engine.redis import RedisEngine
from tenantlimits.gate.health import Health
from tenantlimits.gate.keeper import Keeper
from tenantlimits.gate.outcomes import Outcomes
from tenantlimits.gate.refusals import Refusals
from tenantlimits.gate.transport import transport


def now_us() -> float:
    """This process's clock: only for stores in this process. The clock of record is the Redis server's."""
    return time.time() * 1_000_000


class _Stores:
    """The stores of this process, and what it knows of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instead: Engine | None = None
        self._begin()

    def _begin(self) -> None:
        self._named: Engine | None = None
        self._keeper: Keeper | None = None
        self.local = MemoryEngine(clock=now_us)
        self.refusals = Refusals()
        self.health = Health()
        self.outcomes = Outcomes()

    @property
    def engine(self) -> Engine:
        """The store that the settings name, built at first use, unless another one decides instead."""
        engine = self._instead or self._named
        if engine is None:
            with self._lock:
                engine = self._named = self._named or self._built()
        return engine

    @property
    def processes(self) -> int:
        """How many processes shared the store when it was last reached; a usual number where it never was."""
        known = self._keeper.processes if self._keeper else None
        return known or os.cpu_count() or 1

    @property
    def own_id(self) -> bytes | None:
        """What this process is known by to those that share the store; None where it shares none."""
        return self._keeper.id if self._keeper and self._instead is None else None

    @property
    def repeats_refusals(self) -> bool:
        """Whether asking the store again would cost a round trip."""
        return self._keeper is not None and self._instead is None

    def count(self, tally: Tally) -> None:
        """Count refusals of which the store knows nothing: soon where that is a round trip, else at once."""
        if self.repeats_refusals:
            self.refusals.owe([tally])
        else:
            self.engine.run(tally)

    def decide_by(self, engine: Engine | None) -> Engine | None:
        """Decide by another store from now on, or by the settings' again; answers what decided instead before."""
        before, self._instead = self._instead, engine
        return before

    def validate(self) -> None:
        """ImproperlyConfigured where the settings name no way to a store; nothing is connected yet."""
        if self._instead is None and conf.STORE is Store.REDIS:
            transport(self.health)

    def rebuild(self) -> None:
        """The settings name another store now; what was counted without one is handed to the one before."""
        self.settle()
        self._begin()

    def settle(self) -> None:
        """Tell the store what it does not know yet: this process ends, or uses it no more."""
        if self._keeper is not None:
            self._keeper.stop()

    def forget(self) -> None:
        """A forked child has none of its parent's connections, threads and counts."""
        self._lock = threading.Lock()
        self._begin()

    def _built(self) -> Engine:
        if conf.STORE is Store.MEMORY:
            return MemoryEngine(clock=now_us, prefix=conf.KEY_PREFIX)
        engine = RedisEngine(transport(self.health), prefix=conf.KEY_PREFIX)
        self._keeper = Keeper(engine, self.local, self.refusals)
        self._keeper.start()
        return engine


stores = _Stores()
os.register_at_fork(after_in_child=stores.forget)
atexit.register(stores.settle)


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
