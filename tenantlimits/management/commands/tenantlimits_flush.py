"""manage.py tenantlimits_flush: write down the usage that the store has counted, by the hour."""

from __future__ import annotations

import argparse
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import close_old_connections

from tenantlimits.usage import FlushFailed, flush


class Command(BaseCommand):
    """Once, or again and again; the exit code is 1 where something could not be flushed."""

    help = "Write the usage that the store has counted into the database. Safe at any time, and in several places."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--every", type=_seconds, metavar="SECONDS", help="go on, and flush again after so many seconds (60, say)"
        )

    def handle(self, *_args: Any, every: float | None, **_options: Any) -> None:  # Any: as BaseCommand types them
        if every is None:
            self._flush()
            return
        try:
            while True:
                self._try_to_flush()
                time.sleep(every)
                close_old_connections()
        except KeyboardInterrupt:
            self.stdout.write("Stopped.")

    def _flush(self) -> None:
        self._shown_at = time.monotonic()
        try:
            flushed = flush(self._show)
        except FlushFailed as error:
            raise CommandError(str(error)) from error
        left = f"; {flushed.left_over:,} were used meanwhile" if flushed.left_over else ""
        self.stdout.write(f"Flushed {flushed.tenants:,} tenants, {flushed.rows:,} rows{left}.")

    def _try_to_flush(self) -> None:
        try:
            self._flush()
        except CommandError as error:
            self.stderr.write(str(error))

    def _show(self, done: int, of: int) -> None:
        """A line for each second that it takes."""
        if time.monotonic() - self._shown_at >= 1 and done < of:
            self._shown_at = time.monotonic()
            self.stdout.write(f"  {done:,} of {of:,} tenants")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 86400 seconds")
    return seconds
