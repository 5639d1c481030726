"""Fixtures for pytest, found by themselves where this package is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tenantlimits import testing

if TYPE_CHECKING:
    from tenantlimits.engine.memory import MemoryEngine


@pytest.fixture
def memory_engine() -> Iterator[MemoryEngine]:
    """A store of the test's own, in this process: nothing of another test counts, and no Redis is needed."""
    with testing.memory_engine() as engine:
        yield engine
