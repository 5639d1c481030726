"""Leases of a cap: members with a deadline each, never a counter. Times are microseconds."""

from __future__ import annotations

Deadlines = dict[bytes, float]
"""Deadline of each lease, in the order of the deadlines."""


def live(leases: Deadlines, now_us: float, lease_us: int) -> Deadlines:
    """The leases that have not lapsed; none of them lives longer than a lease, also where the clock stepped back."""
    return {lease: min(deadline, now_us + lease_us) for lease, deadline in leases.items() if deadline > now_us}


def renewed(
    leases: Deadlines, lease: bytes, *, deadline: float, again_below: float | None, now_us: float
) -> tuple[Deadlines, bool]:
    """The leases with one's deadline moved, and whether it is held.

    A lease that has gone is taken again only where fewer than `again_below` others are held; None: never.
    """
    others = {other: min(until, deadline) for other, until in leases.items() if until > now_us and other != lease}
    is_held = leases.get(lease, 0.0) > now_us or (again_below is not None and len(others) < again_below)
    return (others | {lease: deadline} if is_held else others), is_held
