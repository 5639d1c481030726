"""Pools of the settings and shares in force: what follows from their numbers."""

from typing import Any

import pytest

from tenantlimits.domain.errors import InvalidShare
from tenantlimits.domain.pools import PoolSpec, ShareInForce, check_slots
from tenantlimits.domain.shares import Share

EXPORTS = PoolSpec(name="exports", capacity=10, queue=100)


@pytest.mark.parametrize(("own", "queue"), [(None, 100), (20, 20), (0, 0), (500, 100)])
def test_no_more_of_a_tenant_wait_than_share_and_pool_let(own: int | None, queue: int) -> None:
    """C4."""
    share = Share(slots=4, queue=own)

    assert ShareInForce(pool=EXPORTS, share=share, tier_share=share).queue == queue


def test_a_tier_that_does_not_say_gives_one_slot() -> None:
    """C5: so nobody starves."""
    one = ShareInForce(pool=EXPORTS, share=Share(slots=4), tier_share=None)

    assert (one.name, one.tier_slots, one.source) == ("exports-share", 1, "tier")


@pytest.mark.parametrize("slots", [0, 1, 10])
def test_a_share_is_at_most_the_pool(slots: int) -> None:
    check_slots(slots, pool=EXPORTS, name="share:exports")


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        (11, "share:exports: 11 slots are more than pool exports has for everyone: write at most 10"),
        (-1, "whole number of slots from 0 .none of its own. to 1,000,000, not -1"),
        (2.5, "not 2.5"),
        (True, "not True"),
        (None, "not None"),
    ],
)
def test_what_no_share_can_be_is_refused_with_what_to_write(slots: Any, words: str) -> None:
    with pytest.raises(InvalidShare, match=words):
        check_slots(slots, pool=EXPORTS, name="share:exports")


def test_of_a_pool_that_is_gone_nobody_knows_the_capacity() -> None:
    check_slots(1_000_000, pool=None, name="share:exports")
    with pytest.raises(InvalidShare):
        check_slots(1_000_001, pool=None, name="share:exports")
