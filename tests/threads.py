"""Threads of tests that may ask the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


class Thread(threading.Thread):
    """A thread that leaves no connection to the database behind: nobody else could close it."""

    def run(self) -> None:
        try:
            super().run()
        finally:
            connections.close_all()


def elsewhere(work: Callable[[], T]) -> T:
    """What another thread gets."""
    found: list[T] = []
    thread = Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]
