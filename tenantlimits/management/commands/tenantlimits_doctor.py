"""manage.py tenantlimits_doctor: what stops a newcomer, each with what to do about it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tenantlimits.management.diagnosis import diagnose
from tenantlimits.management.findings import Finding, Health


class Command(BaseCommand):
    """A line for each finding; the exit code is 1 where something fails."""

    help = "Look at settings, store and rows, and say what is wrong and what to do about it."
    # Ours are part of what we show, and another app's error must not keep us from it.
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:  # Any: as BaseCommand types them
        found: Counter[Health] = Counter()
        for finding in diagnose():
            found[finding.health] += 1
            self._show(finding)
        words = ", ".join(f"{found[health]} {health}" for health in Health if found[health])
        if found[Health.FAIL]:
            raise CommandError(f"{words}. Begin with the first failure: others may follow from it.")
        self.stdout.write(f"{words}.")

    def _show(self, finding: Finding) -> None:
        style = {Health.OK: self.style.SUCCESS, Health.WARN: self.style.WARNING, Health.FAIL: self.style.ERROR}
        self.stdout.write(f"{style[finding.health](f'{finding.health:4}')}  {finding.words}")
        if finding.remedy:
            self.stdout.write(f"      -> {finding.remedy}")
