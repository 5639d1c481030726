"""What an operation costs."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantlimits.domain.errors import InvalidCost
from tenantlimits.domain.lanes import MILLI, milli
from tenantlimits.domain.limits import MAX_AMOUNT


@pytest.mark.parametrize(
    "cost", [-5, -0.1, math.inf, -math.inf, math.nan, "5", "", None, True, [5], MAX_AMOUNT + 1, 10**400]
)
def test_a_cost_that_is_no_number_of_units_is_refused(cost):
    """C53."""
    with pytest.raises(InvalidCost, match="Cost"):
        milli(cost)


@pytest.mark.parametrize(
    ("cost", "counted"), [(0, 0), (1, 1000), (0.25, 250), (Fraction(1, 8), 125), (MAX_AMOUNT, 10**15)]
)
def test_a_cost_is_counted_in_steps_of_a_thousandth(cost, counted):
    assert milli(cost) == counted


def test_a_decimal_is_a_number_of_units_too():
    assert milli(Decimal("0.5")) == 500


def test_ten_tenths_are_exactly_one_unit_and_thirds_miss_by_less_than_a_step():
    """C56: costs are counted in steps of 0.001, so a third is 0.333."""
    assert 10 * milli(0.1) == MILLI
    assert 3 * milli(1 / 3) == MILLI - 1


@given(st.lists(st.integers(0, 10**9), max_size=50))
def test_sums_of_costs_are_exact(thousandths):
    assert sum(milli(one / 1000) for one in thousandths) == sum(thousandths)
