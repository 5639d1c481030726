"""Tenants: their keys, zones and tiers, and the one that stands for callers without any."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, DatabaseError, models
from django.db.models import ProtectedError

from tenantlimits.domain.errors import InvalidTenant
from tenantlimits.models import Tenant, Tier
from tests import rows

pytestmark = pytest.mark.django_db


def test_without_a_tier_it_is_on_the_default_one(settings: Any) -> None:
    tenant = Tenant.objects.create(key="cedar")
    before = tenant.own_tier()
    free = Tier.objects.create(slug="free", name="Free")

    assert (before, tenant.tier_slug, tenant.own_tier()) == (None, "free", free)


def test_callers_without_a_tenant_are_on_the_tier_of_the_setting(pro: Tier, settings: Any) -> None:
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"ANONYMOUS_TIER": "pro"}

    assert Tenant.objects.anonymous().own_tier() == pro


def test_the_row_of_callers_without_a_tenant_has_no_tier_of_its_own_and_stays(pro: Tier) -> None:
    anonymous = Tenant.objects.anonymous()
    anonymous.tier = pro

    with pytest.raises(InvalidTenant, match="ANONYMOUS_TIER"):
        anonymous.save()
    with pytest.raises(ProtectedError, match="need this row"):
        anonymous.delete()
    assert Tenant.objects.filter(key="").count() == 1


def test_the_row_of_callers_without_a_tenant_is_made_again_after_a_flush() -> None:
    models.QuerySet(Tenant).filter(key="")._raw_delete(DEFAULT_DB_ALIAS)

    assert str(Tenant.objects.anonymous()) == "Anonymous callers"


@pytest.mark.parametrize("key", ["a:b", "*", "x\nDEL", "{a}", " ", "ACME", "é", "e\u0301", "🙂", "x" * 255])
def test_any_text_is_a_key(key: str) -> None:
    """C86."""
    Tenant.objects.create(key=key)

    assert Tenant.objects.get(key=key).key == key


@pytest.mark.parametrize("key", ["x" * 256, "x" * 1_000_000, "a\x00b", None, 1])
def test_what_cannot_be_a_key_is_refused_in_few_words(key: Any) -> None:
    with pytest.raises(InvalidTenant) as refusal:
        Tenant.objects.create(key=key)

    assert len(str(refusal.value)) < 200


def test_the_database_refuses_a_key_that_is_too_long() -> None:
    with pytest.raises(DatabaseError):
        rows.written_raw(Tenant(key="x" * 256))


def test_a_form_refuses_the_empty_key() -> None:
    with pytest.raises(ValidationError, match="key"):
        Tenant(key="").full_clean()


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "Europe"])
def test_a_time_zone_is_an_iana_name(zone: str) -> None:
    with pytest.raises(InvalidTenant, match="IANA name"):
        Tenant.objects.create(key="acme", time_zone=zone)


def test_its_zone_is_its_own_or_that_of_the_settings(settings: Any) -> None:
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"TIME_ZONE": "Asia/Shanghai"}

    assert Tenant(key="acme", time_zone="Europe/Paris").zone == ZoneInfo("Europe/Paris")
    assert Tenant(key="bolt").zone == ZoneInfo("Asia/Shanghai")


def test_a_form_refuses_a_tier_without_limits() -> None:
    """C181."""
    empty = Tier.objects.create(slug="empty", name="Empty")

    with pytest.raises(ValidationError, match="unlimited by accident"):
        Tenant(key="acme", tier=empty).full_clean()


def test_one_with_overrides_stays(acme: Tenant) -> None:
    rows.override(acme).save()

    with pytest.raises(ProtectedError):
        acme.delete()
