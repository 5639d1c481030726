"""Overrides: with a reason and an end, in order, apart from each other, and kept."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from tenantlimits.changes import acting
from tenantlimits.domain.errors import InvalidOverride
from tenantlimits.models import Override, Tenant
from tests import rows

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def test_it_is_kept_with_reason_end_and_who_made_it(acme: Tenant) -> None:
    """V1, C183."""
    staff = User.objects.create_user("staff")

    with acting(staff):
        rows.override(acme, reason="  Black Friday \n").save()

    row = acme.overrides.get()
    assert (row.reason, row.created_by, row.created_at <= timezone.now()) == ("Black Friday", staff, True)
    assert row.expires_at - row.starts_at == DAY


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"reason": ""}, "needs a reason"),
        ({"reason": " \t\n "}, "needs a reason"),
        ({"reason": None}, "is a text"),
        ({"reason": "x" * 5000}, "5000 characters: write at most 500"),
        ({"expires_at": None}, "needs its end"),
        ({"expires_at": "tomorrow"}, "needs its end"),
        ({"starts_at": None}, "needs its start"),
        ({"amount": None}, "write an amount"),
        ({"amount": -1}, "whole number from 0"),
        ({"amount": 10**12 + 1}, "1,000,000,000,000"),
        ({"amount": 2.5}, "whole number"),
        ({"amount": True}, "whole number"),
        ({"unlimited": True}, "not both"),
        ({"amount": None, "burst": 5, "unlimited": True}, "not both"),
        ({"burst": 0}, "lets nothing through"),
        ({"target": "exports-cap", "burst": 5}, "only a token bucket"),
        ({"target": "all-rat"}, "no limit 'all-rat' on tier pro: there are all-rate, exports-cap. Did you mean"),
        ({"target": ""}, "no limit ''"),
        ({"target": "tier:pro"}, "leave amount and burst empty"),
        ({"target": "tier:por", "amount": None}, "no tier 'por' to lend: there are anonymous, pro. Did you mean"),
        ({"target": "tier:", "amount": None}, "no tier ''"),
    ],
)
def test_what_may_not_be_written_is_refused_by_form_and_by_save_in_the_same_words(
    acme: Tenant, values: dict[str, Any], words: str
) -> None:
    """C183, C188, V1."""
    with pytest.raises(InvalidOverride) as by_save:
        rows.override(acme, **values).save()
    with pytest.raises(ValidationError) as by_form:
        rows.override(acme, **values).clean()

    assert words in str(by_save.value)
    assert by_form.value.messages == [str(by_save.value)]
    assert not acme.overrides.exists()


@pytest.mark.parametrize(
    ("starts", "expires", "words"),
    [
        (-2 * DAY, -DAY, "in the past"),
        (-DAY, timedelta(0), "in the past"),
        (2 * DAY, DAY, "not after the start"),
        (DAY, DAY, "not after the start"),
        (timedelta(0), 90 * DAY + timedelta(seconds=1), "more than 90 days away"),
        (89 * DAY, 91 * DAY, "more than 90 days away"),
    ],
)
def test_its_end_is_after_its_start_in_the_future_and_not_too_far(
    acme: Tenant, starts: timedelta, expires: timedelta, words: str
) -> None:
    """C183."""
    now = timezone.now()

    with time_machine.travel(now, tick=False), pytest.raises(InvalidOverride, match=words):
        rows.override(acme, starts_at=now + starts, expires_at=now + expires).save()


def test_it_may_last_exactly_as_long_as_the_setting_says(acme: Tenant, settings: Any) -> None:
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"MAX_OVERRIDE_DAYS": 7}
    now = timezone.now()

    with time_machine.travel(now, tick=False):
        rows.override(acme, starts_at=now, expires_at=now + 7 * DAY).save()

    assert acme.overrides.count() == 1


@pytest.mark.parametrize("field", ["starts_at", "expires_at"])
def test_an_instant_without_a_zone_is_refused(acme: Tenant, field: str) -> None:
    """C184."""
    with pytest.raises(InvalidOverride, match="has no time zone"):
        rows.override(acme, **{field: datetime(2027, 3, 28, 2, 30)}).save()  # noqa: DTZ001 - that is the case


@pytest.mark.parametrize(
    ("wall_clock", "instant"),
    [
        # Skipped: counted on from the clock before. Twice: the first, then the second.
        (datetime(2027, 3, 28, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "2027-03-28T01:30:00+00:00"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "2026-10-25T00:30:00+00:00"),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1), "2026-10-25T01:30:00+00:00"),
        (datetime(2016, 10, 16, 0, 0, tzinfo=ZoneInfo("America/Sao_Paulo")), "2016-10-16T03:00:00+00:00"),
    ],
)
def test_a_wall_clock_inside_a_clock_change_is_a_defined_instant(
    acme: Tenant, wall_clock: datetime, instant: str
) -> None:
    """C184."""
    with time_machine.travel(wall_clock.astimezone(UTC) - DAY, tick=False):
        rows.override(acme, expires_at=wall_clock).save()

    assert acme.overrides.get().expires_at.isoformat() == instant


def test_order_is_that_of_the_instants_where_the_wall_clock_runs_twice(acme: Tenant) -> None:
    """C184: 02:45 before the change is earlier than 02:15 after it."""
    start = datetime(2026, 10, 25, 2, 45, tzinfo=ZoneInfo("Europe/Berlin"))
    end = datetime(2026, 10, 25, 2, 15, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)

    with time_machine.travel(start.astimezone(UTC) - DAY, tick=False):
        rows.override(acme, starts_at=start, expires_at=end).save()

    row = acme.overrides.get()
    assert row.expires_at - row.starts_at == timedelta(minutes=30)


def test_an_instant_outside_the_calendar_is_refused(acme: Tenant) -> None:
    last = datetime.max.replace(tzinfo=ZoneInfo("America/New_York"))

    with pytest.raises(InvalidOverride, match="outside the calendar"):
        rows.override(acme, expires_at=last).save()


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 10), (5, 12)), ((1, 10), (3, 10)), ((1, 10), (1, 10)), ((5, 12), (1, 10)), ((1, 10), (2, 3))],
)
def test_two_of_one_target_must_not_overlap(acme: Tenant, first: tuple[int, int], second: tuple[int, int]) -> None:
    """C182."""
    now = timezone.now()
    rows.override(acme, starts_at=now + first[0] * DAY, expires_at=now + first[1] * DAY).save()
    clashing = rows.override(acme, starts_at=now + second[0] * DAY, expires_at=now + second[1] * DAY)

    with pytest.raises(InvalidOverride, match="already has an override of all-rate, #") as by_save:
        clashing.save()
    with pytest.raises(ValidationError) as by_form:
        clashing.clean()

    assert by_form.value.messages == [str(by_save.value)]
    assert acme.overrides.count() == 1


def test_one_may_begin_as_the_other_ends(acme: Tenant) -> None:
    """C182."""
    now = timezone.now()
    rows.override(acme, starts_at=now + 10 * DAY, expires_at=now + 20 * DAY).save()

    rows.override(acme, starts_at=now, expires_at=now + 10 * DAY).save()
    rows.override(acme, starts_at=now + 20 * DAY, expires_at=now + 30 * DAY).save()

    assert acme.overrides.count() == 3


def test_other_targets_other_tenants_and_revoked_ones_do_not_clash(acme: Tenant, bolt: Tenant) -> None:
    """C182."""
    revoked = rows.override(acme)
    revoked.save()
    revoked.revoked_at, revoked.revoke_reason = timezone.now(), "A mistake"
    revoked.save()

    rows.override(acme).save()
    rows.override(acme, target="exports-cap", amount=1).save()
    rows.override(bolt).save()

    assert (acme.overrides.count(), bolt.overrides.count()) == (3, 1)


def test_whatever_tier_is_lent_is_one_target(acme: Tenant) -> None:
    """C182."""
    rows.override(acme, target="tier:anonymous", amount=None).save()

    with pytest.raises(InvalidOverride, match="already has an override of tier:anonymous"):
        rows.override(acme, target="tier:pro", amount=None).save()


def test_an_extension_into_the_next_one_is_refused(acme: Tenant) -> None:
    """C182."""
    now = timezone.now()
    first = rows.override(acme, starts_at=now, expires_at=now + DAY)
    first.save()
    rows.override(acme, starts_at=now + DAY, expires_at=now + 2 * DAY).save()

    first.expires_at += HOUR

    with pytest.raises(InvalidOverride, match="already has an override"):
        first.save()


def test_the_note_of_one_that_is_over_can_still_be_written(acme: Tenant) -> None:
    past = rows.override(acme)
    past.save()

    with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
        past.note = "Worked well"
        past.save()

    assert acme.overrides.get().note == "Worked well"


def test_a_limit_of_the_tier_that_is_lent_meanwhile_is_a_target(acme: Tenant) -> None:
    rows.override(acme, target="tier:anonymous", amount=None).save()

    rows.override(acme, target="anonymous-rate").save()

    assert acme.overrides.count() == 2


def test_zero_blocks_and_unlimited_is_a_choice_of_its_own(acme: Tenant) -> None:
    """C188."""
    rows.override(acme, amount=0).save()
    rows.override(acme, target="exports-cap", amount=None, unlimited=True).save()

    assert set(acme.overrides.values_list("target", "amount", "unlimited")) == {
        ("all-rate", 0, False),
        ("exports-cap", None, True),
    }


def test_it_is_never_deleted(acme: Tenant) -> None:
    row = rows.override(acme)
    row.save()

    for delete in (row.delete, acme.overrides.all().delete, Override.objects.filter(pk=row.pk).delete):
        with pytest.raises(InvalidOverride, match="revoke"):
            delete()

    assert acme.overrides.count() == 1


@pytest.mark.parametrize(
    "values",
    [
        {"reason": ""},
        {"reason": "   "},
        {"reason": "x" * 501},
        {"expires_at": timezone.now() - DAY},
        {"expires_at": None},
        {"amount": -1},
        {"amount": 10**12 + 1},
        {"amount": None},
        {"unlimited": True},
        {"target": " "},
        {"target": "tier:pro"},
        {"target": "tier:pro", "amount": None, "unlimited": True},
        {"revoked_at": timezone.now()},
        {"revoked_at": timezone.now(), "revoke_reason": "  "},
        {"revoke_reason": "A mistake"},
    ],
)
def test_the_database_refuses_it_whatever_writes_it(acme: Tenant, values: dict[str, Any]) -> None:
    """C183, V1."""
    with pytest.raises(DatabaseError):
        rows.written_raw(rows.override(acme, **values))


def test_deleting_the_user_who_revoked_keeps_the_override(acme: Tenant) -> None:
    staff = User.objects.create_user("staff")
    row = rows.override(acme, created_by=staff)
    row.save()
    row.revoked_at, row.revoked_by, row.revoke_reason = timezone.now(), staff, "A mistake"
    row.save()

    staff.delete()

    row.refresh_from_db()
    assert (row.created_by, row.revoked_by, row.revoke_reason) == (None, None, "A mistake")


def test_a_fixture_that_overlaps_is_refused(acme: Tenant, fixture: Callable[..., Path]) -> None:
    """C182, C183."""
    rows.override(acme).save()

    with pytest.raises(InvalidOverride, match="already has an override"):
        call_command("loaddata", fixture(acme), verbosity=0)

    assert acme.overrides.count() == 1


@pytest.mark.parametrize("values", [{"reason": "  "}, {"expires_at": None}, {"expires_at": "2001-01-01T00:00:00Z"}])
def test_a_fixture_passes_the_constraints_too(
    acme: Tenant, fixture: Callable[..., Path], values: dict[str, Any]
) -> None:
    """C183."""
    with pytest.raises(IntegrityError), transaction.atomic():
        call_command("loaddata", fixture(acme, **values), verbosity=0)

    assert not acme.overrides.exists()


@pytest.fixture
def fixture(tmp_path: Path) -> Callable[..., Path]:
    def write(tenant: Tenant, **values: Any) -> Path:
        now = timezone.now()
        fields = {
            "tenant": tenant.pk,
            "target": "all-rate",
            "amount": 40,
            "reason": "Imported",
            "starts_at": now.isoformat(),
            "expires_at": (now + DAY).isoformat(),
            "created_at": now.isoformat(),
        }
        path = tmp_path / "overrides.json"
        path.write_text(json.dumps([{"model": "tenantlimits.override", "pk": 99, "fields": fields | values}]))
        return path

    return write
