"""The demo, as a newcomer runs it: real gunicorn, real floods, and a result that is an exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS = 180
"""One round takes about 50 s; a machine that is busy with something else gets its time."""


def environment(folder: Path) -> dict[str, str]:
    """As in a fresh shell: nothing names a service, and temporary files are in a folder that we can look into."""
    named = {"REDIS_URL", "DATABASE_URL", "BROKER_URL", "DEMO_DATABASE", "DJANGO_SETTINGS_MODULE"}
    return {name: value for name, value in os.environ.items() if name not in named} | {"TMPDIR": str(folder)}


def demo(*arguments: str, folder: Path, repository: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "project.demo", *arguments],
        cwd=repository,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Processes with the folder in their environment: what the demo started and did not end."""
    listed = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line]


def wait_until_gone(folder: Path) -> None:
    deadline = time.monotonic() + 20
    while (left := left_behind(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_a_flood_is_held_to_its_allowance_and_nothing_runs_on(tmp_path: Path, repository: Path) -> None:
    """V5, R1, R5: a tenfold flood over HTTP is admitted as often as its rate and burst say, on the server's clock.

    What the others feel is time, and a busy machine takes its own: `make demo ONCE=1` judges that.
    """
    process = demo("--once", "--rounds", "1", folder=tmp_path, repository=repository)

    output, _ = process.communicate(timeout=SECONDS)

    assert re.search(r"ok +acme gets \d+ refusals \(all-rate: \d+", output), output
    assert re.search(r"ok +acme has \d+ admissions in", output), output
    assert process.returncode == ("FAILED" in output)
    wait_until_gone(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_nothing_runs_on(tmp_path: Path, repository: Path, ending: signal.Signals) -> None:
    """And what a killed one leaves behind does not concern the next."""
    process = demo("--once", folder=tmp_path, repository=repository)
    assert process.stdout
    for line in process.stdout:
        if "others alone" in line:
            break
    # Into the flood itself: an event loop that is interrupted while it is made complains, and Python offers no remedy.
    time.sleep(0.5)

    process.send_signal(ending)

    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode not in (0, 1), output
    assert "Traceback" not in output
    wait_until_gone(tmp_path)
