"""The wish for a slot, as a step that a thread or an event loop takes (see `gate.steps`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenantlimits.domain.errors import SlotRefused
from tenantlimits.domain.lanes import OnStoreFailure
from tenantlimits.domain.shares import Share
from tenantlimits.pools.fleet import FleetPool
from tenantlimits.pools.registry import AnyPool, AnySlot


@dataclass(frozen=True, slots=True)
class Wanted:
    """A slot of a pool, for which to wait so many seconds at most: a step.

    Of a fleet's pool, what to do without the store (to refuse is redis.RedisError), and the seconds after which a slot
    that is still held is lost.
    """

    pool: AnyPool
    tenant: str
    share: Share
    seconds: float
    on_store_failure: OnStoreFailure = OnStoreFailure.LOCAL
    max_hold: float | None = None

    def wait(self) -> AnySlot | SlotRefused:
        """The slot, or why there is none."""
        try:
            return self.pool.acquire(self.tenant, self.share, wait=self.seconds, **self._of_fleet())
        except SlotRefused as refused:
            return refused

    async def await_(self) -> AnySlot | SlotRefused:
        """The same from an event loop."""
        try:
            return await self.pool.aacquire(self.tenant, self.share, wait=self.seconds, **self._of_fleet())
        except SlotRefused as refused:
            return refused

    def _of_fleet(self) -> dict[str, Any]:
        if not isinstance(self.pool, FleetPool):
            return {}
        return {"on_store_failure": self.on_store_failure, "max_hold": self.max_hold}


def give_up(slot: AnySlot) -> None:
    """Give a slot back without waiting for anything: that of a fleet's pool with the next heartbeat."""
    slot.pool.drop(slot) if isinstance(slot.pool, FleetPool) else slot.release()
