"""manage.py tenantlimits_switch: enforce, observe or off for the whole site, in force on the next request."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from tenantlimits.changes import acting
from tenantlimits.conf import conf
from tenantlimits.domain.errors import TenantLimitsError
from tenantlimits.gate.policies import failed_moves
from tenantlimits.models import Switch
from tenantlimits.models.choices import Mode


class Command(BaseCommand):
    """Turn it, with a reason, or say where it is."""

    help = "Turn the limits of the whole site to enforce, observe or off. Without a mode, say what they are at."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("mode", nargs="?", choices=Mode.values, help="nothing: say what it is at")
        parser.add_argument("--reason", default="", help="why; kept in the change log")
        parser.add_argument("--by", metavar="USERNAME", help="whose name the change log gets; nobody's: the system's")

    def handle(self, *_args: Any, mode: str | None, reason: str, by: str | None, **_options: Any) -> None:
        row = Switch.current()
        if mode is None:
            self.stdout.write(f"The switch is at {row.mode}{f': {row.reason}' if row.reason else '.'}")
            return
        if row.mode == mode:
            self.stdout.write(f"The switch is at {mode} already; nothing was changed.")
            return
        before = failed_moves.count
        self._turn(row, mode, reason, by)
        if failed_moves.count > before:
            seconds = f"{conf.POLICY_BACKSTOP_SECONDS:g}"
            self.stderr.write(f"The store could not be told: it is in force after at most {seconds} s.")
        self.stdout.write(f"The switch is at {row.mode}.")

    def _turn(self, row: Switch, mode: str, reason: str, by: str | None) -> None:
        users = get_user_model()
        user = users._default_manager.filter(**{users.USERNAME_FIELD: by}).first() if by else None
        if by and user is None:
            raise CommandError(f"There is no user {by!r}.")
        row.mode, row.reason = mode, reason
        try:
            with acting(user, reason), transaction.atomic():
                row.save()
        except TenantLimitsError as error:
            raise CommandError(f'{error} Write --reason "...".') from error
