"""Two versions of the package over one store: while processes are replaced one by one, and after a step back."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from tenantlimits.domain.plans import lane_tag
from tenantlimits.engine import scripts
from tenantlimits.engine.base import Collect, Move, Pending, Tally
from tenantlimits.engine.keys import keys_of
from tests.engine.builders import ACME, BOLT, Caller, bucket, cap, quota, redis_engine
from tests.engine.versions import SHARED, SLOTS, tier

CALLS = 600


@pytest.fixture
def other_package(repository: Path, tmp_path: Path) -> Path:
    """A folder with another version of the package: the same layout of states, and no script with the same text."""
    shutil.copytree(repository / "tenantlimits", tmp_path / "tenantlimits")
    for file in (tmp_path / "tenantlimits" / "engine" / "lua").glob("*.lua"):
        file.write_text(f"-- {file.stem}: of another version\n{file.read_text()}")
    return tmp_path


def started(package: Path, repository: Path, *arguments: str) -> subprocess.Popen[str]:
    """A process that has the package of that folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine.versions", *arguments],
        cwd=package, env={"PYTHONPATH": f"{package}:{repository}", "PATH": ""}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def test_two_versions_at_once_admit_exactly_what_one_would(redis_url, key_prefix, repository, other_package):
    """K1, R5, C32, C99: other scripts, other limits in another order, one shared limit, one cap, one tenant."""
    fleet = [
        started(package, repository, redis_url, key_prefix, version, str(CALLS))
        for package, version in ((repository, "new"), (other_package, "old")) * 2
    ]
    assert [process.stdout.readline() for process in fleet] == ["ready\n"] * 4
    for process in fleet:
        process.stdin.write("go\n")
        process.stdin.flush()

    seen: list[dict[str, Any]] = [json.loads(process.communicate(timeout=60)[0]) for process in fleet]

    engine = redis_engine(redis_url, key_prefix)
    counted = engine.run(Collect(engine.run(Pending())[0]))
    hours = [hour.lanes[lane_tag("reads")] for hour in (counted.running, *counted.closed)]
    assert len({one["sha"] for one in seen}) == 2
    assert sum(one["allowed"] for one in seen) == SHARED
    assert min(seen[0]["allowed"] + seen[2]["allowed"], seen[1]["allowed"] + seen[3]["allowed"]) > 0
    assert 1 <= max(one["in_flight"] for one in seen) <= SLOTS
    assert max(one["used"] for one in seen) == SHARED
    assert [Caller(engine, _now_us, tier(version)).used("day") for version in ("old", "new")] == [SHARED, SHARED]
    assert sum(hour.allowed for hour in hours) == SHARED
    assert sum(hour.refused for hour in hours) == 4 * CALLS - SHARED
    engine.close()


def _now_us() -> float:
    return time.time() * 1e6


@pytest.fixture
def engine(redis_url, key_prefix, clock):
    engine = redis_engine(redis_url, key_prefix, clock)
    yield engine
    engine.close()


def in_another_layout(state: bytes) -> bytes:
    return state[:8] + bytes([scripts.LAYOUT_VERSION + 1]) + state[9:]


def with_a_kind_that_is_unknown(state: bytes) -> bytes:
    return state[:13] + bytes([state[13] | 7]) + state[14:]


@pytest.mark.parametrize("newer_from", [in_another_layout, with_a_kind_that_is_unknown])
def test_a_state_of_a_newer_version_is_neither_misread_nor_removed(engine, redis_client, key_prefix, clock, newer_from):
    """K1: after a step back to this version its tenant is in the hands of the lanes' `on_store_failure`."""
    acme, bolt = (Caller(engine, clock, [bucket(5), quota(5), cap(2)], identity=who) for who in (ACME, BOLT))
    decision, lease = acme.hold()
    key = keys_of(key_prefix, ACME).tenant
    newer = newer_from(redis_client.get(key))
    redis_client.set(key, newer, keepttl=True)
    member = engine.run(Pending())[0]

    for ask in (
        acme.admit,
        acme.peek,
        lambda: acme.settle(decision, 1),
        lambda: acme.release(lease),
        lambda: acme.renew(lease, again=True),
        lambda: engine.run(Collect(member)),
        lambda: engine.run(Tally(plan=acme.plan(), identity=ACME, fits=(False,) * 3, times=2)),
    ):
        with pytest.raises(redis.ResponseError, match="layout of this state is unknown"):
            ask()

    assert redis_client.get(key) == newer
    assert bolt.admit().allowed
    assert redis_client.pttl(key) > 0


def test_stamps_stand_in_the_same_place_in_every_layout(engine, redis_client, key_prefix, clock):
    """F: so processes of all versions hear of a change that one of them has made."""
    acme = Caller(engine, clock, [bucket(5)])
    acme.begin()
    key = keys_of(key_prefix, ACME).tenant
    redis_client.set(key, redis_client.get(key)[:8] + b"\x02whatever", px=60_000)

    before = redis_client.get(key)
    engine.run(Move(frozenset({"acme"})))
    after = redis_client.get(key)
    acme.begin()

    assert before[:8] != after[:8] == acme.stamps.tenant
    assert before[8:] == after[8:]
