"""Every fault on real servers and processes, and a soak: `make chaos`, or `python -m tests.chaos --only stopped`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command


def main() -> int:
    """0 where all that is promised was seen."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        database = _database(folder)
        _set_django_up(database)
        from tests.chaos.report import report  # noqa: PLC0415 - models need Django to be set up

        return 0 if report(folder, database, only=options.only, soak_seconds=options.soak) else 1


def _database(folder: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(folder / "chaos.sqlite3"),
        "OPTIONS": {"timeout": 20},
    }


def _set_django_up(database: dict[str, Any]) -> None:
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "tests.chaos.site.settings",
        "SITE_DATABASE": json.dumps(database),
        # These are overridden as soon as there is a server.
        "SITE_TENANTLIMITS": "{}",
        "REDIS_URL": "",
    }
    django.setup()
    logging.getLogger("tenantlimits").setLevel(logging.CRITICAL)  # the table says what there is to say
    call_command("migrate", verbosity=0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--soak", type=int, default=30, metavar="SECONDS", help="how long; 0 for none")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults whose name has it; `soak` for no fault")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
