"""The harness compares what it says it compares. Nothing is timed here but by a call that counts."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from tests.benchmarks.harness import AsyncCase, Case, Timing, median_ratio


def test_every_call_has_its_preparation_before_it() -> None:
    seen: list[str] = []

    Case(lambda: seen.append("call"), lambda: seen.append("prepare")).run(2)

    assert seen == ["prepare", "call", "prepare", "call"]


def test_an_event_loop_awaits_one_call_after_another() -> None:
    under_way = []

    async def call() -> None:
        under_way.append(len(under_way))
        await asyncio.sleep(0)
        assert under_way.pop() == 0

    with closing(asyncio.new_event_loop()) as loop:
        AsyncCase(call, loop).run(3)

    assert under_way == []


def test_a_ratio_is_the_median_of_those_within_the_rounds_so_one_slow_round_hits_both_sides() -> None:
    quiet, slow = (10.0, 1.0, 1.0), (1000.0, 1.0, 1.0)
    twice = [(20.0, 1.0, 1.0), (2000.0, 1.0, 1.0), (20.0, 1.0, 1.0)]

    assert Timing(twice).over(Timing([quiet, slow, quiet])) == pytest.approx(2)
    assert Timing(twice).beyond(Timing([quiet, slow, quiet])) == [10, 1000, 10]


def test_rounds_are_compared_one_to_one() -> None:
    with pytest.raises(ValueError, match="shorter"):
        median_ratio([1.0, 2.0], [1.0])
