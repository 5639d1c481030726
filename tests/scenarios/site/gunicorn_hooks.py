"""Gunicorn's configuration: the first worker's clock is off by SITE_SHIFT_SECONDS, all of Python's wall clocks."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import time_machine


def post_fork(server: Any, worker: Any) -> None:
    shift = float(os.environ.get("SITE_SHIFT_SECONDS", "0"))
    if shift and worker.age == 1:
        # The monotonic clock, by which gunicorn and leases measure durations, stays what it is.
        time_machine.travel(datetime.now(UTC) + timedelta(seconds=shift)).start()
