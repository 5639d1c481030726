"""DRF's own throttles, a limit each."""

from __future__ import annotations

from itertools import count

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView

HISTORY = 100
"""DRF keeps the time of every request of the period in one list, and reads and writes all of it each time. A new caller
after so many requests keeps the lists shorter than limits of thousands would leave them, which is in its favour."""


class EverySecond(SimpleRateThrottle):
    """10^6 in a second."""

    scope = "second"
    rate = "1000000/s"

    def __init__(self) -> None:
        super().__init__()
        self.number = _COUNTS.setdefault(self.scope, count())

    def get_cache_key(self, request: Request, view: APIView) -> str:
        """The caller's key."""
        return f"bench:{self.scope}:{next(self.number) // HISTORY}"


class EveryMinute(EverySecond):
    """2 x 10^6 in a minute."""

    scope, rate = "minute", "2000000/m"


class EveryHour(EverySecond):
    """3 x 10^6 in an hour."""

    scope, rate = "hour", "3000000/h"


class EveryDay(EverySecond):
    """4 x 10^6 in a day."""

    scope, rate = "day", "4000000/d"


_COUNTS: dict[str, count[int]] = {}
FOUR = [EverySecond, EveryMinute, EveryHour, EveryDay]
