"""`manage.py rotate_grant_key [--lead SECONDS]`: publish a new grant key now and let it sign once the lead has passed.

Run it on any host; every process sees the new key at once. Grants signed by the previous key stay valid until they
expire. The first run takes over keys that are in files. If the command is interrupted, run it again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from approvals.execution.operations import grant_keys
from ledger.record.rules.refusals import Refused


def say_what_was_taken_over(say: Callable[[str], object]) -> None:
    """Take over the keys of files if that was not done yet, and tell it."""
    if kids := grant_keys.take_over_files(at=timezone.now()):
        say(
            f"The grant keys of this host's files are in the databases now: {', '.join(kids)}. Every host reads them"
            " there; grant_key.pem, grant_keys.json and grant_keys are not read any more."
        )


class Command(BaseCommand):
    help = "Publish a new grant key now; it starts signing after the lead time."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--lead",
            type=int,
            default=int(grant_keys.LEAD.total_seconds()),
            metavar="SECONDS",
            help="seconds until the new key signs; 0 to retire the previous key at once",
        )
        parser.add_argument("--reason", default="", help="reason, kept on record")

    def handle(self, *args: Any, lead: int, reason: str = "", **options: Any) -> None:
        try:
            say_what_was_taken_over(self.stdout.write)
            kid = grant_keys.introduce_key(lead=timedelta(seconds=max(lead, 0)), reason=reason, at=timezone.now())
        except Refused as refusal:
            grant_keys.announce_keys(reason=reason, at=timezone.now())
            raise CommandError(refusal.detail) from None
        self.stdout.write(f"{kid} starts signing in {lead} seconds.")
