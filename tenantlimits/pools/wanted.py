"""The wish for a slot, as a step that a thread or an event loop takes (see `gate.steps`)."""

from __future__ import annotations

from dataclasses import dataclass

from tenantlimits.domain.errors import SlotRefused
from tenantlimits.domain.shares import Share
from tenantlimits.pools.process import Slot
from tenantlimits.pools.registry import AnyPool


@dataclass(frozen=True, slots=True)
class Wanted:
    """A slot of a pool, for which to wait so many seconds at most: a step."""

    pool: AnyPool
    tenant: str
    share: Share
    seconds: float

    def wait(self) -> Slot | SlotRefused:
        """The slot, or why there is none."""
        try:
            return self.pool.acquire(self.tenant, self.share, wait=self.seconds)
        except SlotRefused as refused:
            return refused

    async def await_(self) -> Slot | SlotRefused:
        """The same from an event loop."""
        try:
            return await self.pool.aacquire(self.tenant, self.share, wait=self.seconds)
        except SlotRefused as refused:
            return refused
