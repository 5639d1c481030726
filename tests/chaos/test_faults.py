"""The table of faults, for whoever reads it on the terminal or in the docs."""

from __future__ import annotations

from pathlib import Path

from tests.chaos import table
from tests.chaos.faults import FAULTS


def test_the_docs_list_every_fault_and_its_promise(repository: Path) -> None:
    page = (repository / "docs" / "faults.md").read_text("utf-8").splitlines()
    told = [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in page if line.startswith("| ")][1:]

    assert told == [(fault.name, fault.promised) for fault in FAULTS]


def test_a_row_is_as_high_as_its_longest_cell() -> None:
    lines = table.row(("stopped", "word " * 20, "seen", "0", "kept")).splitlines()

    assert len(lines) == 3
    assert lines[0].split()[0] == "stopped"
    assert lines[0].split()[-1] == "kept"
    assert all(line.startswith(" " * table.WIDTHS[0]) for line in lines[1:])
