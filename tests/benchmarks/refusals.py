"""A refusal that is repeated while it is still true, beside a decision that asks the store. P9."""

from __future__ import annotations

from collections.abc import Iterator

from tenantlimits.gate import admit
from tests.benchmarks.bench import Bench
from tests.benchmarks.harness import Case, compare
from tests.benchmarks.rows import Row

ABOUT = "a refusal from memory"


def rows(bench: Bench) -> Iterator[Row]:
    """P9: the lane's one operation of the day is spent, so every further one is refused for hours."""
    while admit(lane="tight", tenant="acme").allowed:
        pass

    def refused() -> None:
        assert admit(lane="tight", tenant="acme").refused

    def allowed() -> None:
        assert admit(lane="rates", tenant="acme").allowed

    found = compare({"asked": Case(allowed), "again": Case(refused)}, server=bench.server, rounds=60)
    yield Row(
        "P9",
        "a refusal repeated from memory over a decision of the store",
        0.10,
        0.03,
        found["again"].over(found["asked"]),
    )
