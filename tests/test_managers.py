"""Bulk operations are recorded row by row and move policies, or are refused: they never go unnoticed."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models import Case, F, Value, When

from tenantlimits import managers
from tenantlimits.changes import MOST_KEYS
from tenantlimits.domain.errors import InvalidLimit, InvalidOverride, InvalidTenant
from tenantlimits.models import Change, Limit, Override, Tenant, Tier
from tenantlimits.signals import policy_changed
from tests import rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def pro() -> Tier:
    return rows.pro()


@pytest.fixture
def cast(pro: Tier) -> list[Tenant]:
    return [Tenant.objects.create(key=key, tier=pro) for key in ("acme", "bolt", "cedar")]


@pytest.fixture
def told() -> Iterator[list[Any]]:
    """The tenants of every `policy_changed`, in order."""
    heard: list[Any] = []

    def hear(tenants: frozenset[str] | None, **_kwargs: object) -> None:
        heard.append(tenants)

    policy_changed.connect(hear)
    yield heard
    policy_changed.disconnect(hear)


def logged(action: str) -> dict[str, dict[str, Any]]:
    """What the log says of each object."""
    return dict(Change.objects.filter(action=action).values_list("object", "changes"))


def test_update_is_logged_for_each_row_that_changed(cast: list[Tenant], told: list[Any]) -> None:
    Tenant.objects.filter(key="bolt").update(mode="off")
    told.clear()

    count = Tenant.objects.filter(key__in=["acme", "bolt"]).update(mode="off")

    assert count == 2
    assert logged("changed") == {"bolt": {"mode": ["enforce", "off"]}, "acme": {"mode": ["enforce", "off"]}}
    assert told == [{"acme", "bolt"}]


def test_update_by_an_expression_is_logged_as_the_database_computed_it(pro: Tier, told: list[Any]) -> None:
    pro.limits.update(amount=F("amount") * 2)

    assert logged("changed") == {"pro/all-rate": {"amount": [20, 40]}, "pro/exports-cap": {"amount": [6, 12]}}
    assert told == [None]


def test_update_of_nothing_says_nothing(cast: list[Tenant], told: list[Any]) -> None:
    assert Tenant.objects.filter(key="nobody").update(mode="off") == 0
    assert told == []


def test_an_update_that_breaks_a_rule_is_taken_back(pro: Tier, cast: list[Tenant]) -> None:
    with pytest.raises(InvalidLimit, match="give a period"):
        pro.limits.update(period_seconds=0)
    with pytest.raises(InvalidTenant, match="IANA name"):
        Tenant.objects.update(time_zone="Mars")

    assert Limit.objects.get(name="all-rate").period_seconds == 1
    assert logged("changed") == {}


def test_a_large_update_goes_in_chunks_and_tells_once(
    pro: Tier, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(managers, "CHUNK", 4)
    Tenant.objects.bulk_create([Tenant(key=f"tenant-{number}", tier=pro) for number in range(10)])
    told.clear()

    count = Tenant.objects.filter(tier=pro).update(tier=None)

    assert count == 10
    assert len(logged("changed")) == 10
    assert [len(keys) for keys in told] == [10]


def test_more_tenants_than_shards_can_tell_apart_are_told_as_all(pro: Tier, told: list[Any]) -> None:
    Tenant.objects.bulk_create([Tenant(key=f"tenant-{number}", tier=pro) for number in range(MOST_KEYS + 1)])

    assert told == [None]
    assert len(logged("created")) >= MOST_KEYS + 1


def test_bulk_create_is_logged_for_each_row(pro: Tier, told: list[Any]) -> None:
    Tenant.objects.bulk_create([Tenant(key="acme", tier=pro), Tenant(key="bolt")])

    assert logged("created")["acme"]["tier"] == [None, "pro"]
    assert logged("created")["bolt"]["key"] == [None, "bolt"]
    assert told == [{"acme", "bolt"}]


def test_bulk_create_passes_the_rules(pro: Tier) -> None:
    with pytest.raises(InvalidLimit, match="slug"):
        Limit.objects.bulk_create([Limit(tier=pro, name="a b", amount=1, period_seconds=1)])


@pytest.mark.parametrize("options", [{"ignore_conflicts": True}, {"update_conflicts": True}])
def test_what_cannot_be_logged_is_refused(pro: Tier, options: dict[str, bool]) -> None:
    with pytest.raises(TypeError, match="get_or_create"):
        Tenant.objects.bulk_create([Tenant(key="acme")], **options)


def test_bulk_update_is_logged_for_each_row(cast: list[Tenant], told: list[Any]) -> None:
    for tenant in cast[:2]:
        tenant.name = tenant.key.upper()

    Tenant.objects.bulk_update(cast[:2], ["name"])

    assert logged("changed") == {"ACME": {"name": ["", "ACME"]}, "BOLT": {"name": ["", "BOLT"]}}
    assert told == [{"acme", "bolt"}]


def test_an_update_by_cases_is_logged_for_each_row(cast: list[Tenant]) -> None:
    Tenant.objects.update(mode=Case(When(key="acme", then=Value("off")), default=F("mode")))

    assert logged("changed") == {"acme": {"mode": ["enforce", "off"]}}


def test_delete_is_logged_for_each_row(cast: list[Tenant], told: list[Any]) -> None:
    Tenant.objects.filter(key__in=["acme", "bolt"]).delete()

    assert set(logged("deleted")) == {"acme", "bolt"}
    assert sorted(told, key=sorted) == [{"acme"}, {"bolt"}]


def test_get_or_create_and_update_or_create_are_logged(pro: Tier, told: list[Any]) -> None:
    Tenant.objects.get_or_create(key="acme", defaults={"tier": pro})
    Tenant.objects.update_or_create(key="acme", defaults={"mode": "off"})

    assert logged("changed") == {"acme": {"mode": ["enforce", "off"]}}
    assert told == [{"acme"}, {"acme"}]


def test_adding_tenants_to_a_tier_is_logged(pro: Tier, cast: list[Tenant], told: list[Any]) -> None:
    """Related managers go past a model's default manager, not past this one."""
    anonymous = Tier.objects.get(slug="anonymous")

    anonymous.tenants.add(cast[0], cast[1])
    anonymous.tenants.remove(cast[0])

    assert logged("changed")["bolt"] == {"tier": ["pro", "anonymous"]}
    assert logged("changed")["acme"] in ({"tier": ["pro", "anonymous"]}, {"tier": ["anonymous", None]})
    assert told == [{"acme", "bolt"}, {"acme"}]


async def test_the_async_twins_are_logged_too(told: list[Any]) -> None:
    await Tenant.objects.abulk_create([Tenant(key="acme"), Tenant(key="bolt")])
    await Tenant.objects.filter(key="acme").aupdate(mode="off")
    bolt = await Tenant.objects.aget(key="bolt")
    bolt.name = "Bolt"
    await Tenant.objects.abulk_update([bolt], ["name"])
    await bolt.asave()
    await Tenant.objects.filter(key="bolt").adelete()

    assert told == [{"acme", "bolt"}, {"acme"}, {"bolt"}, {"bolt"}, {"bolt"}]
    assert await Change.objects.filter(object__in=["acme", "bolt", "Bolt"]).acount() == 5


def test_overrides_are_written_one_by_one(cast: list[Tenant]) -> None:
    """C182: in bulk they could overlap."""
    override = rows.override(cast[0])
    override.save()
    override.amount = 1

    with pytest.raises(InvalidOverride, match="save each of them"):
        Override.objects.update(amount=1)
    with pytest.raises(InvalidOverride, match="save each of them"):
        Override.objects.bulk_update([override], ["amount"])
    with pytest.raises(InvalidOverride, match="grant each of them"):
        Override.objects.bulk_create([rows.override(cast[1])])

    assert list(Override.objects.values_list("amount", flat=True)) == [40]


@pytest.mark.parametrize("model", [Tier, Limit, Tenant, Override, Change])
def test_no_manager_empties_its_table(model: Any) -> None:
    assert not hasattr(model.objects, "delete")
