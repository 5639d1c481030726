"""The model of processes and servers has the bounds that it names. Nothing is timed here."""

from __future__ import annotations

import pytest

from tests.benchmarks.capacity import Model, Point

MODEL = Model(round_trip_us=100, computed_us=40, server_us=20, processors=2)
ROOMY = Model(round_trip_us=100, computed_us=40, server_us=20, processors=1000)


def test_a_process_asks_one_thing_after_another_and_waits_for_waking_or_not() -> None:
    assert ROOMY.at_least(3, 9) == pytest.approx(30_000)
    assert ROOMY.at_most(3, 9) == pytest.approx(75_000)


def test_processors_that_all_share_bound_what_any_number_of_processes_gets() -> None:
    assert MODEL.at_least(50, 50) == MODEL.at_most(50, 50) == pytest.approx(2 * 25_000)


def test_a_server_is_one_thread_and_the_next_one_another() -> None:
    assert ROOMY.at_least(1000, 1) == ROOMY.at_most(1000, 1) == pytest.approx(50_000)
    assert ROOMY.at_most(1000, 3) == pytest.approx(150_000)


@pytest.mark.parametrize(("measured", "off"), [(80.0, 0.2), (100.0, 0.0), (150.0, 0.0), (200.0, 0.0), (250.0, 0.25)])
def test_a_point_is_off_by_what_it_is_outside_of_the_range(measured: float, off: float) -> None:
    point = Point(processes=2, servers=1, measured=measured, processors=1.9, at_least=100, at_most=200)

    assert point.off == pytest.approx(off)
