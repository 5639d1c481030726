"""Two processes that grant the same override at the same instant: one of them does."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from project import settings
from tests import servers

ROUNDS = 25


@pytest.fixture
def postgresql_database() -> Iterator[dict[str, Any]]:
    """Django's settings of a new database on the server of DATABASE_URL, which is dropped afterwards."""
    servers.require_service("postgres")
    url, name = os.environ["DATABASE_URL"], f"race_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, dbname="postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield settings.postgresql(url) | {"NAME": name}
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_of_two_processes_on_sqlite_one_grants(tmp_path: Path, repository: Path) -> None:
    """C182."""
    race(settings.sqlite(str(tmp_path / "race.sqlite3")), repository)


def test_of_two_processes_on_a_plain_sqlite_file_one_grants(tmp_path: Path, repository: Path) -> None:
    """C182: a host may never have heard of transaction modes and write-ahead logs."""
    race({"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "race.sqlite3")}, repository)


@pytest.mark.services
def test_of_two_processes_on_postgresql_one_grants(postgresql_database: dict[str, Any], repository: Path) -> None:
    """C182."""
    race(postgresql_database, repository)


def race(database: dict[str, Any], repository: Path) -> None:
    """Let two processes grant the same override to one tenant after another, and look what is left."""
    environment = os.environ | {"RACE_DATABASE": json.dumps(database)}

    def start(*verb: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.policy.granting", *verb]
        return subprocess.Popen(
            command, cwd=repository, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    start("prepare", str(ROUNDS)).communicate(timeout=60)
    racers = [start("race"), start("race")]
    assert [said(racer) for racer in racers] == ["ready", "ready"]

    results = [one_round(racers, f"tenant-{number}") for number in range(ROUNDS)]

    for racer in racers:
        racer.communicate(timeout=60)
    counts = json.loads(start("count").communicate(timeout=60)[0])
    assert results == [["granted", "overlaps"]] * ROUNDS
    assert counts == {f"tenant-{number}": 1 for number in range(ROUNDS)}


def one_round(racers: list[subprocess.Popen[str]], tenant: str) -> list[str]:
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(f"{tenant}\n")
        racer.stdin.flush()
    return sorted(said(racer) for racer in racers)


def said(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().strip()
