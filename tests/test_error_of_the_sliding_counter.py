"""The published error of the sliding counter is what a replay of real requests gives."""

import re

import pytest

from tenantlimits.domain.limits import format_amount
from tests.benchmarks.sliding_counter import LIMITS, PHASES, replayed, trace
from tests.test_docs import ROOT


@pytest.fixture(scope="module")
def requests():
    return trace()


@pytest.mark.parametrize(("amount", "period"), LIMITS, ids=[format_amount(*limit) for limit in LIMITS])
def test_a_replayed_trace_is_decided_as_wrongly_as_the_guide_says(requests, amount, period):
    """R9: 10,000 real requests of 1,754 tenants; a replay has no chance in it, so the figures are exact."""
    rows = re.findall(r"^\| `([^`]+)` \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|", GUIDE, re.MULTILINE)
    told = {limit: tuple(map(float, figures)) for limit, *figures in rows}

    one = replayed(requests, amount, period)

    assert one.decisions == PHASES * 10_000
    parts = (one.refused / one.decisions, one.too_lenient / one.decisions, one.too_strict / one.decisions)
    figures = (*(round(100 * part, 2) for part in parts), round(100 * one.mean_difference, 1))
    assert figures == told[format_amount(amount, period)]
    assert one.wrong < 0.07
    assert one.most < 1


GUIDE = (ROOT / "docs" / "guide.md").read_text("utf-8")
