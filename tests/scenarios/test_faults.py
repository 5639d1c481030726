"""The faults of `make chaos` that need processes, during a flood on four workers; tests/chaos says what is promised.

A request may be two timeouts inside store calls, and 0.25 s more on a busy machine, where a thread has to wait for its
turn. Decisions are shared again within 2 s, the issue's own number. docs/faults.md has the table, and
tests/gate/test_faults.py the faults that one process can show.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from tests.chaos.faults import FAULTS
from tests.chaos.fleet import fleet
from tests.chaos.trial import run
from tests.chaos.verdict import problems, summary

HERE = (
    "killed",
    "stopped",
    "restarted with its data",
    "restarted empty",
    "failed over, promoted",
    "SCRIPT FLUSH",
    "somebody's slow script",
    "half-open connections",
    "replies are lost",
)


def test_what_is_promised_for_a_fault_is_seen(
    transactional_db: None, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """V3, V6, R5, C73, C99, C101, C102, C104, C105, C108."""
    database = {name: value for name, value in connection.settings_dict.items() if name != "TEST"}
    with fleet(tmp_path, database) as running:
        for fault in FAULTS:
            if fault.name in HERE:
                with subtests.test(fault.name):
                    course = run(fault, running)
                    assert not list(problems(course)), summary(course)
