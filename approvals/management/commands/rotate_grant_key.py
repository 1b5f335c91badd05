"""`manage.py rotate_grant_key [--lead SECONDS]`: a new key for grants, published now and signing in a while.

On a machine whose process may write the secrets folder; every web process must read the same folder. What the key
before it signed stays good to its end. A command that died half-way is ended by running it again.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from approvals.execution.operations import grant_keys
from ledger.record.rules.refusals import Refused


class Command(BaseCommand):
    help = "Introduce a new key for grants: it is published at once and signs when verifiers have had time to read it."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--lead",
            type=int,
            default=int(grant_keys.LEAD.total_seconds()),
            metavar="SECONDS",
            help="how long it is published before it signs; 0 where the key before it must be retired at once",
        )
        parser.add_argument("--reason", default="")

    def handle(self, *args: Any, lead: int, reason: str = "", **options: Any) -> None:
        try:
            kid = grant_keys.introduce_key(lead=timedelta(seconds=max(lead, 0)), reason=reason, at=timezone.now())
        except Refused as refusal:
            grant_keys.announce_keys(reason=reason, at=timezone.now())
            raise CommandError(refusal.detail) from None
        self.stdout.write(f"{kid} signs in {lead} seconds.")
