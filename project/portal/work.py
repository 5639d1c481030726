"""The work that a real portal would do: it waits for something, as views do for their database."""

import time

from django.conf import settings


def read() -> None:
    """An everyday page."""
    time.sleep(settings.PORTAL_READ_SECONDS)


def export() -> None:
    """A report."""
    time.sleep(settings.PORTAL_EXPORT_SECONDS)
