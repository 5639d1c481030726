"""Tiers and limits: what each may hold, refused in words and by the database, whatever writes it."""

import math
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from tenantlimits.domain.errors import InvalidLimit, TenantLimitsError, UnknownLane
from tenantlimits.domain.limits import MAX_LIMITS_PER_TIER
from tenantlimits.models import Limit, Tenant, Tier
from tenantlimits.models.choices import Kind, Mode
from tests import rows

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def test_no_amount_is_unlimited_and_zero_is_zero(pro: Tier) -> None:
    """C188."""
    unlimited = Limit.objects.create(tier=pro, name="free-for-all", amount=None, period_seconds=60)
    blocked = Limit.objects.create(tier=pro, name="blocked", amount=0, period_seconds=60)

    assert unlimited.as_domain().amount == math.inf
    assert blocked.as_domain().amount == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"amount": -1}, "from 0"),
        ({"amount": 10**12 + 1}, "1,000,000,000,000"),
        ({"amount": 0.5}, "whole number"),
        ({"amount": "500"}, "whole number"),
        ({"burst": 2.5}, "whole number"),
        ({"burst": 0}, "lets nothing through"),
        ({"period_seconds": None}, "give a period"),
        ({"period_seconds": 0}, "give a period"),
        ({"kind": Kind.CONCURRENCY}, "no period"),
        ({"kind": Kind.SLIDING_LOG, "amount": 500}, "at most 128"),
        ({"kind": Kind.SLIDING_COUNTER}, "can only be a fuse"),
        ({"kind": Kind.CALENDAR_QUOTA, "period_seconds": 7}, "per hour, day"),
        ({"kind": "leaky"}, "not a valid Kind"),
        ({"anchor_day": 32}, "1 to 31"),
        ({"name": "tier:pro"}, "slug"),
        ({"name": ""}, "slug"),
    ],
)
def test_one_that_means_nothing_is_refused_by_form_and_by_save(pro: Tier, values: dict[str, Any], words: str) -> None:
    limit = Limit(**{"tier": pro, "name": "reads", "amount": 500, "period_seconds": 60} | values)

    with pytest.raises(InvalidLimit, match=words):
        limit.save()
    with pytest.raises(ValidationError, match=words):
        limit.clean()


def test_a_lane_that_no_setting_names_is_refused(pro: Tier) -> None:
    limit = Limit(tier=pro, name="export-rate", lane="export", amount=3, period_seconds=60)

    with pytest.raises(UnknownLane, match="Did you mean 'exports'"):
        limit.save()
    with pytest.raises(ValidationError, match="Did you mean 'exports'"):
        limit.clean()


def test_one_whose_lane_is_gone_can_still_be_switched_off(pro: Tier, settings: Any) -> None:
    limit = pro.limits.get(name="exports-cap")
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"LANES": {}}

    limit.mode = Mode.OFF
    limit.save()

    assert pro.limits.get(name="exports-cap").mode == Mode.OFF


def test_a_name_is_unique_in_its_tier_only(pro: Tier) -> None:
    free = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=free, name="all-rate", amount=2, period_seconds=1)

    with pytest.raises(IntegrityError), transaction.atomic():
        Limit.objects.create(tier=pro, name="all-rate", amount=2, period_seconds=1)


def test_a_tier_holds_only_so_many(pro: Tier) -> None:
    for number in range(MAX_LIMITS_PER_TIER - pro.limits.count()):
        Limit.objects.create(tier=pro, name=f"limit-{number}", amount=1, period_seconds=1)

    with pytest.raises(InvalidLimit, match=f"at most {MAX_LIMITS_PER_TIER}"):
        Limit.objects.create(tier=pro, name="one-more", amount=1, period_seconds=1)

    pro.limits.get(name="limit-0").save()


@pytest.mark.parametrize(
    "values",
    [
        {"amount": -1},
        {"amount": 10**12 + 1},
        {"burst": -1},
        {"kind": "leaky"},
        {"layer": "planet"},
        {"mode": "on"},
        {"counts": "bytes"},
        {"guarantee": "hope"},
        {"name": " "},
    ],
)
def test_the_database_refuses_what_no_limit_can_be(pro: Tier, values: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError):
        rows.written_raw(Limit(**{"tier": pro, "name": "reads", "amount": 500, "period_seconds": 60} | values))


def test_the_largest_amount_fits(pro: Tier) -> None:
    Limit.objects.create(tier=pro, name="huge", amount=10**12, burst=10**12, period_seconds=1)

    assert pro.limits.get(name="huge").amount == 10**12


def test_the_last_one_of_a_tier_in_use_stays(pro: Tier, acme: Tenant) -> None:
    """C181: no tenant becomes unlimited because somebody deleted row by row."""
    pro.limits.get(name="all-rate").delete()

    with pytest.raises(ProtectedError, match="last limit of tier pro"):
        pro.limits.get(name="exports-cap").delete()

    assert [limit.name for limit in pro.limits.all()] == ["exports-cap"]


def test_all_of_a_tier_in_use_cannot_go_together(pro: Tier, acme: Tenant) -> None:
    """C181."""
    with pytest.raises(ProtectedError, match="last limit of tier pro"):
        pro.limits.all().delete()

    assert pro.limits.count() == 2


def test_an_unused_tier_may_lose_all_of_them(pro: Tier) -> None:
    pro.limits.all().delete()

    assert pro.limits.count() == 0


def test_one_with_tenants_is_protected(pro: Tier, acme: Tenant) -> None:
    """C181."""
    with pytest.raises(ProtectedError):
        pro.delete()

    assert Tier.objects.get(slug="pro").limits.count() == 2


@pytest.mark.parametrize("setting", ["DEFAULT_TIER", "ANONYMOUS_TIER"])
def test_one_that_the_settings_name_is_protected(pro: Tier, settings: Any, setting: str) -> None:
    """C181."""
    settings.TENANTLIMITS = settings.TENANTLIMITS | {setting: "pro"}

    with pytest.raises(ProtectedError, match=setting):
        pro.delete()


def test_one_that_is_lent_is_protected_until_the_override_is_over(acme: Tenant) -> None:
    big = Tier.objects.create(slug="big", name="Big")
    Limit.objects.create(tier=big, name="all-rate", amount=100, period_seconds=1)
    rows.override(acme, target="tier:big", amount=None).save()

    with pytest.raises(ProtectedError, match="lent to Acme"):
        big.delete()

    with time_machine.travel(timezone.now() + DAY, tick=False):
        big.delete()


def test_an_unused_one_goes_with_its_limits(pro: Tier) -> None:
    pro.delete()

    assert not Limit.objects.filter(name="exports-cap").exists()


def test_its_slug_stays(pro: Tier) -> None:
    pro.slug = "professional"

    with pytest.raises(ValidationError, match="change the name instead"):
        pro.full_clean()


@pytest.mark.parametrize("slug", ["", "a b", "tier:pro", "x" * 51])
def test_a_slug_is_a_slug(slug: str) -> None:
    with pytest.raises(TenantLimitsError, match="write a slug"):
        Tier.objects.create(slug=slug, name="Odd")
