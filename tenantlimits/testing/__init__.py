"""For a host's tests: limits without Redis, with a clock that the test moves, and floods (see `flood`).

def test_the_second_export_is_refused(memory_engine, client): ...     # a pytest fixture that is simply there

with memory_engine(clock=lambda: now_us): ...                         # anywhere else
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenantlimits.engine.memory import MemoryEngine

__all__ = ["memory_engine"]


@contextmanager
def memory_engine(*, clock: Callable[[], float] | None = None) -> Iterator[MemoryEngine]:
    """Decide in this process, by a store that begins empty. `clock` gives microseconds since the epoch.

    Limits still come from the database's tiers and overrides; only what was used is kept here.
    """
    # Pytest reads its plugins, and so this module, before Django is set up.
    from tenantlimits.engine.memory import MemoryEngine  # noqa: PLC0415
    from tenantlimits.gate.store import engine_replaced, now_us  # noqa: PLC0415

    engine = MemoryEngine(clock=clock or now_us)
    with engine_replaced(engine):
        yield engine
