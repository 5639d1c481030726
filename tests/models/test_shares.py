"""Shares of pools: rows of a tier, refused in words and by the database, whatever writes them."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from tenantlimits.changes import acting
from tenantlimits.domain import shares as domain
from tenantlimits.domain.errors import InvalidShare, UnknownPool
from tenantlimits.models import Change, Share, Tenant, Tier
from tenantlimits.signals import policy_changed
from tests import rows

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def pools(settings: Any) -> None:
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": rows.POOLS}


def test_zero_is_a_real_zero_and_no_queue_is_the_pools(pro: Tier) -> None:
    """C5, C75."""
    Share.objects.create(tier=pro, pool="exports", slots=0)

    assert pro.shares.get().as_domain() == domain.Share(slots=0, queue=None)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"slots": 11}, "11 slots are more than pool exports has for everyone: write at most 10"),
        ({"slots": -1}, "whole number of slots from 0"),
        ({"slots": None}, "whole number of slots"),
        ({"slots": 2.5}, "whole number of slots"),
        ({"queue": -1}, "the queue is a whole number from 0"),
        ({"queue": 10**7}, "the queue is a whole number from 0"),
        ({"queue": "5"}, "the queue is a whole number from 0"),
    ],
)
def test_one_that_means_nothing_is_refused_by_form_and_by_save(pro: Tier, values: dict[str, Any], words: str) -> None:
    share = Share(**{"tier": pro, "pool": "exports", "slots": 4} | values)

    with pytest.raises(InvalidShare, match=words):
        share.save()
    with pytest.raises(ValidationError, match=words):
        share.clean()


def test_a_pool_that_no_setting_names_is_refused_with_the_one_that_was_meant(pro: Tier) -> None:
    share = Share(tier=pro, pool="export", slots=4)

    with pytest.raises(UnknownPool, match="Did you mean 'exports'"):
        share.save()
    with pytest.raises(ValidationError, match="Did you mean 'exports'"):
        share.clean()


def test_one_whose_pool_is_gone_can_still_be_changed_and_taken_out(pro: Tier, settings: Any) -> None:
    share = Share.objects.create(tier=pro, pool="exports", slots=4)
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": {}}

    share.slots = 2
    share.save()
    share.delete()

    assert not pro.shares.exists()


def test_a_tier_has_one_of_each_pool(pro: Tier) -> None:
    Share.objects.create(tier=pro, pool="exports", slots=4)
    Share.objects.create(tier=Tier.objects.create(slug="free", name="Free"), pool="exports", slots=1)

    with pytest.raises(IntegrityError), transaction.atomic():
        Share.objects.create(tier=pro, pool="exports", slots=2)


@pytest.mark.parametrize(
    "values", [{"slots": -1}, {"slots": 10**6 + 1}, {"slots": None}, {"queue": -1}, {"queue": 10**6 + 1}, {"pool": " "}]
)
def test_the_database_refuses_what_no_share_can_be(pro: Tier, values: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError):
        rows.written_raw(Share(**{"tier": pro, "pool": "exports", "slots": 4} | values))


def test_a_bulk_write_is_held_to_the_same_rules(pro: Tier) -> None:
    Share.objects.create(tier=pro, pool="exports", slots=4)

    with pytest.raises(InvalidShare):
        pro.shares.update(slots=11)
    with pytest.raises(InvalidShare):
        Share.objects.bulk_create([Share(tier=pro, pool="reports", slots=6)])

    assert list(pro.shares.values_list("pool", "slots")) == [("exports", 4)]


def test_every_change_is_logged_and_moves_everybodys_stamps(pro: Tier) -> None:
    """V1."""
    told: list[Any] = []

    def hear(tenants: frozenset[str] | None, **_kwargs: object) -> None:
        told.append(tenants)

    policy_changed.connect(hear)
    with acting(None, "Capacity review"):
        share = Share.objects.create(tier=pro, pool="exports", slots=4)
        share.slots = 6
        share.save()
        share.delete()
    policy_changed.disconnect(hear)

    log = Change.objects.filter(model="share").order_by("pk")
    assert [(line.action, line.object, line.changes.get("slots"), line.reason) for line in log] == [
        ("created", "pro/exports-share", [None, 4], "Capacity review"),
        ("changed", "pro/exports-share", [4, 6], "Capacity review"),
        ("deleted", "pro/exports-share", [6, None], "Capacity review"),
    ]
    assert told == [None, None, None]


def test_they_go_with_their_tier_and_stay_with_one_in_use(pro: Tier, acme: Tenant) -> None:
    Share.objects.create(tier=pro, pool="exports", slots=4)
    spare = Tier.objects.create(slug="spare", name="Spare")
    Share.objects.create(tier=spare, pool="exports", slots=1)

    spare.delete()

    assert [str(share) for share in Share.objects.all()] == ["pro/exports-share"]
