"""The site of tests/console.py, with a store on a clock that only the test moves, which is also Django's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client, override_settings

from tenantlimits.engine.base import Engine
from tenantlimits.gate.store import engine_replaced
from tests import console
from tests.engine.builders import Clock, redis_engine

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def users(db: None) -> Iterator[dict[str, User]]:
    with override_settings(**console.SITE, TENANTLIMITS=console.settings_of()):
        yield console.cast()


@pytest.fixture
def store(users: dict[str, User], redis_url: str, key_prefix: str, clock: Clock) -> Iterator[Engine]:
    engine = redis_engine(redis_url, key_prefix, clock)
    with engine_replaced(engine), time_machine.travel(NOON, tick=False):
        yield engine
    engine.close()


@pytest.fixture
def away(users: dict[str, User]) -> Iterator[None]:
    """The store cannot be reached."""
    with engine_replaced(redis_engine("redis://127.0.0.1:1/0", "away")):
        yield


@pytest.fixture
def client_of(users: dict[str, User]) -> Callable[[str], Client]:
    """`client_of("ann")`: a client who is logged in."""

    def make(name: str) -> Client:
        client = Client()
        client.force_login(users[name])
        return client

    return make
