"""The flush and what is read from it: nothing is lost, counted twice or lowered, whatever ends or happens at once."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction
from django.test import override_settings
from psycopg import sql

from project import settings as demo
from tenantlimits.conf import conf
from tenantlimits.domain.lanes import milli
from tenantlimits.engine.base import Acknowledge, Collect, Command, Counted, Engine, Member, Pending
from tenantlimits.engine.keys import Identity, shard_of
from tenantlimits.engine.memory import MemoryEngine
from tenantlimits.gate import admit, hold
from tenantlimits.gate.asking import Ask
from tenantlimits.gate.deciding import admitting
from tenantlimits.gate.overview import overview
from tenantlimits.gate.steps import drive
from tenantlimits.gate.store import engine_replaced, now_us, stores
from tenantlimits.models import Limit, Tenant, UsageHour
from tenantlimits.usage import Flushed, FlushFailed, Resolution, flush, last_hours, ledger_of, total
from tenantlimits.usage.periods import last_periods, periods
from tests import console, servers
from tests.engine.builders import Clock, redis_engine

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ACME = Member(shard_of(Identity(tenant="acme")), "acme")


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def site(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # What other tests have counted without a store would be flushed here.
    monkeypatch.setattr(stores, "local", MemoryEngine(clock=now_us))
    with override_settings(**console.SITE, TENANTLIMITS=console.settings_of()):
        console.cast()
        # What was made so far is as good as committed: policies are kept, as in a process that serves.
        connection.run_on_commit.clear()
        yield


@pytest.fixture
def store(site: None, redis_url: str, key_prefix: str, clock: Clock) -> Iterator[Engine]:
    """A real store of the test's own, on the test's clock."""
    engine = redis_engine(redis_url, key_prefix, clock)
    with engine_replaced(engine):
        yield engine
    engine.close()


class Stand:
    """A store that does something else with one kind of command."""

    def __init__(self, engine: Engine, kind: type[Command[Any]], instead: Callable[[Any], Any]) -> None:
        self._engine, self._kind, self._instead = engine, kind, instead

    def run(self, command: Command[Any]) -> Any:
        return self._instead(command) if isinstance(command, self._kind) else self._engine.run(command)


def used(calls: int, *, tenant: str = "acme", lane: str = "reads", cost: float = 1) -> int:
    """So many calls; how many of them were allowed."""
    return sum(admit(lane=lane, cost=cost, tenant=tenant).allowed for _ in range(calls))


def requests(tenant: str = "acme") -> int:
    """What is written down, all sources together."""
    return total(UsageHour.objects.filter(tenant__key=tenant)).requests


@contextmanager
def failing_for(tenant: str) -> Iterator[None]:
    """The database refuses to write this tenant's usage."""
    pk = Tenant.objects.get(key=tenant).pk

    def execute(run: Callable[..., Any], statement: str, params: Any, many: bool, context: Any) -> Any:
        if statement.startswith("INSERT") and "usagehour" in statement and params[0] == pk:
            raise OperationalError("disk full")
        return run(statement, params, many, context)

    with connection.execute_wrapper(execute):
        yield


def flush_without_lanes(store: Engine) -> None:
    """A process flushes whose settings name no lanes."""
    with override_settings(TENANTLIMITS=console.settings_of(LANES={})):
        stores.decide_by(store)
        flush()
    stores.decide_by(store)  # a changed setting builds a new one


# The flush


def test_a_flush_writes_absolute_figures_and_forgets_what_it_has_written(store: Engine) -> None:
    used(7)
    used(2, lane="uploads", cost=5)

    flushed = flush()

    assert flushed == Flushed(tenants=1, rows=2, left_over=0)
    reads, uploads = UsageHour.objects.order_by("lane")
    assert (reads.lane, reads.requests, reads.cost) == ("reads", 7, 7)
    assert (uploads.lane, uploads.requests, uploads.cost) == ("uploads", 2, 10)
    assert (reads.start, reads.complete_until) == (NOON, NOON)
    assert store.run(Pending()) == ()


def test_flushing_again_changes_nothing(store: Engine) -> None:
    used(5)
    flush()

    again = flush()

    assert again == Flushed(tenants=0, rows=0, left_over=0)
    assert requests() == 5


def test_an_hour_that_goes_on_is_written_into_the_same_row(store: Engine, clock: Clock) -> None:
    used(5)
    flush()
    clock.step(60)
    used(3)

    flush()

    row = UsageHour.objects.get()
    assert (row.requests, row.complete_until) == (8, NOON + timedelta(minutes=1))


def test_a_closed_hour_is_complete_until_its_end(store: Engine, clock: Clock) -> None:
    used(5)
    clock.step(3600)
    used(1)

    flush()

    closed, running = UsageHour.objects.order_by("start")
    assert (closed.requests, closed.complete_until) == (5, NOON + timedelta(hours=1))
    assert (running.requests, running.start) == (1, NOON + timedelta(hours=1))


def test_requests_units_and_refusals_are_separate_figures(store: Engine) -> None:
    """C136: 10 calls of cost 5, of which a limit of 35 refuses 3; what was refused is no use."""
    Limit.objects.filter(name="uploads-rate").update(amount=35)

    allowed = used(10, lane="uploads", cost=5)

    flush()
    row = UsageHour.objects.get()
    assert allowed == 7
    assert (row.requests, row.allowed, row.refused, row.cost) == (10, 7, 3, 35)
    assert row.refused_by == {"uploads-rate": 3}


def test_what_a_limit_in_mode_observe_would_have_refused_is_counted_apart(store: Engine) -> None:
    Limit.objects.filter(name="uploads-rate").update(mode="observe")

    used(10, lane="uploads", cost=5)

    flush()
    row = UsageHour.objects.get()
    assert (row.allowed, row.refused, row.refused_by, row.observed_by) == (10, 0, {}, {"uploads-rate": 2})


def test_operations_in_flight_leave_their_peak(store: Engine) -> None:
    with hold(lane="exports", tenant="acme"), hold(lane="exports", tenant="acme"):
        pass
    used(1, lane="exports")

    flush()

    assert UsageHour.objects.get().peak_in_flight == 2


def test_a_settled_cost_counts_in_either_direction(store: Engine) -> None:
    with hold(lane="uploads", cost=10, tenant="acme") as admission:
        flush()
        admission.settle(cost=2.5)

    flush()

    assert UsageHour.objects.get().cost == Decimal("2.5")


def test_callers_without_a_tenant_are_counted_in_every_shard_and_added_up(store: Engine) -> None:
    addresses = [f"192.0.2.{number}" for number in range(20)]
    for one in addresses:
        ask = Ask(identity=Identity(tenant="", user=one), lane=conf.lane("reads"), cost=milli(1))
        drive(admitting(ask), stores.engine)

    flushed = flush()

    assert (flushed.tenants, flushed.rows) == (1, len({shard_of(Identity(tenant="", user=one)) for one in addresses}))
    assert requests("") == 20


def test_one_tenant_that_fails_does_not_stop_the_others_and_counts_once_next_time(store: Engine) -> None:
    """C132, C134."""
    for number, tenant in enumerate(("acme", "bolt", "cedar"), start=1):
        used(number, tenant=tenant)

    with failing_for("bolt"), pytest.raises(FlushFailed, match="'bolt': disk full") as failure:
        flush()

    assert failure.value.flushed == Flushed(tenants=2, rows=2, left_over=1)
    assert [requests(tenant) for tenant in ("acme", "bolt", "cedar")] == [1, 0, 3]
    assert flush() == Flushed(tenants=1, rows=1, left_over=0)
    assert [requests(tenant) for tenant in ("acme", "bolt", "cedar")] == [1, 2, 3]
    assert UsageHour.objects.filter(requests=0).count() == 0


def test_a_late_writer_does_not_lower_what_a_newer_one_wrote(store: Engine) -> None:
    """C133: of two flushes that overlap, the one that read first writes last."""
    used(5)
    read_first = store.run(Collect(ACME))
    used(4)
    flush()
    used(1)

    with engine_replaced(Stand(store, Collect, lambda _: read_first)):
        late = flush()

    assert late == Flushed(tenants=1, rows=0, left_over=1)
    assert requests() == 9
    assert flush().left_over == 0
    assert requests() == 10


def test_an_hour_that_is_past_is_flushed_again_without_a_change(store: Engine, clock: Clock) -> None:
    """C133."""
    used(5)
    clock.step(3600)
    used(1)
    with engine_replaced(Stand(store, Acknowledge, lambda _: False)):
        assert flush().left_over == 1

    flush()

    assert requests() == 6
    assert UsageHour.objects.count() == 2


def test_what_is_used_while_a_flush_is_under_way_stays_for_the_next(store: Engine) -> None:
    used(5)

    def acknowledge(command: Acknowledge) -> bool:
        used(2)
        return store.run(command)

    with engine_replaced(Stand(store, Acknowledge, acknowledge)):
        flushed = flush()

    assert flushed.left_over == 1
    assert (requests(), flush().rows, requests()) == (5, 1, 7)


def test_a_store_that_lost_its_memory_only_adds(
    store: Engine, clock: Clock, key_prefix: str, redis_client: redis.Redis
) -> None:
    """C139: 600 are written down, then the store is emptied, then 10 more."""
    for _ in range(12):
        used(50)
        clock.step(60)
    flush()
    for key in redis_client.scan_iter(match=f"{key_prefix}*"):
        redis_client.delete(key)
    clock.step(1)
    used(10)

    before_the_flush = last_hours("acme").total.requests
    flush()

    assert before_the_flush == requests() == last_hours("acme").total.requests == 610


def test_a_flush_that_could_be_rolled_back_is_refused(store: Engine, transactional_db: None) -> None:
    used(1)

    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        flush()

    assert requests() == 0
    assert flush().rows == 1


def test_a_lane_that_nobody_knew_gets_its_name_as_soon_as_it_is_known(store: Engine) -> None:
    used(3)
    flush_without_lanes(store)
    unknown = UsageHour.objects.get().lane
    used(1)

    flush()

    row = UsageHour.objects.get()
    assert unknown.startswith("#")
    assert (row.lane, row.requests) == ("reads", 4)


def test_a_process_that_does_not_know_a_lane_keeps_the_name_that_another_gave_it(store: Engine) -> None:
    used(3)
    flush()
    used(1)

    flush_without_lanes(store)

    row = UsageHour.objects.get()
    assert (row.lane, row.requests) == ("reads", 4)


def test_a_limit_that_is_gone_is_named_by_its_tag(store: Engine) -> None:
    used(10, lane="uploads", cost=5)
    Limit.objects.get(name="uploads-rate").delete()

    flush()

    [(name, times)] = UsageHour.objects.get().refused_by.items()
    assert name.startswith("#")
    assert times == 2


def test_a_tenant_whose_row_is_gone_keeps_its_usage(store: Engine) -> None:
    used(3)
    Tenant.objects.filter(key="acme").delete()

    flush()

    assert requests() == 3


def test_a_store_that_is_away_is_said_once(site: None) -> None:
    with engine_replaced(redis_engine("redis://127.0.0.1:1/0", "away")), pytest.raises(FlushFailed) as failure:
        flush()

    assert len(failure.value.failures) == 1
    assert "does not answer" in str(failure.value)


def test_a_store_that_goes_away_is_given_up_after_three_tenants(store: Engine) -> None:
    for number in range(6):
        used(1, tenant=f"tenant-{number}")

    def away(_command: Collect) -> Counted:
        raise redis.ConnectionError("gone")

    with engine_replaced(Stand(store, Collect, away)), pytest.raises(FlushFailed) as failure:
        flush()

    assert len(failure.value.failures) == 3
    assert failure.value.flushed.left_over == 6


def test_what_this_process_counted_without_the_store_is_flushed_too(site: None) -> None:
    with engine_replaced(redis_engine("redis://127.0.0.1:1/0", "away")):
        used(3)

    with engine_replaced(stores.local):
        flush()

    row = UsageHour.objects.get(tenant__key="acme")
    assert (row.requests, row.source.partition(":")[0]) == (3, "process")


# The command and the task


def test_the_command_says_what_it_did(store: Engine) -> None:
    used(3)
    said = StringIO()

    call_command("tenantlimits_flush", stdout=said)

    assert said.getvalue() == "Flushed 1 tenants, 1 rows.\n"


def test_the_command_fails_with_words_where_something_is_left(store: Engine) -> None:
    used(3)

    with failing_for("acme"), pytest.raises(CommandError, match="stays for the next time: tenant 'acme': disk full"):
        call_command("tenantlimits_flush")


def test_a_pause_that_is_no_number_of_seconds_is_refused() -> None:
    with pytest.raises(CommandError, match="'often' is not 1 to 86400 seconds"):
        call_command("tenantlimits_flush", "--every", "often")


def test_the_task_is_found_under_its_name_and_answers_a_summary(store: Engine) -> None:
    from tenantlimits.tasks import flush_usage  # noqa: PLC0415 - as Celery finds it

    used(3)

    assert flush_usage.name == "tenantlimits.flush_usage"
    assert flush_usage() == {"tenants": 1, "rows": 1, "left_over": 0}


def test_an_install_without_celery_works(repository: Path) -> None:
    script = (
        "import sys; sys.modules['celery'] = None\n"
        "import django; from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['django.contrib.auth', 'django.contrib.contenttypes', 'tenantlimits'])\n"
        "django.setup(); import tenantlimits.usage, tenantlimits.views, tenantlimits.urls\n"
    )

    subprocess.run([sys.executable, "-c", script], cwd=repository, check=True, timeout=60)


# Reading


def test_the_last_hours_are_rows_and_what_is_not_flushed_yet_counted_once(store: Engine, clock: Clock) -> None:
    used(5)
    clock.step(3600)
    used(3)
    flush()
    used(2)

    history = last_hours("acme", hours=3)

    assert [span.total.requests for span in history.spans] == [0, 5, 5]
    assert [span.start for span in history.spans] == [NOON + timedelta(hours=hour) for hour in (-1, 0, 1)]
    assert [span.partial for span in history.spans] == [False, False, True]
    assert history.spans[2].complete_until == history.as_of == NOON + timedelta(hours=1)
    assert set(history.spans[0].lanes) == {"reads", "uploads", "exports", "default"}
    assert not history.stale


def test_what_is_flushed_while_it_is_read_is_counted_once(store: Engine) -> None:
    used(5)
    ledger = ledger_of("acme")
    used(2)
    flush()

    history = ledger.history(periods(NOON, NOON + timedelta(hours=1), ledger.zone, Resolution.HOUR), Resolution.HOUR)

    assert history.total.requests == 7


def test_without_the_store_the_rows_alone_are_read_and_said_to_be_stale(site: None, clock: Clock) -> None:
    acme = Tenant.objects.get(key="acme")
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    known = hour + timedelta(minutes=40)
    UsageHour.objects.create(tenant=acme, lane="reads", start=hour, source="s", requests=4, complete_until=known)

    with engine_replaced(redis_engine("redis://127.0.0.1:1/0", "away")):
        history = last_hours("acme", hours=3)

    assert history.stale
    assert history.total.requests == 4
    assert [span.complete_until for span in history.spans] == [None, known, None]


def test_nobody_reads_what_another_tenant_used(store: Engine) -> None:
    """V2: cedar never appears in anyone else's data."""
    used(5)
    used(9, tenant="cedar")
    flush()
    used(9, tenant="cedar")

    assert last_hours("acme").total.requests == 5
    assert last_hours("bolt").total.requests == 0


def test_days_and_hours_are_those_of_the_tenants_zone(store: Engine, clock: Clock) -> None:
    """C138: half past eleven in the evening of New Year's Eve, UTC, is January in Budapest."""
    Tenant.objects.filter(key="acme").update(time_zone="Europe/Budapest")
    clock.now_us = datetime(2024, 12, 31, 23, 30, tzinfo=UTC).timestamp() * 1e6
    used(2)
    flush()
    ledger = ledger_of("acme")

    [day] = ledger.history(last_periods(1, ledger.as_of, ledger.zone, Resolution.DAY), Resolution.DAY).spans

    assert (day.start, day.total.requests) == (datetime(2024, 12, 31, 23, tzinfo=UTC), 2)
    assert day.start.astimezone(ledger.zone).isoformat() == "2025-01-01T00:00:00+01:00"


def test_a_zone_that_is_half_an_hour_off_has_its_own_hours(store: Engine) -> None:
    Tenant.objects.filter(key="acme").update(time_zone="Asia/Kolkata")
    used(2)

    history = last_hours("acme", hours=1)

    assert history.spans[0].start == NOON - timedelta(minutes=30)
    assert history.total.requests == 2


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_a_day_of_a_clock_change_has_all_its_hours(day: str, site: None) -> None:
    Tenant.objects.filter(key="acme").update(time_zone="Europe/Berlin")
    zone = Tenant.objects.get(key="acme").zone
    start = datetime.fromisoformat(day).replace(tzinfo=zone)

    hours = periods(start.astimezone(UTC), (start + timedelta(days=1)).astimezone(UTC), zone, Resolution.HOUR)

    assert len(hours) == {"2026-03-29": 23, "2026-10-25": 25}[day]
    assert all(one[1] == other[0] for one, other in itertools.pairwise(hours))


def test_page_store_and_ledger_agree_on_random_traffic(store: Engine, clock: Clock) -> None:
    """C135, V3: 5,000 calls over 3 lanes with costs and refusals, flushed now and then; the callers' own ledger."""
    dice = random.Random(135)
    ledger = {lane: [0, 0, Decimal(0)] for lane in console.LANES}
    for number in range(5000):
        lane, cost = dice.choice(list(console.LANES)), dice.choice([1, 2.5, 7])
        decision = admit(lane=lane, cost=cost, tenant="acme")
        counted = ledger[lane]
        counted[0] += 1
        counted[1] += decision.refused
        counted[2] += Decimal(str(cost)) if decision.allowed else 0
        clock.step(dice.random())
        if number % 701 == 0:
            flush()

    lanes = last_hours("acme").lanes

    assert {lane: [lanes[lane].requests, lanes[lane].refused, lanes[lane].cost] for lane in ledger} == ledger
    assert ledger["uploads"][1] > 0
    day = next(one for one in overview(Identity(tenant="acme")).readings if one.limit.name == "reads-day")
    assert Decimal(str(day.used)) == lanes["reads"].cost


# Several processes at once


@pytest.fixture
def postgresql_database() -> Iterator[dict[str, Any]]:
    """Django's settings of a new database on the server of DATABASE_URL, which is dropped afterwards."""
    servers.require_service("postgres")
    url, name = os.environ["DATABASE_URL"], f"flush_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, dbname="postgres", autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield demo.postgresql(url) | {"NAME": name}
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def start(repository: Path, redis_url: str, key_prefix: str) -> Callable[..., subprocess.Popen[str]]:
    """`start(database, verb, ...)`: a process of tests/flushing.py."""

    def run(database: dict[str, Any], *verb: str) -> subprocess.Popen[str]:
        environment = os.environ | {
            "FLUSH_DATABASE": json.dumps(database),
            "FLUSH_REDIS": redis_url,
            "FLUSH_PREFIX": key_prefix,
        }
        command = [sys.executable, "-m", "tests.flushing", *verb]
        return subprocess.Popen(command, cwd=repository, env=environment, text=True, stdout=subprocess.PIPE)

    return run


def test_processes_that_use_and_flush_at_once_lose_and_double_nothing_on_sqlite(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """C133, C137, V3."""
    use_and_flush_at_once(demo.sqlite(str(tmp_path / "usage.sqlite3")), start)


def test_processes_that_use_and_flush_at_once_lose_and_double_nothing_on_a_plain_sqlite_file(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """C137: a host may never have heard of transaction modes and write-ahead logs."""
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "usage.sqlite3"), "OPTIONS": {"timeout": 20}}
    use_and_flush_at_once(file, start)


@pytest.mark.services
def test_processes_that_use_and_flush_at_once_lose_and_double_nothing_on_postgresql(
    postgresql_database: dict[str, Any], start: Callable[..., subprocess.Popen[str]]
) -> None:
    """C133, C137, V3."""
    use_and_flush_at_once(postgresql_database, start)


def use_and_flush_at_once(database: dict[str, Any], start: Callable[..., subprocess.Popen[str]]) -> None:
    """Two processes use, two flush all the time, and one is killed where it hurts most."""
    finished(start(database, "prepare"))
    users = [start(database, "use", "200") for _ in range(2)]
    flushing = [start(database, "flush", "2") for _ in range(2)]
    dying = start(database, "die")

    dying.communicate(timeout=60)
    for process in (*users, *flushing):
        finished(process)

    figures = json.loads(finished(start(database, "figures")))
    each = {f"{tenant} {lane} requests": 200 for tenant in ("acme", "bolt") for lane in ("reads", "exports")}
    costs = {f"{tenant} {lane} cost": 500 for tenant in ("acme", "bolt") for lane in ("reads", "exports")}
    assert dying.returncode == -signal.SIGKILL
    assert {name: number for name, number in figures.items() if name.split()[0] in ("acme", "bolt")} == each | costs
    assert figures["nobody reads requests"] == 400


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return said
