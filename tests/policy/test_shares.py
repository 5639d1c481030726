"""A tenant's share of each pool: the tier's, an override's, or one slot where nobody says."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tenantlimits.domain.errors import InvalidOverride, UnknownPool
from tenantlimits.domain.periods import to_us
from tenantlimits.domain.shares import Share as DomainShare
from tenantlimits.models import Limit, Share, Tenant, Tier
from tenantlimits.policy import grant_override, revoke_override, set_tier
from tenantlimits.policy.loading import Policy, load
from tests import rows

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def pools(settings: Any) -> None:
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": rows.POOLS}


@pytest.fixture
def policy(acme: Tenant) -> Callable[..., Policy]:
    """`policy()`: acme's of now, or of an instant; its tier has 4 slots of exports and says nothing of reports."""
    Share.objects.create(tier=acme.tier, pool="exports", slots=4, queue=20)
    return lambda at=None: of("acme", at)


def of(key: str, at: datetime | None = None) -> Policy:
    return load(key, stamps=None, now_us=to_us(at or timezone.now()), tier_at_first_sight=lambda: None)


def granted(slots: int, **values: Any) -> Any:
    end = timezone.now() + 7 * DAY
    return grant_override("acme", "share:exports", amount=slots, reason="Statements", expires_at=end, **values)


def test_it_is_the_tiers(policy: Callable[..., Policy]) -> None:
    """C5."""
    one = policy().shares["exports"]

    assert policy().share_of("exports") == DomainShare(slots=4, queue=20)
    assert (one.tier_slots, one.source, one.override) == (4, "tier", None)


def test_where_the_tier_does_not_say_it_is_one_slot_so_that_nobody_starves(policy: Callable[..., Policy]) -> None:
    """C5."""
    one = policy().shares["reports"]

    assert policy().share_of("reports") == DomainShare(slots=1)
    assert (one.tier_share, one.tier_slots) == (None, 1)


def test_without_a_tier_it_is_one_slot(settings: Any) -> None:
    assert of("bolt").share_of("exports") == DomainShare(slots=1)


def test_an_override_raises_it_for_its_time_and_keeps_the_queue(policy: Callable[..., Policy]) -> None:
    """C5."""
    override = granted(8)

    one = policy().shares["exports"]

    assert one.share == DomainShare(slots=8, queue=20)
    assert (one.tier_slots, one.source) == (4, "override")
    assert one.override is not None
    assert (one.override.id, one.override.reason) == (override.pk, "Statements")
    assert policy(timezone.now() + 8 * DAY).share_of("exports").slots == 4


def test_zero_is_a_real_zero(policy: Callable[..., Policy]) -> None:
    """C75."""
    granted(0)

    assert policy().share_of("exports").slots == 0


def test_a_revoked_override_is_over(policy: Callable[..., Policy]) -> None:
    revoke_override(granted(8), reason="Done")

    assert policy().share_of("exports").slots == 4


def test_an_override_bounds_how_long_the_policy_holds(policy: Callable[..., Policy]) -> None:
    override = granted(8, starts_at=timezone.now() + DAY)

    assert policy().valid_until_us == to_us(override.starts_at)


def test_a_lent_tier_lends_its_shares(policy: Callable[..., Policy]) -> None:
    big = Tier.objects.create(slug="big", name="Big")
    Limit.objects.create(tier=big, name="all-rate", amount=100, period_seconds=1)
    Share.objects.create(tier=big, pool="exports", slots=9)

    grant_override("acme", "tier:big", reason="Trial", expires_at=timezone.now() + DAY)
    lent = policy().share_of("exports").slots
    set_tier("acme", "big", reason="Bought")

    assert (lent, policy().share_of("exports").slots) == (9, 9)


def test_one_tenants_override_is_nobody_elses(policy: Callable[..., Policy], bolt: Tenant) -> None:
    granted(8)

    assert of("bolt").share_of("exports").slots == 4


def test_a_pool_that_no_setting_names_is_refused(policy: Callable[..., Policy]) -> None:
    with pytest.raises(UnknownPool, match="Did you mean 'exports'"):
        policy().share_of("export")


def test_without_pools_nothing_more_is_asked_of_the_database(policy: Callable[..., Policy], settings: Any) -> None:
    with CaptureQueriesContext(connection) as with_pools:
        policy()
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {}}
    with CaptureQueriesContext(connection) as without:
        assert policy().shares == {}

    assert len(with_pools) == len(without) + 1


@pytest.mark.parametrize(
    ("target", "values", "words"),
    [
        ("share:export", {"amount": 4}, "Pool 'export' is not in .* Did you mean 'exports'"),
        ("share:", {"amount": 4}, "Pool '' is not in"),
        ("share:exports", {"amount": 11}, "more than pool exports has for everyone: write at most 10"),
        ("share:exports", {"amount": -1}, "whole number from 0"),
        ("share:exports", {"unlimited": True}, "neither unlimited nor with a burst. For all of the pool"),
        ("share:exports", {"amount": 4, "burst": 9}, "neither unlimited nor with a burst"),
        ("share:exports", {}, "write an amount, the slots"),
    ],
)
def test_what_no_share_can_be_is_refused(acme: Tenant, target: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOverride, match=words):
        grant_override("acme", target, reason="Statements", expires_at=timezone.now() + DAY, **values)


def test_two_of_one_share_may_not_overlap(policy: Callable[..., Policy]) -> None:
    first = granted(8)

    with pytest.raises(InvalidOverride, match=f"already has an override of share:exports, #{first.pk}"):
        granted(9)
    grant_override("acme", "share:reports", amount=2, reason="Statements", expires_at=timezone.now() + DAY)


def test_one_whose_pool_is_gone_can_still_be_extended(policy: Callable[..., Policy], settings: Any) -> None:
    override = granted(8)
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {}}

    override.expires_at += DAY
    override.save()

    assert policy().shares == {}
