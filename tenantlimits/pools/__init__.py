"""Pools: shared resources with a capacity, in which each tenant has a share and idle shares are lent.

    with slot("reports-db"):           # one slot, for any shared dependency; waits in turn, in a bounded queue
        ...
    async with aslot("reports-db"):    # the same from an event loop

Which pools there are is a setting, POOLS; what each tenant has of them is in its tier and its overrides.
"""

from tenantlimits.gate.keeper import at_each_tick, held_in_pools
from tenantlimits.pools.fleet import FleetSlot
from tenantlimits.pools.holding import aslot, slot
from tenantlimits.pools.process import Slot
from tenantlimits.pools.registry import pools
from tenantlimits.pools.reports import own_report

__all__ = ["FleetSlot", "Slot", "aslot", "slot"]

held_in_pools.append(own_report)
at_each_tick.append(pools.prepare)
