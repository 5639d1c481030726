"""Why tenants wait, and what they hold over several processes."""

import pytest

from tenantlimits.domain.shares import PoolRules, Standing
from tenantlimits.domain.snapshots import Held, Snapshot, Why, held


def snapshot(*, capacity=10, lendable=1.0, opens_in=0.0, running=None, waiting=None, **standings) -> Snapshot:
    """`acme=(share, running, waiting)`; whoever waits has done so for 8 s."""
    found = {
        tenant: Standing(share, runs, waits, -8.0 if waits else None, 2.0)
        for tenant, (share, runs, waits) in standings.items()
    }
    return Snapshot(
        rules=PoolRules(capacity=capacity, lendable=lendable),
        running=sum(one.running for one in found.values()) if running is None else running,
        waiting=sum(one.waiting for one in found.values()) if waiting is None else waiting,
        standings=found,
        opens_in=opens_in,
    )


@pytest.mark.parametrize(
    ("why", "one"),
    [
        (None, snapshot(acme=(4, 6, 0))),
        (Why.SHARE_USED, snapshot(acme=(4, 6, 2), bolt=(4, 4, 1))),
        (Why.CAPACITY, snapshot(acme=(4, 3, 2), bolt=(4, 7, 0))),
        (Why.SHARE_TOO_SMALL, snapshot(lendable=0, acme=(4, 4, 12), bolt=(4, 1, 0))),
        (Why.SHARE_TOO_SMALL, snapshot(lendable=0.2, acme=(4, 5, 1), bolt=(1, 2, 0))),
        (Why.NEXT, snapshot(lendable=0.2, acme=(4, 4, 1), bolt=(1, 2, 0))),
        (Why.NEXT, snapshot(acme=(4, 3, 1))),
        (Why.OPENS_SOON, snapshot(lendable=0, opens_in=5, acme=(4, 4, 12))),
        (Why.SHARE_TOO_SMALL, snapshot(lendable=0, capacity=300, running=250, acme=(4, 4, 12))),
        (Why.NEXT, snapshot(lendable=1, capacity=300, running=250, acme=(4, 4, 12))),
    ],
)
def test_why_a_tenant_waits(why: Why | None, one: Snapshot) -> None:
    """V4: too small is a share only where slots are idle that nobody may have."""
    assert one.reasons().get("acme") is why


def test_a_tenant_of_several_processes_is_seen_where_most_of_it_runs_and_waits_in_all() -> None:
    parts = [
        snapshot(capacity=4, acme=(2, 3, 2), bolt=(1, 1, 0)),
        snapshot(capacity=4, acme=(2, 1, 0)),
        snapshot(capacity=4, lendable=0, acme=(2, 2, 10)),
    ]

    found = held(parts)

    acme = found["acme"]
    assert (acme.busiest.running, acme.running, acme.borrowed, acme.waiting) == (3, 6, 1, 12)
    assert (acme.oldest_wait, acme.estimate) == (8.0, 2.0)
    assert set(acme.reasons) == {Why.SHARE_USED, Why.SHARE_TOO_SMALL}
    assert (acme.why, acme.is_share_too_small) == (Why.SHARE_TOO_SMALL, True)
    assert found["bolt"].why is None
    assert "cedar" not in found


def test_who_holds_nothing_has_no_wait() -> None:
    nothing = Held()

    assert (nothing.running, nothing.borrowed, nothing.waiting, nothing.share) == (0, 0, 0, 0)
    assert (nothing.busiest.running, nothing.oldest_wait, nothing.estimate, nothing.why) == (0, None, 0.0, None)
    assert not nothing.is_share_too_small
