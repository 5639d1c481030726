# ruff: noqa: T201 - it prints its table
"""One fault after another, and a row of the table for each as it ends."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from tests.chaos import soak, table
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.fleet import Fleet, fleet
from tests.chaos.trial import run
from tests.chaos.verdict import problems, summary

MOST_LINES = 8


def report(folder: Path, database: Mapping[str, Any], *, only: str, soak_seconds: int) -> bool:
    """Whether all that is promised was seen."""
    began = time.monotonic()
    print(table.row(table.HEAD), table.rule(), sep="\n", flush=True)
    with _quietly_ended(folder, database) as running:
        kept = [_is_kept(fault, running) for fault in FAULTS if only in fault.name]
        if soak_seconds and only in "soak":
            kept.append(_is_soak_kept(running, soak_seconds))
    print(f"\n{sum(kept)} of {len(kept)} promises kept in {time.monotonic() - began:.0f} s.")
    return bool(kept) and all(kept)


def _is_kept(fault: Fault, running: Fleet) -> bool:
    _say(f"... {fault.name}")
    course = run(fault, running)
    found = list(problems(course))
    _print_row(fault.name, fault.promised, summary(course), str(course.failed), found)
    if found:
        _say_what_was_wrong(running)
    return not found


def _is_soak_kept(running: Fleet, seconds: int) -> bool:
    whole = soak.run(running, seconds, _say)
    found = list(whole.problems())
    _print_row(f"soak of {seconds} s", soak.PROMISED, whole.summary, str(whole.failed), found)
    if found:
        _say_what_was_wrong(running)
    return not found


def _print_row(name: str, promised: str, seen: str, lost: str, found: list[str]) -> None:
    print(table.row((name, promised, seen, lost, "; ".join(found) or "kept")), flush=True)


def _say_what_was_wrong(running: Fleet) -> None:
    """The last that the workers said of their store."""
    for line in [line for line in running.log.read_text().splitlines() if "store" in line][-MOST_LINES:]:
        _say(f"    {line}")


def _say(text: str) -> None:
    # To the terminal, and not among the rows where those are sent somewhere.
    print(text, file=sys.stderr, flush=True)


@contextmanager
def _quietly_ended(folder: Path, database: Mapping[str, Any]) -> Iterator[Fleet]:
    """The fleet, without the workers' log at the end, in which every fault has left its lines."""
    with ExitStack() as stack:
        yield stack.enter_context(fleet(folder, database))
        with redirect_stdout(io.StringIO()):
            stack.close()
