"""Every change of a row is logged with who and why, and moves the policies that it is part of."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.management import call_command
from django.db import transaction
from django.db.models import F
from django.utils.functional import SimpleLazyObject

from tenantlimits.changes import acting, current_acting
from tenantlimits.models import Change, Switch, Tenant, Tier
from tenantlimits.signals import override_changed, policy_changed, tier_changed
from tests import rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def pro() -> Tier:
    return rows.pro()


@pytest.fixture
def acme(pro: Tier) -> Tenant:
    return Tenant.objects.create(key="acme", name="Acme", tier=pro)


@pytest.fixture
def told() -> Iterator[list[Any]]:
    """The tenants of every `policy_changed`, in order."""
    heard: list[Any] = []

    def hear(tenants: frozenset[str] | None, using: str, **_kwargs: object) -> None:
        assert using == "default"
        heard.append(tenants)

    policy_changed.connect(hear)
    yield heard
    policy_changed.disconnect(hear)


def lines(**fields: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """What the log says, oldest first."""
    return list(Change.objects.filter(**fields).order_by("pk").values_list("action", "object", "changes"))


def test_a_new_row_is_logged_with_all_that_is_in_it(pro: Tier) -> None:
    Tenant.objects.create(key="acme", name="Acme", tier=pro)

    assert lines(model="tenant") == [
        (
            "created",
            "Acme",
            {"key": [None, "acme"], "name": [None, "Acme"], "tier": [None, "pro"], "mode": [None, "enforce"]},
        )
    ]


def test_a_change_is_logged_as_old_and_new_with_who_and_why(acme: Tenant) -> None:
    """V1."""
    staff = User.objects.create_user("staff")
    acme.mode = "observe"

    with acting(staff, "Incident 7"):
        acme.save()

    line = Change.objects.latest("pk")
    assert (line.action, line.changes) == ("changed", {"mode": ["enforce", "observe"]})
    assert (line.actor, line.actor_name, line.reason) == (staff, "staff", "Incident 7")
    assert (line.tenant, line.object_id) == (acme, acme.pk)


def test_saving_a_row_as_it_was_logs_nothing(acme: Tenant, pro: Tier, told: list[Any]) -> None:
    """C31: stamps may move, since the database may have been changed past us."""
    before = Change.objects.count()

    acme.save()
    pro.save()

    assert Change.objects.count() == before
    assert told == [{"acme"}, None]


def test_a_tier_is_logged_by_its_slug(acme: Tenant) -> None:
    acme.tier = Tier.objects.get(slug="anonymous")
    acme.save()

    assert lines(model="tenant")[-1][2] == {"tier": ["pro", "anonymous"]}


def test_what_was_not_saved_is_not_logged(acme: Tenant) -> None:
    acme.name, acme.mode = "Acme Ltd", "off"

    acme.save(update_fields=["mode"])

    assert lines(model="tenant")[-1][2] == {"mode": ["enforce", "off"]}


def test_what_the_database_computed_is_logged_as_it_is(pro: Tier) -> None:
    Tier.objects.filter(pk=pro.pk).update(name=F("slug"))

    assert lines(model="tier", object="pro") == [("changed", "pro", {"name": ["Pro", "pro"]})]


def test_unlimited_is_logged_by_that_word(pro: Tier) -> None:
    """C188."""
    limit = pro.limits.get(name="all-rate")
    limit.amount = None
    limit.save()

    assert lines(object="pro/all-rate")[-1][2] == {"amount": [20, "unlimited"]}


def test_a_deleted_tier_is_logged_with_its_limits(pro: Tier) -> None:
    pro.delete()

    assert {name for _action, name, _changes in lines(action="deleted")} == {"pro/all-rate", "pro/exports-cap", "Pro"}


def test_the_log_of_a_tenant_that_is_gone_stays(acme: Tenant) -> None:
    acme.delete()

    line = Change.objects.latest("pk")
    assert (line.action, line.object, line.tenant) == ("deleted", "Acme", None)
    assert Change.objects.filter(model="tenant").count() == 2


def test_the_name_of_a_user_who_is_gone_stays(acme: Tenant) -> None:
    staff = User.objects.create_user("staff")
    acme.mode = "off"
    with acting(staff):
        acme.save()

    staff.delete()

    line = Change.objects.latest("pk")
    assert (line.actor, line.actor_name) == (None, "staff")


def test_whoever_changes_a_row_says_whose_policies_differ(acme: Tenant, pro: Tier, told: list[Any]) -> None:
    """R3."""
    rows.override(acme).save()
    acme.save()
    pro.save()
    pro.limits.get(name="all-rate").save()
    Switch(mode="observe", reason="Incident 7").save()

    assert told == [{"acme"}, {"acme"}, None, None, None]


def test_a_new_key_moves_the_policy_of_both(acme: Tenant, told: list[Any]) -> None:
    acme.key = "acme-2"
    acme.save()

    assert told == [{"acme", "acme-2"}]


def test_the_signal_is_sent_inside_the_transaction(acme: Tenant) -> None:
    """So that whoever hears it can wait for the commit, or undo all by an error."""

    def refuse(**_kwargs: object) -> None:
        assert transaction.get_connection().in_atomic_block
        raise RuntimeError("no")

    policy_changed.connect(refuse)
    acme.mode = "off"
    try:
        with pytest.raises(RuntimeError):
            acme.save()
    finally:
        policy_changed.disconnect(refuse)

    assert Tenant.objects.get(key="acme").mode == "enforce"
    assert not Change.objects.filter(action="changed").exists()


def test_loaddata_is_logged_and_moves_policies(acme: Tenant, tmp_path: Path, told: list[Any]) -> None:
    """A limit may stand before its tier, as it may in any fixture."""
    fields = {"name": "free-rate", "tier": 77, "amount": 2, "period_seconds": 1}
    fixture = [
        {"model": "tenantlimits.limit", "pk": 77, "fields": fields},
        {"model": "tenantlimits.tier", "pk": 77, "fields": {"slug": "free", "name": "Free"}},
        {"model": "tenantlimits.tenant", "pk": acme.pk, "fields": {"key": "acme", "name": "Acme", "tier": 77}},
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(fixture))

    call_command("loaddata", path, verbosity=0)

    assert [(action, name) for action, name, _changes in lines()][-3:] == [
        ("created", "limit 77"),
        ("created", "Free"),
        ("changed", "Acme"),
    ]
    assert lines()[-1][2] == {"tier": ["pro", "free"]}
    assert told == [None, None, {"acme"}]


def test_a_hosts_proxy_of_a_row_is_watched_too(acme: Tenant, told: list[Any]) -> None:
    from django.apps import apps  # noqa: PLC0415 - a model that only this test needs

    class HostTenant(Tenant):
        class Meta:
            proxy = True
            app_label = "tenantlimits"

    try:
        apps.get_app_config("tenantlimits").ready()
        host = HostTenant.objects.get(key="acme")
        host.mode = "off"
        host.save()
    finally:
        del apps.all_models["tenantlimits"]["hosttenant"]
        apps.clear_cache()

    assert lines(action="changed") == [("changed", "Acme", {"mode": ["enforce", "off"]})]
    assert told == [{"acme"}]


class TestActing:
    def test_nobody_is_at_work_unless_named(self) -> None:
        assert (current_acting().user, current_acting().reason) == (None, "")

    def test_the_inner_one_counts_and_the_outer_one_comes_back(self) -> None:
        one, other = User(username="one"), User(username="other")

        with acting(one, "first"):
            with acting(other, "second"):
                inner = current_acting()
            outer = current_acting()

        assert (inner.user, inner.reason) == (other, "second")
        assert (outer.user, outer.reason) == (one, "first")

    def test_it_ends_with_an_error_too(self) -> None:
        with pytest.raises(ZeroDivisionError), acting(User(username="one")):
            raise ZeroDivisionError

        assert current_acting().user is None

    def test_a_user_who_is_not_logged_in_is_nobody(self) -> None:
        with acting(AnonymousUser(), "poking about"):
            assert current_acting().user is None

    def test_the_user_of_a_request_may_be_lazy(self, acme: Tenant) -> None:
        staff = User.objects.create_user("staff")
        acme.mode = "off"

        with acting(SimpleLazyObject(lambda: staff)):
            acme.save()

        assert Change.objects.latest("pk").actor == staff


class TestPublicSignals:
    def test_a_new_tier_is_told_once_it_is_committed(
        self, acme: Tenant, django_capture_on_commit_callbacks: Any
    ) -> None:
        heard: list[dict[str, Any]] = []

        def hear(**kwargs: Any) -> None:
            heard.append(kwargs)

        tier_changed.connect(hear)
        with django_capture_on_commit_callbacks(execute=True):
            acme.tier = None
            acme.save()
            before_commit = list(heard)
        tier_changed.disconnect(hear)

        assert before_commit == []
        assert [(one["sender"], one["tenant"], one["old"], one["new"]) for one in heard] == [
            (Tenant, "acme", "pro", None)
        ]

    def test_an_override_is_told_as_new_and_as_changed(
        self, acme: Tenant, django_capture_on_commit_callbacks: Any
    ) -> None:
        heard: list[tuple[int, bool]] = []

        def hear(override: Any, created: bool, **_kwargs: object) -> None:
            heard.append((override.pk, created))

        override_changed.connect(hear)
        with django_capture_on_commit_callbacks(execute=True):
            override = rows.override(acme)
            override.save()
            override.amount = 50
            override.save()
        override_changed.disconnect(hear)

        assert heard == [(override.pk, True), (override.pk, False)]

    def test_a_receiver_that_fails_undoes_nothing(
        self, acme: Tenant, django_capture_on_commit_callbacks: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(**_kwargs: object) -> None:
            raise RuntimeError("mail server down")

        override_changed.connect(fail)
        with django_capture_on_commit_callbacks(execute=True):
            rows.override(acme).save()
        override_changed.disconnect(fail)

        assert acme.overrides.count() == 1
        assert "mail server down" in caplog.text
