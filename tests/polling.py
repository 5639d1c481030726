"""Asking again until something is so."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], object], seconds: float = 5, *, every: float = 0.005) -> bool:
    """Whether it holds within so long; asked every so often until it does."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(every)
    return True
