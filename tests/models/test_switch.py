"""The site-wide switch."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.db.models import ProtectedError

from tenantlimits.changes import acting
from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.models import Switch
from tenantlimits.models.choices import Mode
from tests import rows

pytestmark = pytest.mark.django_db


def test_before_anybody_has_switched_limits_are_enforced() -> None:
    assert Switch.current().mode == Mode.ENFORCE


def test_it_is_one_row_that_says_who_turned_it_and_why() -> None:
    staff = User.objects.create_user("staff")

    for mode, reason in ((Mode.OBSERVE, "Incident 7"), (Mode.ENFORCE, "Incident 7 is over")):
        switch = Switch.current()
        switch.mode, switch.reason = mode, reason
        with acting(staff):
            switch.save()

    row = Switch.objects.get()
    assert (row.mode, row.reason, row.changed_by) == (Mode.ENFORCE, "Incident 7 is over", staff)


def test_it_is_not_turned_without_a_reason() -> None:
    with pytest.raises(TenantLimitsError, match="Say why"):
        Switch(mode=Mode.OFF, reason=" ").save()


def test_it_stays() -> None:
    Switch(mode=Mode.OFF, reason="Incident 7").save()

    with pytest.raises(ProtectedError, match="turn it to enforce"):
        Switch.objects.all().delete()


@pytest.mark.parametrize("values", [{"id": 2}, {"mode": "on"}, {"reason": " "}])
def test_the_database_holds_one_that_means_something(values: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError):
        rows.written_raw(Switch(**{"mode": Mode.OFF, "reason": "Incident 7"} | values))
