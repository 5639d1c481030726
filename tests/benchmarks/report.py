"""A run of the benchmark: its rows as a table for a terminal, and as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, TypeVar

from tests.benchmarks.rows import Row

T = TypeVar("T")

SCHEMA = 1
HEAD = f"{'id':5}{'what':68}{'must':>8}{'goal':>8}{'measured':>12}  "


@dataclass(frozen=True, slots=True)
class Report:
    """One run: when, on what, and what it found."""

    month: str
    machine: Mapping[str, str]
    rows: Sequence[Row] = field(default_factory=tuple)

    def as_json(self) -> str:
        """The run as text that `read` understands."""
        rows = [asdict(row) | {"verdict": row.verdict} for row in self.rows]
        whole = {"schema": SCHEMA, "month": self.month, "machine": dict(self.machine), "rows": rows}
        return json.dumps(whole, indent=1) + "\n"


def announced(parts: Sequence[T], about: Callable[[T], str]) -> Iterator[T]:
    """The parts of a run one by one; the terminal is told which is under way, and how long each took."""
    for number, part in enumerate(parts, start=1):
        _say(f"[{number}/{len(parts)}] {about(part)} ...")
        begun = time.monotonic()
        yield part
        _say(f"[{number}/{len(parts)}] {about(part)}: {time.monotonic() - begun:.0f} s")


def _say(text: str) -> None:
    # To the terminal, and not among the rows where those are sent somewhere.
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for


def read(text: str) -> Report:
    """A run from its JSON."""
    whole: dict[str, Any] = json.loads(text)
    if whole["schema"] != SCHEMA:
        raise ValueError(f"schema {whole['schema']} is not {SCHEMA}: run make bench again")
    rows = [Row(**{name: value for name, value in row.items() if name != "verdict"}) for row in whole["rows"]]
    return Report(whole["month"], whole["machine"], rows)


def machine(server: str) -> dict[str, str]:
    """What a reader has to know of this machine, and nothing that tells which one it is."""
    return {
        "processors": f"{os.cpu_count()} virtual CPUs",
        "server": server,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    } | {name: version(name) for name in ("redis", "hiredis", "Django", "djangorestframework")}


def this_month() -> str:
    """Such as 2026-11."""
    return f"{datetime.now(UTC):%Y-%m}"


def line(row: Row) -> str:
    """A row of the table for a terminal."""
    numbers = f"{number(row.must, row.unit):>8}{number(row.goal, row.unit):>8}{measured(row):>12}"
    return f"{row.id:5}{row.what:68}{numbers}  {row.told}"


def measured(row: Row) -> str:
    """The figure with its unit."""
    unit = f" {row.unit}" if row.unit and row.measured is not None else ""
    return number(row.measured, row.unit) + unit


def number(value: float | None, unit: str = "") -> str:
    """Digits as far as they mean something: two behind the point for a ratio, three figures for all else."""
    if value is None:
        return "-"
    if not unit:
        return f"{value:.2f}"
    behind = 2 - int(math.log10(abs(value) or 1))
    return f"{round(value, behind):,.{max(0, behind)}f}"


def row_of(rows: Sequence[Row], what: str) -> Row:
    """The row whose text begins so."""
    return next(row for row in rows if row.what.startswith(what))
