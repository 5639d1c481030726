"""The published experiments, in virtual time: 1 ms of slack for what a loop rounds."""

from __future__ import annotations

import asyncio

import pytest

from tenantlimits.domain.shares import PoolRules, Share
from tests.pools import floods, virtual
from tests.pools.floods import Arrival, Outcome, pool_of

SLACK_MS = 1.0


def outcome(
    arrivals: list[Arrival], capacity: int, shares: tuple[int, int], *, lendable: float, wait: float = 60.0
) -> Outcome:
    async def scenario() -> Outcome:
        rules = PoolRules(capacity=capacity, lendable=lendable)
        mine = dict(zip(("noisy", "quiet"), map(Share, shares), strict=True))
        return await floods.run(arrivals, pool_of(rules, mine, wait=wait))

    return virtual.run(scenario())


def shared(arrivals: list[Arrival], capacity: int) -> Outcome:
    """The plain way: one semaphore, first come, first served."""

    async def scenario() -> Outcome:
        semaphore = asyncio.Semaphore(capacity)
        return await floods.run(arrivals, lambda _: semaphore)

    return virtual.run(scenario())


def test_one_queue_for_all_makes_the_quiet_tenant_wait_for_the_flood() -> None:
    """C1: what there is without shares; published 982 ms."""
    assert shared(floods.flood(), 10).median_ms("quiet") == pytest.approx(970, abs=10)


def test_a_hard_cap_keeps_the_flood_in_its_lane() -> None:
    """C1: a share of 6 each and nothing lent; published 30 ms, 1.70 s."""
    found = outcome(floods.flood(), 10, (6, 6), lendable=0)

    assert found.median_ms("quiet") <= 30 + SLACK_MS
    assert found.ended_at["noisy"] <= 1.70 + SLACK_MS / 1000


def test_lending_idle_shares_costs_the_quiet_tenant_one_operation_and_the_flood_nothing() -> None:
    """C2: shares 6 and 4, all of it lent; published 57 ms, 1.08 s of 1.03 s."""
    found, uncapped = outcome(floods.flood(), 10, (6, 4), lendable=1), shared(floods.flood(), 10)

    assert found.median_ms("quiet") <= 57 + SLACK_MS
    assert found.ended_at["noisy"] <= 1.05 * uncapped.ended_at["noisy"]


def test_bulkheads() -> None:
    """C3: published 9,558 ms; 20 ms, 21 ms at worst; rejecting serves 10 and refuses 190."""
    assert shared(floods.bulkhead(), 20).median_ms("quiet") == pytest.approx(9550, abs=50)

    apart = outcome(floods.bulkhead(), 20, (10, 10), lendable=0)
    assert apart.median_ms("quiet") == pytest.approx(20, abs=SLACK_MS)
    assert apart.worst_ms("quiet") <= 20 + SLACK_MS

    rejecting = outcome(floods.bulkhead(), 20, (10, 10), lendable=0, wait=0)
    assert (len(rejecting.times["noisy"]), rejecting.refused["noisy"], rejecting.refused["quiet"]) == (10, 190, 0)


def test_a_lone_tenant_uses_the_whole_pool_and_is_back_at_its_share_within_one_operation() -> None:
    """C2."""
    found = outcome(floods.second_comer(), 10, (5, 5), lendable=1)
    second = min(one.came for one in found.spans["quiet"])

    assert found.most_running("noisy", before=second) == 10
    assert found.back_ms("noisy", 5, since=second) <= 20 + SLACK_MS
    later = [one.began for one in found.spans["noisy"] if 0.125 < one.began < 0.180]
    assert max(found.running("noisy", at) for at in later) <= 5
