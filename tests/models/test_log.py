"""The change log keeps what it was given."""

import pytest

from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.models import Change, Tier

pytestmark = pytest.mark.django_db


def test_a_line_is_neither_changed_nor_deleted(pro: Tier) -> None:
    line = Change.objects.earliest("pk")
    line.reason = "Something else"

    for write in (line.save, line.delete, Change.objects.all().delete, lambda: Change.objects.update(reason="")):
        with pytest.raises(TenantLimitsError, match="append-only"):
            write()
    with pytest.raises(TenantLimitsError, match="append-only"):
        Change.objects.bulk_update([line], ["reason"])
