"""A million tenants that come once and never again (C8)."""

from __future__ import annotations

import gc
import resource

from tenantlimits.domain.shares import PoolRules, Share
from tenantlimits.pools.process import ProcessPool

TENANTS = 1_000_000
GROWTH_KIB = 2_048
"""What the allocator may keep for itself."""


def test_the_process_keeps_nothing_of_them() -> None:
    """C8: no queue, no slot, no account; while somebody else's operation runs all along."""
    pool, share = ProcessPool("workers", PoolRules(capacity=4)), Share(1)
    stays = pool.acquire("acme", Share(2))
    for n in range(10_000):
        pool.acquire(f"warm-{n}", share).release()
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for n in range(TENANTS):
        pool.acquire(f"tenant-{n}", share).release()

    assert list(pool._pool._tenants) == ["acme"]
    assert not pool._pool._resting
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH_KIB
    stays.release()
