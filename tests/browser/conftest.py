"""A Chromium: the system's, or Playwright's own; without one these tests skip, and say why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def browser() -> Iterator[Browser]:
    """A browser of the test's own. Start it after the rows are there: Playwright's loop keeps Django's ORM away."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox to put it into
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        except Error as error:
            pytest.skip(f"needs a Chromium (make browser): {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()
