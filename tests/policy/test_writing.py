"""The functions that change what a tenant may do."""

from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.utils import timezone

from tenantlimits import policy
from tenantlimits.changes import acting
from tenantlimits.domain.errors import InvalidOverride, InvalidTenant, TenantLimitsError, UnknownTenant, UnknownTier
from tenantlimits.models import Change, Limit, Tenant, Tier
from tenantlimits.policy import grant_override, invalidate, revoke_override, set_tier
from tenantlimits.signals import policy_changed

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def free() -> Tier:
    tier = Tier.objects.create(slug="free", name="Free")
    Limit.objects.create(tier=tier, name="all-rate", amount=2, period_seconds=1, burst=10)
    return tier


@pytest.fixture
def staff() -> User:
    return User.objects.create_user("staff")


def tomorrow() -> datetime:
    return timezone.now() + DAY


def test_the_public_names_are_there() -> None:
    assert {"set_tier", "grant_override", "revoke_override", "invalidate"} <= set(policy.__all__)


class TestSetTier:
    @pytest.mark.parametrize("by_row", [True, False])
    def test_it_moves_the_tenant_and_says_who_and_why(
        self, acme: Tenant, free: Tier, staff: User, by_row: bool
    ) -> None:
        tenant = set_tier(acme if by_row else "acme", "free", reason="Subscription ended", by=staff)

        line = Change.objects.latest("pk")
        assert (tenant.key, tenant.tier, Tenant.objects.get(key="acme").tier) == ("acme", free, free)
        assert (line.changes, line.actor, line.reason) == ({"tier": ["pro", "free"]}, staff, "Subscription ended")

    def test_twice_changes_nothing_more(self, acme: Tenant, free: Tier) -> None:
        set_tier("acme", "free", reason="Subscription ended")
        before = Change.objects.count()

        set_tier("acme", "free", reason="Subscription ended")

        assert Change.objects.count() == before

    def test_none_is_the_default_tier(self, acme: Tenant, free: Tier) -> None:
        tenant = set_tier("acme", None, reason="Subscription ended")

        assert (tenant.tier, tenant.own_tier()) == (None, free)

    def test_a_row_that_is_out_of_date_does_not_undo_what_others_wrote(self, acme: Tenant, free: Tier) -> None:
        Tenant.objects.filter(key="acme").update(mode="observe")

        set_tier(acme, "free", reason="Subscription ended")

        assert Tenant.objects.get(key="acme").mode == "observe"

    def test_whoever_acts_is_named_unless_somebody_else_is(self, acme: Tenant, free: Tier, staff: User) -> None:
        with acting(staff):
            set_tier("acme", "free", reason="Subscription ended")

        assert Change.objects.latest("pk").actor == staff

    def test_an_unknown_tenant_is_refused(self, free: Tier) -> None:
        with pytest.raises(UnknownTenant, match="no tenant 'cedar'"):
            set_tier("cedar", "free", reason="Subscription ended")

    def test_an_unknown_tier_is_refused_with_those_there_are(self, acme: Tenant, free: Tier) -> None:
        with pytest.raises(UnknownTier) as refusal:
            set_tier("acme", "fre", reason="Subscription ended")

        assert str(refusal.value) == "There is no tier 'fre': there are anonymous, free, pro. Did you mean 'free'?"

    def test_a_tier_without_limits_is_refused(self, acme: Tenant) -> None:
        """C181."""
        Tier.objects.create(slug="empty", name="Empty")

        with pytest.raises(InvalidTenant, match="unlimited by accident"):
            set_tier("acme", "empty", reason="Subscription ended")

    def test_no_reason_is_refused(self, acme: Tenant, free: Tier) -> None:
        with pytest.raises(TenantLimitsError, match="Say why"):
            set_tier("acme", "free", reason=" ")

    def test_callers_without_a_tenant_stay_on_the_tier_of_the_settings(self, free: Tier) -> None:
        with pytest.raises(InvalidTenant, match="ANONYMOUS_TIER"):
            set_tier("", "free", reason="Why not")


class TestGrantOverride:
    def test_it_is_kept_with_everything_that_was_said(self, acme: Tenant, staff: User) -> None:
        """V1."""
        end = tomorrow()
        before = timezone.now()

        override = grant_override(
            "acme", "all-rate", amount=40, burst=90, reason="Black Friday", expires_at=end, note="Ticket 7", by=staff
        )

        row = acme.overrides.get()
        line = Change.objects.latest("pk")
        assert row == override
        assert (row.target, row.amount, row.burst, row.unlimited) == ("all-rate", 40, 90, False)
        assert (row.reason, row.note, row.created_by, row.expires_at) == ("Black Friday", "Ticket 7", staff, end)
        assert before <= row.starts_at <= timezone.now()
        assert (line.action, line.object, line.actor, line.reason, line.tenant) == (
            "created",
            "all-rate of acme",
            staff,
            "Black Friday",
            acme,
        )

    def test_it_may_start_later_lend_a_tier_or_lift_a_limit(self, acme: Tenant, free: Tier) -> None:
        later = tomorrow()

        grant_override("acme", "tier:free", reason="Trial", starts_at=later, expires_at=later + DAY)
        grant_override(acme, "exports-cap", unlimited=True, reason="Trial", expires_at=later)
        grant_override(acme, "all-rate", amount=0, reason="Abuse", expires_at=later)

        assert list(acme.overrides.order_by("pk").values_list("target", "amount", "unlimited")) == [
            ("tier:free", None, False),
            ("exports-cap", None, True),
            ("all-rate", 0, False),
        ]

    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("exports-share", "no limit 'exports-share' on tier pro: there are all-rate, exports-cap"),
            ("tier:gold", "no tier 'gold' to lend"),
            ("tier:empty", "Tier empty has no limits"),
        ],
    )
    def test_a_target_that_is_not_there_is_refused_with_those_there_are(
        self, acme: Tenant, target: str, words: str
    ) -> None:
        Tier.objects.create(slug="empty", name="Empty")
        amount = None if target.startswith("tier:") else 1

        with pytest.raises(InvalidOverride, match=words):
            grant_override("acme", target, amount=amount, reason="Trial", expires_at=tomorrow())

    def test_a_tenant_whose_tier_has_no_row_yet_has_no_targets(self) -> None:
        Tenant.objects.create(key="bolt")

        with pytest.raises(InvalidOverride, match="no limit 'all-rate' on tier free: there are none yet"):
            grant_override("bolt", "all-rate", amount=1, reason="Trial", expires_at=tomorrow())

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"reason": " "}, "needs a reason"),
            ({"reason": "x" * 501}, "at most 500"),
            ({"amount": None}, "write an amount"),
            ({"amount": 1.5}, "whole number"),
            ({"amount": "40"}, "whole number"),
            ({"amount": 10**12 + 1}, "1,000,000,000,000"),
            ({"unlimited": True}, "not both"),
            ({"expires_at": datetime(2027, 3, 28, 2, 30)}, "has no time zone"),  # noqa: DTZ001 - that is the case
            ({"starts_at": datetime(2020, 3, 28, 2, 30)}, "has no time zone"),  # noqa: DTZ001 - that is the case
        ],
    )
    def test_what_may_not_be_written_is_refused(self, acme: Tenant, values: dict[str, Any], words: str) -> None:
        """C183, C184, V1."""
        sound: dict[str, Any] = {"amount": 40, "reason": "Black Friday", "expires_at": tomorrow()}

        with pytest.raises(InvalidOverride, match=words):
            grant_override("acme", "all-rate", **sound | values)

        assert not acme.overrides.exists()

    @pytest.mark.parametrize(
        ("away", "words"), [(-DAY, "in the past"), (timedelta(0), "not after the start"), (91 * DAY, "90 days")]
    )
    def test_an_end_that_is_over_or_too_far_is_refused(self, acme: Tenant, away: timedelta, words: str) -> None:
        """C183."""
        now = timezone.now()
        start = now - 2 * DAY if away < timedelta(0) else None

        with time_machine.travel(now, tick=False), pytest.raises(InvalidOverride, match=words):
            grant_override("acme", "all-rate", amount=1, reason="Trial", starts_at=start, expires_at=now + away)

    def test_a_second_one_of_the_same_target_is_refused(self, acme: Tenant) -> None:
        """C182: a double click."""
        grant_override("acme", "all-rate", amount=40, reason="Black Friday", expires_at=tomorrow())

        with pytest.raises(InvalidOverride, match="already has an override of all-rate"):
            grant_override("acme", "all-rate", amount=40, reason="Black Friday", expires_at=tomorrow())

        assert acme.overrides.count() == 1

    def test_an_unknown_tenant_is_refused(self) -> None:
        with pytest.raises(UnknownTenant):
            grant_override("cedar", "all-rate", amount=1, reason="Trial", expires_at=tomorrow())


class TestRevokeOverride:
    @pytest.mark.parametrize("by_row", [True, False])
    def test_it_ends_the_override_and_keeps_who_and_why(self, acme: Tenant, staff: User, by_row: bool) -> None:
        override = grant_override("acme", "all-rate", amount=40, reason="Black Friday", expires_at=tomorrow())

        revoked = revoke_override(override if by_row else override.pk, reason="Wrong tenant", by=staff)

        assert (revoked.revoke_reason, revoked.revoked_by) == ("Wrong tenant", staff)
        assert not acme.overrides.get().is_in_force(timezone.now())
        assert Change.objects.latest("pk").reason == "Wrong tenant"

    def test_twice_changes_nothing_more(self, acme: Tenant) -> None:
        override = grant_override("acme", "all-rate", amount=40, reason="Black Friday", expires_at=tomorrow())
        first = revoke_override(override, reason="Wrong tenant")

        second = revoke_override(override, reason="Once more")

        assert (second.revoked_at, second.revoke_reason) == (first.revoked_at, "Wrong tenant")

    def test_one_that_is_over_stays_as_it_was(self, acme: Tenant) -> None:
        override = grant_override("acme", "all-rate", amount=40, reason="Black Friday", expires_at=tomorrow())

        with time_machine.travel(timezone.now() + 2 * DAY, tick=False):
            revoke_override(override, reason="Too late")

        assert acme.overrides.get().revoked_at is None

    def test_another_one_may_follow_at_once(self, acme: Tenant) -> None:
        override = grant_override("acme", "all-rate", amount=40, reason="Black Friday", expires_at=tomorrow())

        revoke_override(override, reason="Too much")
        grant_override("acme", "all-rate", amount=30, reason="Black Friday", expires_at=tomorrow())

        assert acme.overrides.count() == 2

    def test_no_reason_is_refused(self, acme: Tenant) -> None:
        override = grant_override("acme", "all-rate", amount=40, reason="Black Friday", expires_at=tomorrow())

        with pytest.raises(InvalidOverride, match="with a reason"):
            revoke_override(override, reason=" ")

    def test_an_unknown_one_is_refused(self) -> None:
        with pytest.raises(InvalidOverride, match="no override #99"):
            revoke_override(99, reason="Wrong tenant")


class TestInvalidate:
    def test_it_is_told_and_logged_each_time(self, acme: Tenant, staff: User) -> None:
        heard: list[Any] = []

        def hear(tenants: Any, **_kwargs: object) -> None:
            heard.append(tenants)

        policy_changed.connect(hear)
        with acting(staff, "Import"):
            invalidate("acme")
            invalidate(acme)
        policy_changed.disconnect(hear)

        lines = Change.objects.filter(action="invalidated").values_list("tenant", "actor", "reason", "changes")
        assert heard == [{"acme"}, {"acme"}]
        assert list(lines) == [(acme.pk, staff.pk, "Import", {})] * 2

    def test_an_unknown_tenant_is_refused(self) -> None:
        with pytest.raises(UnknownTenant):
            invalidate("cedar")


def test_an_override_granted_by_a_clock_that_is_ahead_is_in_force_at_once(acme: Tenant) -> None:
    """R3, R5: a client whose clock is minutes off changes nothing."""
    now = timezone.now()
    with time_machine.travel(now + timedelta(minutes=10), tick=True):
        granted = grant_override("acme", "all-rate", amount=50, reason="import", expires_at=now + timedelta(days=1))

    assert granted.is_in_force(now)
