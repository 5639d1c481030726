"""The system checks: each finds its mistake, under its id, and says what to do."""

import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from django.http import HttpResponse
from django.test import override_settings
from django.utils import timezone
from django_redis.cache import RedisCache

from tenantlimits import checks
from tenantlimits.conf import SETTINGS, conf
from tenantlimits.middleware import TenantLimitsMiddleware
from tenantlimits.models import Limit, Share, Tenant, Tier, UsageHour
from tenantlimits.testing import memory_engine

REQUIRED = {"TENANT_RESOLVER": len, "DEFAULT_TIER": "free"}
OWN_CACHE = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "limits": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:6379/1"},
}


class HostCache(RedisCache):
    """A host's own subclass."""


def found(databases: Sequence[str] = ()) -> dict[str, CheckMessage]:
    """What our checks find, by id without the app's name. (Asked by tag alone, Django 6.1 checks all databases.)"""
    messages = run_checks(tags=["tenantlimits"], databases=list(databases))
    return {str(message.id).removeprefix("tenantlimits."): message for message in messages}


@pytest.fixture
def sound(settings: Any) -> Any:
    """Settings that no check complains about."""
    settings.TENANTLIMITS = REQUIRED | {"CACHE_ALIAS": "limits"}
    settings.CACHES = OWN_CACHE
    settings.MIDDLEWARE = [checks.AUTHENTICATION, checks.MIDDLEWARE]
    settings.ROOT_URLCONF = None  # views are checked in tests/surfaces
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_CLASSES": [checks.THROTTLE]}
    return settings


def test_a_sound_installation_has_nothing_to_complain_about(sound: Any) -> None:
    assert found() == {}


def test_every_setting_has_a_check_with_an_id_of_its_own() -> None:
    assert list(checks.SETTING_IDS) == list(SETTINGS)
    assert len(set(checks.SETTING_IDS.values())) == len(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_found_under_its_own_id(sound: Any, name: str) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {name: object()}

    assert list(found()) == [checks.SETTING_IDS[name]]


def test_an_unknown_key_is_found_besides_wrong_values(sound: Any) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"LEASE_SECOND": 1, "STORE": "reddis"}

    messages = found()

    assert set(messages) == {"E001", "E011"}
    assert "Did you mean 'LEASE_SECONDS'?" in messages["E001"].msg


def test_settings_that_are_no_dict_are_found_once(sound: Any) -> None:
    sound.TENANTLIMITS = None

    assert list(found()) == ["E001"]


@pytest.mark.parametrize(
    ("middleware", "expected"),
    [
        ([checks.AUTHENTICATION], {"E030", "E033"}),
        ([checks.AUTHENTICATION, checks.MIDDLEWARE, checks.MIDDLEWARE], {"E031"}),
        ([checks.MIDDLEWARE, checks.AUTHENTICATION], {"E032"}),
        ([checks.AUTHENTICATION, checks.MIDDLEWARE, checks.CORS], {"W035"}),
        ([checks.CORS, checks.AUTHENTICATION, checks.MIDDLEWARE], set()),
        ([checks.MIDDLEWARE], set()),
    ],
)
def test_the_place_of_the_middleware_is_checked(sound: Any, middleware: list[str], expected: set[str]) -> None:
    sound.MIDDLEWARE = middleware

    assert set(found()) == expected


def test_the_throttle_without_drf_settings_asks_for_nothing(sound: Any) -> None:
    del sound.REST_FRAMEWORK

    assert found() == {}


def test_instants_without_a_zone_are_found(sound: Any) -> None:
    """C184."""
    sound.USE_TZ = False

    assert list(found()) == ["E034"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["E036"]),
        ({"enable-threads": b"false"}, ["E036"]),
        ({"enable-threads": True}, []),
        ({"enable-threads": b"true"}, []),
        ({"threads": [b"4"]}, []),
        ({"gevent": b"100"}, []),
    ],
    ids=str,
)
def test_uwsgi_without_threads_is_found_and_does_not_start(
    sound: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: list[str]
) -> None:
    """Its module is there only inside it, so one stands in for it here."""
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt=options))

    assert list(found()) == expected
    with pytest.raises(ImproperlyConfigured, match="enable-threads = true") if expected else nullcontext():
        conf.validate()


def test_an_alias_that_no_cache_has_is_found(sound: Any) -> None:
    sound.TENANTLIMITS = REQUIRED | {"CACHE_ALIAS": "limit"}

    assert list(found()) == ["E040"]


def test_djangos_own_redis_cache_is_refused_with_the_two_lines_to_change(sound: Any) -> None:
    sound.CACHES = {
        "limits": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://cache:6379/3"},
    }

    message = found()["E041"]

    assert '"BACKEND": "django_redis.cache.RedisCache", "LOCATION": \'redis://cache:6379/3\'' in str(message.hint)


@pytest.mark.parametrize("backend", ["locmem.LocMemCache", "dummy.DummyCache", "db.DatabaseCache", "nothing.Here"])
def test_a_cache_that_is_no_redis_is_refused(sound: Any, backend: str) -> None:
    """C02: with no Redis configured, starting fails instead of counting per process silently."""
    sound.CACHES = {"limits": {"BACKEND": f"django.core.cache.backends.{backend}"}}

    assert list(found()) == ["E042"]


@pytest.mark.parametrize(
    ("location", "options", "words"),
    [
        ("unix:///redis.sock?ssl_ca_certs=x", {}, "makes no UnixDomainSocketConnection"),
        ("redis://127.0.0.1:1/8", {"CONNECTION_POOL_KWARGS": {"connection_class": object}}, "object is no kind of"),
        ("127.0.0.1:6379", {}, "Redis URL must specify one of the following schemes"),
        ("redis://127.0.0.1:six/0", {}, "'six'"),
        ("redis://sentinel/0", {"CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory"}, "SENTINELS must"),
    ],
)
def test_a_cache_of_which_no_connection_can_be_made_is_refused(
    sound: Any, location: str, options: dict[str, Any], words: str
) -> None:
    """Also where a server starts without system checks."""
    sound.CACHES = {"limits": OWN_CACHE["limits"] | {"LOCATION": location, "OPTIONS": options}}

    messages = found()

    assert list(messages) == ["E045"]
    assert words in messages["E045"].msg
    with pytest.raises(ImproperlyConfigured, match=words):
        TenantLimitsMiddleware(HttpResponse)


def test_a_cluster_has_no_databases_and_its_password_is_not_shown(sound: Any) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"CLUSTER": True}
    sound.CACHES = {"limits": OWN_CACHE["limits"] | {"LOCATION": "redis://:secret@127.0.0.1:6379/1"}}

    messages = found()

    assert list(messages) == ["E045"]
    assert "database 0" in messages["E045"].msg
    assert "secret" not in messages["E045"].msg


def test_a_store_that_was_replaced_needs_no_cache(sound: Any) -> None:
    """In a host's own tests, which may have none."""
    sound.CACHES = {}
    with memory_engine():
        TenantLimitsMiddleware(HttpResponse)


def test_a_subclass_of_the_redis_cache_will_do(sound: Any) -> None:
    sound.CACHES = {"limits": OWN_CACHE["limits"] | {"BACKEND": "tests.test_checks.HostCache"}}

    assert found() == {}


def test_the_memory_store_needs_no_cache_but_is_for_tests(sound: Any) -> None:
    """C02."""
    sound.TENANTLIMITS = REQUIRED | {"STORE": "memory", "CACHE_ALIAS": "default"}

    in_production = found()
    sound.DEBUG = True
    in_development = found()

    assert list(in_production) == ["W044"]
    assert in_development == {}


@pytest.mark.parametrize("alias", ["default", "limits"])
def test_a_database_that_clearing_a_cache_would_empty_is_found(sound: Any, alias: str) -> None:
    """C108."""
    cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:6379/0"}
    sound.TENANTLIMITS = REQUIRED | {"CACHE_ALIAS": alias}
    sound.CACHES = {"default": cache, "limits": cache}

    assert list(found()) == ["W043"]


@pytest.mark.django_db
def test_rows_are_looked_at_only_with_a_database(sound: Any) -> None:
    assert "W061" in found(databases=["default"])
    assert found() == {}


@pytest.mark.django_db
def test_a_default_tier_without_a_row_is_found_with_how_to_make_it(sound: Any) -> None:
    message = found(databases=["default"])["W061"]

    assert "DEFAULT_TIER: its tenants are counted but not limited" in message.msg
    assert "Tier.objects.create(slug='free')" in str(message.hint)


@pytest.mark.django_db
@pytest.mark.parametrize(("slug", "expected"), [("visitors", True), ("anonymous", False), (None, False)])
def test_an_anonymous_tier_without_a_row_is_found(sound: Any, slug: str | None, expected: bool) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"ANONYMOUS_TIER": slug}

    assert ("W062" in found(databases=["default"])) is expected


@pytest.mark.django_db
def test_a_limit_in_a_lane_that_no_setting_names_is_found(sound: Any) -> None:
    with override_settings(TENANTLIMITS=REQUIRED | {"LANES": {"exports": {}}}):
        tier = Tier.objects.create(slug="free", name="Free")
        Limit.objects.create(tier=tier, name="exports-rate", lane="exports", amount=3, period_seconds=60)
        before = found(databases=["default"])

    message = found(databases=["default"])["W060"]

    assert "W060" not in before
    assert message.msg.startswith("Limit exports-rate of tier free is in lane 'exports'")


@pytest.mark.django_db
def test_a_tier_in_use_without_limits_is_found(sound: Any) -> None:
    """C181."""
    Tier.objects.create(slug="free", name="Free")
    Tier.objects.create(slug="unused", name="Unused")
    pro = Tier.objects.create(slug="pro", name="Pro")
    Tenant.objects.create(key="acme", tier=pro)
    Tenant.objects.create(key="bolt", tier=pro)

    messages = [m.msg for m in run_checks(tags=["tenantlimits"], databases=["default"]) if m.id == "tenantlimits.W063"]

    assert [re.findall(r"Tier (\w+) has", message)[0] for message in messages] == ["free", "pro"]


def with_pools(settings: Any, pools: dict[str, Any], **more: Any) -> None:
    settings.TENANTLIMITS = settings.TENANTLIMITS | {"POOLS": pools} | more


def tier_with(slug: str, slots: int | None) -> Tier:
    """A tier with a limit, and where told so with a share of exports."""
    tier = Tier.objects.create(slug=slug, name=slug.title())
    Limit.objects.create(tier=tier, name="all-rate", amount=5, period_seconds=1)
    if slots is not None:
        Share.objects.create(tier=tier, pool="exports", slots=slots)
    return tier


def used(tenant: Tenant, hours_ago: float, lane: str = "exports") -> None:
    start = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)
    UsageHour.objects.create(tenant=tenant, lane=lane, start=start, source="here", requests=1, allowed=1)


@pytest.mark.django_db
def test_a_tier_in_use_without_a_share_of_a_pool_is_found(sound: Any) -> None:
    """C5: its tenants have one slot each. The anonymous tier does well with that."""
    with_pools(sound, {"exports": {"capacity": 10}})
    tier_with("free", None)
    tier_with("spare", None)

    messages = [one.msg for one in run_checks(tags=["tenantlimits"], databases=["default"]) if "W064" in str(one.id)]

    assert messages == ["Tier free has no share of pool exports: each of its tenants has 1 slot there."]


@pytest.mark.django_db
def test_a_share_whose_pool_is_in_no_setting_is_found(sound: Any) -> None:
    with_pools(sound, {"exports": {"capacity": 10}})
    tier_with("free", 4)
    with_pools(sound, {"export": {"capacity": 10}})

    message = found(databases=["default"])["W065"]

    assert "Tier free has a share of pool 'exports', which is not in TENANTLIMITS['POOLS']" in message.msg
    assert "Did you mean 'export'?" in str(message.hint)


@pytest.mark.django_db
def test_a_share_above_a_capacity_that_was_lowered_is_found(sound: Any) -> None:
    with_pools(sound, {"exports": {"capacity": 10}})
    tier_with("free", 8)
    with_pools(sound, {"exports": {"capacity": 5}})

    assert "8 slots of pool exports, which has 5 for everyone" in found(databases=["default"])["W066"].msg


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("capacity", "lendable", "expected"),
    [(9, 0, "W070"), (9, 0.05, "W070"), (9, 1, ""), (8, 0, ""), (4, 1, ""), (4, 0, ""), (3, 1, "W071")],
)
def test_shares_that_sum_to_too_little_or_too_much_are_found(
    sound: Any, capacity: int, lendable: float, expected: str
) -> None:
    """C5: before there is any usage, by all tenants: two by default with 3 slots each, and one with 2."""
    with_pools(sound, {"exports": {"capacity": capacity, "lendable": lendable}})
    tier_with("free", 3)
    Tenant.objects.bulk_create([Tenant(key="acme"), Tenant(key="bolt"), Tenant(key="cedar", tier=tier_with("pro", 2))])

    messages = found(databases=["default"])

    assert set(messages) & {"W070", "W071"} == ({expected} if expected else set())
    if expected:
        assert "the shares of all tenants sum to 8" in messages[expected].msg


@pytest.mark.django_db
def test_once_there_is_usage_those_count_who_typically_come_at_once(sound: Any) -> None:
    """C5: a hundred tenants, of which one or two are there in an hour, are no reason for a warning."""
    with_pools(
        sound,
        {"exports": {"capacity": 4, "lendable": 0}},
        LANES={"reads": {}, "exports": {"pool": "exports"}},
    )
    tier_with("free", 2)
    Tenant.objects.bulk_create([Tenant(key=f"tenant-{number}") for number in range(100)])
    acme, bolt, *others = Tenant.objects.exclude(key="").order_by("pk")

    used(acme, hours_ago=200)
    used(Tenant.objects.anonymous(), hours_ago=1)
    nobody_lately = found(databases=["default"])
    for hour in (1, 2, 3):
        used(acme, hour)
        used(bolt, hour + 0.5)
    for other in others:
        used(other, 1)
        used(other, 5, lane="reads")
    usually_two = found(databases=["default"])
    used(acme, 6)
    used(acme, 7)
    used(acme, 8)
    usually_one = found(databases=["default"])

    assert {"W070", "W071"} & (nobody_lately.keys() | usually_two.keys()) == set()
    assert "typical hour of the last week sum to 2" in usually_one["W070"].msg


@pytest.mark.django_db
def test_where_no_lane_names_the_pool_whoever_was_there_counts(sound: Any) -> None:
    with_pools(sound, {"exports": {"capacity": 2}})
    tier_with("free", 2)
    Tenant.objects.bulk_create([Tenant(key=f"tenant-{number}") for number in range(3)])
    for tenant in Tenant.objects.exclude(key=""):
        used(tenant, 1, lane="default")

    assert "typical hour of the last week sum to 6" in found(databases=["default"])["W071"].msg


@pytest.mark.django_db
def test_before_there_are_tenants_nothing_is_said_of_sums(sound: Any) -> None:
    with_pools(sound, {"exports": {"capacity": 10, "lendable": 0}})
    tier_with("free", 2)

    assert found(databases=["default"]) == {}


@pytest.mark.django_db(transaction=True)
def test_the_checks_run_before_the_tables_are_there(sound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`migrate` checks the database first, also on an empty one."""
    monkeypatch.setattr(connection.introspection, "table_names", lambda *args, **kwargs: ["auth_user"])

    assert found(databases=["default"]) == {}


def test_the_docstring_lists_every_id() -> None:
    source = "".join(page.read_text(encoding="utf-8") for page in Path(checks.__file__).parent.glob("*.py"))
    used = set(re.findall(r'"(?:tenantlimits\.)?([EW]\d{3})"', source))

    assert set(re.findall(r"[EW]\d{3}", checks.__doc__ or "")) == used | {"E001"}


@pytest.mark.django_db
def test_the_check_command_runs_them_all(sound: Any) -> None:
    call_command("check", "--database", "default", "--tag", "tenantlimits")
