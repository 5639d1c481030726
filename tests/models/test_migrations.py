"""What the first migration leaves behind."""

import pytest

from tenantlimits import domain
from tenantlimits.models import Tenant, Tier
from tenantlimits.models.choices import Counts, Guarantee, Kind, Layer, Mode

pytestmark = pytest.mark.django_db


def test_it_makes_the_anonymous_tier_in_observe_mode_and_its_tenant() -> None:
    tier = Tier.objects.get(slug="anonymous")
    tenant = Tenant.objects.get(key="")

    assert tier.mode == Mode.OBSERVE
    assert tier.limits.get().as_domain() == domain.limits.Limit(
        name="anonymous-rate",
        lane="all",
        kind=domain.limits.Kind.TOKEN_BUCKET,
        amount=10,
        period_seconds=1,
        burst=100,
        counts=domain.limits.Counts.REQUESTS,
        guarantee=domain.limits.Guarantee.FUSE,
    )
    assert (str(tenant), tenant.own_tier()) == ("Anonymous callers", tier)


def test_the_choices_are_the_domains_own() -> None:
    for choices in (Kind, Layer, Counts, Guarantee, Mode):
        enum = getattr(domain.limits, choices.__name__)

        assert choices.values == [member.value for member in enum]
