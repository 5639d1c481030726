"""The settings: what each takes, what each refuses, and that they are read when used."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import override_settings

from tenantlimits.conf import SETTINGS, HeaderStyle, Responses, Store, conf
from tenantlimits.domain.errors import UnknownLane, UnknownPool
from tenantlimits.domain.lanes import Excess, Lane, OnStoreFailure
from tenantlimits.domain.pools import PoolSpec, Scope
from tenantlimits.domain.shares import PoolRules

REQUIRED = {"TENANT_RESOLVER": "tests.test_conf.tenant_of", "DEFAULT_TIER": "free"}


def tenant_of(request: HttpRequest) -> str | None:
    """A host's resolver."""
    return request.headers.get("anything")


def limits(**values: Any) -> override_settings:
    """TENANTLIMITS with what is required, and these."""
    return override_settings(TENANTLIMITS=REQUIRED | values)


def test_what_is_not_set_has_its_default() -> None:
    with limits():
        values = {name: getattr(conf, name) for name in SETTINGS}

    assert values == {
        "TENANT_RESOLVER": tenant_of,
        "DEFAULT_TIER": "free",
        "TIER_RESOLVER": None,
        "USER_RESOLVER": None,
        "CREDENTIAL_RESOLVER": None,
        "EXEMPT": None,
        "ANONYMOUS_TIER": "anonymous",
        "TRUSTED_PROXIES": 0,
        "CACHE_ALIAS": "default",
        "CLUSTER": False,
        "HELD_CONNECTIONS": True,
        "STORE": Store.REDIS,
        "KEY_PREFIX": "tl",
        "LANES": {"default": Lane(name="default")},
        "DEFAULT_LANE": "default",
        "POOLS": {},
        "CONNECT_TIMEOUT_SECONDS": 0.25,
        "STORE_TIMEOUT_SECONDS": 0.1,
        "LEASE_SECONDS": 15,
        "POLICY_BACKSTOP_SECONDS": 60,
        "REFUSAL_CACHE_SECONDS": 0.25,
        "RESPONSES": Responses(),
        "TIME_ZONE": ZoneInfo(django_settings.TIME_ZONE),
        "MAX_OVERRIDE_DAYS": 90,
    }


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_setting_that_is_missing_says_what_to_write(name: str) -> None:
    present = {key: value for key, value in REQUIRED.items() if key != name}

    with override_settings(TENANTLIMITS=present), pytest.raises(ImproperlyConfigured) as refusal:
        getattr(conf, name)

    assert str(refusal.value).startswith(f"TENANTLIMITS['{name}'] is missing. Write ")


def test_without_the_dict_the_first_required_setting_is_missing() -> None:
    with override_settings():
        del django_settings.TENANTLIMITS

        with pytest.raises(ImproperlyConfigured, match=r"'TENANT_RESOLVER'\] is missing"):
            conf.validate()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TENANT_RESOLVER", "tests.test_conf.nobody", "cannot be imported"),
        ("TENANT_RESOLVER", "nowhere.tenant_of", "cannot be imported"),
        ("TENANT_RESOLVER", 7, "dotted path"),
        ("TENANT_RESOLVER", None, "dotted path"),
        ("DEFAULT_TIER", "", "1 to 50"),
        ("DEFAULT_TIER", None, "1 to 50"),
        ("TIER_RESOLVER", "nowhere", "cannot be imported"),
        ("USER_RESOLVER", "nowhere", "cannot be imported"),
        ("CREDENTIAL_RESOLVER", "nowhere", "cannot be imported"),
        ("EXEMPT", True, "dotted path"),
        ("ANONYMOUS_TIER", 0, "1 to 50"),
        ("TRUSTED_PROXIES", -1, "whole number from 0 to 20"),
        ("TRUSTED_PROXIES", True, "whole number"),
        ("TRUSTED_PROXIES", "1", "whole number"),
        ("CACHE_ALIAS", "", "1 to 50"),
        ("STORE", "reddis", "Did you mean 'redis'"),
        ("STORE", None, "'redis', 'memory'"),
        ("KEY_PREFIX", "{tl}", "without braces"),
        ("KEY_PREFIX", "", "1 to 40"),
        ("KEY_PREFIX", "x" * 41, "1 to 40"),
        ("LANES", ["exports"], "dict of lanes"),
        ("LANES", {"all": {}}, "reserved"),
        ("LANES", {"</td>": {}}, "letters, digits"),
        ("LANES", {"exports": 50}, "no dict"),
        ("LANES", {"exports": {"cots": 50}}, "Did you mean 'cost'"),
        ("LANES", {"exports": {"cost": -1}}, "lane 'exports': 'cost' is -1"),
        ("LANES", {"exports": {"cost": float("nan")}}, "no number of units"),
        ("LANES", {"exports": {"cost": "50"}}, "number of units"),
        ("LANES", {"exports": {"counts_in_all": "no"}}, "True or False"),
        ("LANES", {"exports": {"on_store_failure": "open"}}, "'local', 'allow', 'refuse'"),
        ("LANES", {"exports": {"max_hold_seconds": 0}}, "number of seconds"),
        ("LANES", {"exports": {"pool": "exports"}}, "not in POOLS: there are none"),
        ("LANES", {"exports": {"pool": 7}}, "1 to 50"),
        ("LANES", {"exports": {"excess": "queue"}}, "'reject', 'wait'"),
        ("LANES", {"exports": {"excess": "wait", "wait_seconds": 1}}, "the lane has no 'pool'"),
        ("LANES", {"exports": {"wait_seconds": -1}}, "'wait_seconds' is -1: write a number of seconds"),
        ("LANES", {"exports": {"wait_seconds": 0}}, "number of seconds"),
        ("LANES", {"exports": {"wait_seconds": 5}}, "nothing waits: take it out, or write 'excess': 'wait'"),
        ("LANES", {"exports": {"queue": 5}}, "nothing waits"),
        ("LANES", {"exports": {"queue": -1}}, "whole number from 0"),
        ("DEFAULT_LANE", "all", "reserved"),
        ("DEFAULT_LANE", "", "1 to 50"),
        ("POOLS", ["exports"], "dict of pools"),
        ("POOLS", {"exports": 10}, "no dict"),
        ("POOLS", {"exports": {}}, "pool 'exports': 'capacity' is missing"),
        ("POOLS", {"exports": {"capacity": 0}}, "'capacity' is 0: write a whole number from 1"),
        ("POOLS", {"exports": {"capacity": 2.5}}, "whole number from 1"),
        ("POOLS", {"exports": {"capacity": True}}, "whole number from 1"),
        ("POOLS", {"exports": {"capacty": 10}}, "Did you mean 'capacity'"),
        ("POOLS", {"two words": {"capacity": 10}}, "letters, digits"),
        ("POOLS", {"exports": {"capacity": 10, "scope": "host"}}, "'process', 'fleet'"),
        ("POOLS", {"exports": {"capacity": 10, "lendable": 1.5}}, "a part from 0 (none) to 1 (all)"),
        ("POOLS", {"exports": {"capacity": 10, "lendable": True}}, "a part from 0"),
        ("POOLS", {"exports": {"capacity": 10, "lendable": float("nan")}}, "a part from 0"),
        ("POOLS", {"exports": {"capacity": 10, "queue": -1}}, "whole number from 0"),
        ("POOLS", {"exports": {"capacity": 10, "lease_seconds": 30}}, "for a pool of scope 'fleet'"),
        ("POOLS", {"exports": {"capacity": 10, "scope": "fleet", "lease_seconds": 0}}, "number of seconds from 1"),
        ("CONNECT_TIMEOUT_SECONDS", 0, "number of seconds"),
        ("STORE_TIMEOUT_SECONDS", float("nan"), "number of seconds"),
        ("STORE_TIMEOUT_SECONDS", "0.1", "number of seconds"),
        ("LEASE_SECONDS", 0.5, "number of seconds from 1 to 3,600"),
        ("POLICY_BACKSTOP_SECONDS", float("inf"), "number of seconds"),
        ("RESPONSES", None, "no dict"),
        ("RESPONSES", {"header": None}, "Did you mean 'headers'"),
        ("RESPONSES", {"headers": "x-rate"}, "'ratelimit', 'x-ratelimit'"),
        ("RESPONSES", {"upgrade_url": "javascript:alert(1)"}, "https://"),
        ("RESPONSES", {"jitter": -1}, "number of seconds"),
        ("TIME_ZONE", "Mars/Olympus", "IANA name"),
        ("TIME_ZONE", "../../etc/passwd", "IANA name"),
        ("TIME_ZONE", 1, "IANA name"),
        ("MAX_OVERRIDE_DAYS", 0, "whole number from 1"),
        ("MAX_OVERRIDE_DAYS", 1.5, "whole number from 1"),
    ],
)
def test_a_wrong_value_names_the_setting_and_what_to_write(name: str, value: object, words: str) -> None:
    with limits(**{name: value}), pytest.raises(ImproperlyConfigured) as refusal:
        getattr(conf, name)

    assert str(refusal.value).startswith(f"TENANTLIMITS['{name}']")
    assert words in str(refusal.value)


def test_a_lane_has_its_options_and_the_default_lane_is_always_there() -> None:
    spec = {"cost": 50, "counts_in_all": False, "on_store_failure": "refuse", "max_hold_seconds": 60}

    with limits(LANES={"exports": spec}, DEFAULT_LANE="reads"):
        lanes = conf.LANES

    assert lanes == {
        "reads": Lane(name="reads"),
        "exports": Lane(
            name="exports",
            cost=50,
            counts_in_all=False,
            on_store_failure=OnStoreFailure.REFUSE,
            max_hold_seconds=60,
        ),
    }


def test_a_lane_that_no_setting_names_is_refused_with_those_there_are() -> None:
    with limits(LANES={"exports": {}}), pytest.raises(UnknownLane) as refusal:
        conf.lane("export")

    assert str(refusal.value) == (
        "Lane 'export' is not in TENANTLIMITS['LANES']: known are default, exports. Did you mean 'exports'?"
    )


def test_a_lane_names_a_pool_and_what_becomes_of_excess() -> None:
    """C4."""
    spec = {"pool": "exports", "excess": "wait", "wait_seconds": 10, "queue": 50}

    with limits(LANES={"exports": spec}, POOLS={"exports": {"capacity": 10}}):
        lane = conf.lane("exports")

    assert lane == Lane(name="exports", pool="exports", excess=Excess.WAIT, wait_seconds=10, queue=50)


def test_a_lane_that_waits_says_for_how_long() -> None:
    """C4: nothing waits in a queue without an end."""
    spec = {"pool": "exports", "excess": "wait"}

    with (
        limits(LANES={"exports": spec}, POOLS={"exports": {"capacity": 10}}),
        pytest.raises(ImproperlyConfigured, match="write for how long at most"),
    ):
        conf.validate()


def test_a_lane_whose_pool_is_misspelt_is_refused_with_the_one_that_was_meant() -> None:
    with (
        limits(LANES={"exports": {"pool": "export"}}, POOLS={"exports": {"capacity": 10}}),
        pytest.raises(ImproperlyConfigured, match=r"there are exports; add it there. Did you mean 'exports'\?"),
    ):
        conf.validate()


def test_a_pool_has_its_options_and_a_fleets_pool_a_lease() -> None:
    pools = {
        "workers": {"capacity": 8},
        "exports": {"capacity": 20, "scope": "fleet", "lendable": 0.5, "queue": 0},
        "reports": {"capacity": 5, "scope": "fleet", "lease_seconds": 60},
    }

    with limits(POOLS=pools, LEASE_SECONDS=20):
        workers, exports, reports = conf.POOLS.values()

    assert workers == PoolSpec(name="workers", capacity=8)
    assert exports == PoolSpec(name="exports", capacity=20, scope=Scope.FLEET, lendable=0.5, queue=0, lease_seconds=20)
    assert exports.rules == PoolRules(capacity=20, lendable=0.5, queue=0)
    assert reports.lease_seconds == 60


def test_a_pool_that_no_setting_names_is_refused_with_those_there_are() -> None:
    with limits(POOLS={"exports": {"capacity": 10}}), pytest.raises(UnknownPool) as refusal:
        conf.pool("export")
    with limits(), pytest.raises(UnknownPool, match="there are none"):
        conf.pool("export")

    assert str(refusal.value) == (
        "Pool 'export' is not in TENANTLIMITS['POOLS']: known are exports. Did you mean 'exports'?"
    )


def test_responses_are_read_into_one_value() -> None:
    with limits(RESPONSES={"headers": "x-ratelimit", "upgrade_url": "/plans/", "jitter": 2}):
        responses = conf.RESPONSES

    assert responses == Responses(headers=HeaderStyle.X_RATELIMIT, upgrade_url="/plans/", jitter=2)


def test_no_fields_are_sent_where_the_setting_is_none() -> None:
    with limits(RESPONSES={"headers": None}):
        assert conf.RESPONSES.headers is None


@pytest.mark.parametrize("name", ["TOP_TENANTS", "ALERT_THRESHOLDS"])
def test_a_setting_that_does_not_act_yet_is_unknown(name: str) -> None:
    with limits(**{name: 1}), pytest.raises(ImproperlyConfigured, match=f"'{name}'. is not a setting: take it out"):
        conf.validate()


def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant() -> None:
    with limits(LEASE_SECOND=1), pytest.raises(ImproperlyConfigured, match=r"Did you mean 'LEASE_SECONDS'\?"):
        conf.validate()


def test_settings_that_are_no_dict_are_refused() -> None:
    with override_settings(TENANTLIMITS=["DEFAULT_TIER"]), pytest.raises(ImproperlyConfigured, match="is a list"):
        conf.validate()


def test_what_is_right_validates() -> None:
    with limits(LANES={"exports": {"cost": 0.001}}, EXEMPT=tenant_of):
        conf.validate()


def test_a_changed_setting_is_in_force_at_once() -> None:
    with limits(LEASE_SECONDS=2):
        inside = conf.LEASE_SECONDS
    with limits():
        outside = conf.LEASE_SECONDS

    assert (inside, outside) == (2, 15)


def test_a_dict_that_was_replaced_without_a_signal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = conf.LEASE_SECONDS

    monkeypatch.setattr(django_settings, "TENANTLIMITS", REQUIRED | {"LEASE_SECONDS": 3})

    assert (before, conf.LEASE_SECONDS) == (15, 3)


def test_the_zone_follows_djangos_own() -> None:
    with limits(), override_settings(TIME_ZONE="Asia/Shanghai"):
        assert conf.TIME_ZONE.key == "Asia/Shanghai"
    with limits(TIME_ZONE="Europe/Paris"):
        assert conf.TIME_ZONE.key == "Europe/Paris"


def test_a_value_is_parsed_once_and_shared() -> None:
    with limits(LANES={"exports": {}}):
        assert conf.LANES is conf.LANES
