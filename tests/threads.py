"""Threads of tests that may ask the database."""

from __future__ import annotations

import threading

from django.db import connections


class Thread(threading.Thread):
    """A thread that leaves no connection to the database behind: nobody else could close it."""

    def run(self) -> None:
        try:
            super().run()
        finally:
            connections.close_all()
