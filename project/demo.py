"""python -m project.demo [--once]: see what a flood does to the neighbours, with and without limits.

Starts a Valkey and gunicorn of its own (REDIS_URL and DATABASE_URL name others), seeds three customers, floods the
portal as one of them, prints what the others felt, and leaves the portal running until Ctrl-C. With --once it stops
after the proof: 0 where it holds, else 1. Whatever it started ends with it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import django
from django.core.management import call_command

from project.valkey import start_valkey
from project.web import Web, serving

if TYPE_CHECKING:
    from project.portal.seeding import Seeded

FLUSH_SECONDS = 30
_began = time.monotonic()


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m project.demo", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--once", action="store_true", help="stop after the proof, and exit by its result")
    parser.add_argument("--rounds", type=int, default=3, help="of the proof (default: 3, whose medians are taken)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return _demo(once=options.once, rounds=max(1, options.rounds))
    except KeyboardInterrupt:
        say("Stopped.")
        return 130 if options.once else 0


def _demo(*, once: bool, rounds: int) -> int:
    with ExitStack() as stack:
        _prepare_services(stack)
        seeded = _prepare_rows()
        web = _start_web(stack)
        holds = _prove(web, seeded, rounds)
        if not once:
            _stay(web, seeded)
    return 0 if holds else 1


def say(words: str) -> None:
    """A line, with the seconds since the start."""
    print(f"{time.monotonic() - _began:6.1f} s  {words}", flush=True)


def _prepare_services(stack: ExitStack) -> None:
    """Name a store, a database and a place for metrics in the environment, for Django here and in gunicorn.

    All are new and empty.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if "REDIS_URL" not in os.environ:
        say("Starting Valkey.")
        url, stop = start_valkey()
        stack.callback(stop)
        os.environ["REDIS_URL"] = url
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenantlimits-demo-")))
    if "DATABASE_URL" not in os.environ:
        os.environ["DEMO_DATABASE"] = str(folder / "demo.sqlite3")
    metrics = folder / "metrics"
    metrics.mkdir()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)


def _prepare_rows() -> Seeded:
    say("Migrating the database.")
    django.setup()
    call_command("migrate", verbosity=0)
    say("Seeding tiers, customers, logins and keys.")
    from project.portal.seeding import seed  # noqa: PLC0415 - models can be imported only now

    return seed()


def _start_web(stack: ExitStack) -> Web:
    say("Starting gunicorn.")
    return stack.enter_context(serving())


def _prove(web: Web, seeded: Seeded, rounds: int) -> bool:
    from project import proof  # noqa: PLC0415 - as above

    claims = proof.run(web, seeded.tokens, rounds, say)
    for claim in claims:
        say(f"{'ok    ' if claim.holds else 'FAILED'} {claim.words}")
    holds = all(claim.holds for claim in claims)
    say("The proof holds." if holds else "The proof does not hold.")
    return holds


def _stay(web: Web, seeded: Seeded) -> None:
    """Leave the portal running until Ctrl-C, or until gunicorn ends by itself."""
    store = f"REDIS_URL='{os.environ['REDIS_URL']}'"
    database = f" DEMO_DATABASE='{os.environ['DEMO_DATABASE']}'" if "DATABASE_URL" not in os.environ else ""
    for line in [
        "",
        f"Portal     {web.url}/    limits {web.url}/limits/    admin {web.url}/admin/",
        f"Metrics    {web.url}/metrics/, for staff",
        *seeded.lines(),
        f"Try        curl -i -H 'Authorization: Bearer {seeded.tokens['acme']}' {web.url}/api/projects/",
        f"Commands   {store}{database} {sys.executable} manage.py tenantlimits_doctor",
        "Ctrl-C ends everything.",
    ]:
        print(line, flush=True)
    while web.process.poll() is None:
        _flush()
        try:
            web.process.wait(FLUSH_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    say("Gunicorn has ended.")


def _flush() -> None:
    """Write usage down, as cron would."""
    from tenantlimits.usage import FlushFailed, flush  # noqa: PLC0415 - as above

    try:
        flush()
    except FlushFailed as error:
        say(str(error))


if __name__ == "__main__":
    sys.exit(main())
