"""What the pools hold now, in all processes, for people to look at.

What this process holds it sees itself; of the others it has what they told the store within the last seconds. A fleet's
pool is in the store. Without the store there is nothing to be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tenantlimits.conf import conf
from tenantlimits.domain.pools import PoolSpec
from tenantlimits.domain.snapshots import Held, Snapshot, held
from tenantlimits.engine.base import Reports
from tenantlimits.engine.pools import StoreError
from tenantlimits.gate.store import stores
from tenantlimits.pools.fleet import FleetPool
from tenantlimits.pools.registry import pools
from tenantlimits.pools.reports import own_snapshots, snapshots_in


@dataclass(frozen=True, kw_only=True)
class PoolNow:
    """A pool over all tenants. `is_shared`: its slots are the fleet's; else each of `processes` has so many.

    `parts` are what it holds, by process; of the fleet's that is one. `is_known` False: the store is away.
    """

    spec: PoolSpec
    is_shared: bool
    parts: tuple[Snapshot, ...] = ()
    processes: int = field(default=1)
    is_known: bool = field(default=True)

    @property
    def running(self) -> int:
        """How many run, in all processes."""
        return sum(one.running for one in self.parts)

    @property
    def waiting(self) -> int:
        """How many wait, in all processes."""
        return sum(one.waiting for one in self.parts)

    @property
    def is_cut(self) -> bool:
        """Whether there are tenants of which nothing is known, since others have more."""
        return any(one.is_cut for one in self.parts)

    @property
    def opens_in(self) -> float:
        """Seconds until the store, which has begun anew, gives out slots again; 0 where it does."""
        return max((one.opens_in for one in self.parts), default=0.0)

    @cached_property
    def tenants(self) -> Mapping[str, Held]:
        """What each tenant holds."""
        return held(self.parts)

    def held_by(self, tenant: str) -> Held | None:
        """What one tenant holds; None where nobody knows."""
        if not self.is_known:
            return None
        found = self.tenants.get(tenant)
        return found if found or self.is_cut else Held()


def pools_now(specs: Iterable[PoolSpec] | None = None) -> dict[str, PoolNow]:
    """What these pools hold now, or all that the settings name."""
    found = [(spec, _pool(spec)) for spec in (conf.POOLS.values() if specs is None else specs)]
    shared = {spec.name: _shared(spec, pool) for spec, pool in found if isinstance(pool, FleetPool)}
    processes = _processes() if len(shared) < len(found) else None
    return {spec.name: shared.get(spec.name) or _own(spec, processes) for spec, _one in found}


def fleet_pool(name: str) -> FleetPool | None:
    """The pool, where all processes share it; UnknownPool where no setting names it."""
    pool = _pool(conf.pool(name))
    return pool if isinstance(pool, FleetPool) else None


def _pool(spec: PoolSpec) -> object:
    return pools.of(spec.name)


@dataclass(frozen=True, slots=True)
class _Processes:
    """What the pools of each process hold, by name."""

    number: int
    snapshots: tuple[Mapping[str, Snapshot], ...]
    is_known: bool = True


def _processes() -> _Processes:
    """This process, as it is now, and the others, as they were."""
    mine = own_snapshots()
    try:
        told = stores.engine.run(Reports())
    except StoreError:
        return _Processes(1, (mine,), is_known=False)
    others = [snapshots_in(one.held, age=one.age) for one in told.reports if one.process != stores.own_id]
    return _Processes(max(1, told.processes), (mine, *others))


def _own(spec: PoolSpec, processes: _Processes | None) -> PoolNow:
    assert processes is not None, "a pool of each process is known by what these said"
    parts = tuple(one[spec.name] for one in processes.snapshots if spec.name in one)
    return PoolNow(spec=spec, is_shared=False, parts=parts, processes=processes.number, is_known=processes.is_known)


def _shared(spec: PoolSpec, pool: FleetPool) -> PoolNow:
    try:
        return PoolNow(spec=spec, is_shared=True, parts=(pool.snapshot(),))
    except StoreError:
        return PoolNow(spec=spec, is_shared=True, is_known=False)
