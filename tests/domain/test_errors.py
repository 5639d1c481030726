"""The tree of errors, as its module draws it."""

import pytest

from tenantlimits.domain import errors


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (errors.InvalidLimit, ValueError),
        (errors.InvalidCost, ValueError),
        (errors.InvalidTenant, ValueError),
        (errors.InvalidOverride, ValueError),
        (errors.InvalidShare, ValueError),
        (errors.UnknownLane, LookupError),
        (errors.UnknownPool, LookupError),
        (errors.UnknownTier, LookupError),
        (errors.UnknownTenant, LookupError),
        (errors.LimitExceeded, errors.TenantLimitsError),
    ],
)
def test_every_error_is_one_of_ours_and_one_of_pythons(error, also):
    assert issubclass(error, errors.TenantLimitsError)
    assert issubclass(error, also)
    assert error.__name__ in errors.__doc__


def test_the_drawing_shows_every_error():
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}

    assert {name for name in defined if name not in errors.__doc__} == set()
