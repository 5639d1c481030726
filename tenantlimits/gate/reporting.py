"""Trouble that every request meets is one log record a minute, and not one for each of them."""

from __future__ import annotations

import math
import threading
import time

SECONDS = 60


class OnceAMinute(threading.local):
    """When this thread last reported something (seconds, monotonic)."""

    at = -math.inf

    def is_due(self) -> bool:
        """Whether to report now; True at most once a minute."""
        if time.monotonic() - self.at <= SECONDS:
            return False
        self.at = time.monotonic()
        return True
