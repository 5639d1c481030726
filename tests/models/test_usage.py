"""Usage by the hour."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from tenantlimits.models import Tenant, UsageHour

pytestmark = pytest.mark.django_db


def test_large_numbers_fit_exactly(acme: Tenant) -> None:
    row = UsageHour.objects.create(
        tenant=acme, lane="reads", start=timezone.now(), source="s1", requests=10**15, cost=10**12, waited_ms=10**15
    )

    row.refresh_from_db()

    assert (row.requests, row.cost, row.waited_ms) == (10**15, 10**12, 10**15)


def test_a_source_counts_an_hour_once(acme: Tenant) -> None:
    hour = timezone.now()
    UsageHour.objects.create(tenant=acme, lane="reads", start=hour, source="s1")
    UsageHour.objects.create(tenant=acme, lane="reads", start=hour, source="s2")

    with pytest.raises(IntegrityError), transaction.atomic():
        UsageHour.objects.create(tenant=acme, lane="reads", start=hour, source="s1")
