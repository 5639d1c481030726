"""manage.py seed: the demo's customers, with new passwords and keys."""

from typing import Any

from django.core.management.base import BaseCommand

from project.portal.seeding import seed


class Command(BaseCommand):
    help = "Write the demo's tiers, customers, logins and keys, and print what opens them; again changes only those."

    def handle(self, *_args: Any, **_options: Any) -> None:  # Any: Django's own signature
        for line in seed().lines():
            self.stdout.write(line)
