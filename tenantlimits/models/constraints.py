"""Database constraints that several tables have."""

from collections.abc import Iterable

from django.db.models import CheckConstraint, Q
from django.db.models.functions import Length, Trim
from django.db.models.lookups import GreaterThan, LessThanOrEqual

from tenantlimits.domain.limits import MAX_AMOUNT


def one_of(model: str, field: str, values: Iterable[str]) -> CheckConstraint:
    """The field holds one of the values."""
    return CheckConstraint(name=f"tenantlimits_{model}_{field}_known", condition=Q(**{f"{field}__in": sorted(values)}))


def amount(model: str, field: str, *, most: int = MAX_AMOUNT) -> CheckConstraint:
    """The field holds 0 to so many units, or nothing."""
    within = Q(**{f"{field}__gte": 0, f"{field}__lte": most})
    return CheckConstraint(
        name=f"tenantlimits_{model}_{field}_range", condition=within | Q(**{f"{field}__isnull": True})
    )


def not_blank(model: str, field: str) -> CheckConstraint:
    """The field holds more than spaces."""
    return CheckConstraint(
        name=f"tenantlimits_{model}_{field}_not_blank", condition=GreaterThan(Length(Trim(field)), 0)
    )


def at_most(model: str, field: str, length: int) -> CheckConstraint:
    """The field is no longer than that; SQLite does not hold a column's own length."""
    return CheckConstraint(
        name=f"tenantlimits_{model}_{field}_length", condition=LessThanOrEqual(Length(field), length)
    )
