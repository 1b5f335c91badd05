"""`manage.py retire_grant_key KID --reason WHY`: a key for grants that must not be trusted any more, from now on.

What it signed is refused at once, and the JWKS names it no more: executors that verify for themselves find out within
the age for which they keep the set. A key that was only rotated out needs none of this.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from approvals.execution.operations import grant_keys
from ledger.record.rules.refusals import Refused


class Command(BaseCommand):
    help = "End a key for grants at once, say because it was stolen; another one must sign by then."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kid", help="the key, as the JWKS names it")
        parser.add_argument("--reason", required=True)

    def handle(self, *args: Any, kid: str, reason: str, **options: Any) -> None:
        try:
            grant_keys.retire_key(kid=kid, reason=reason, at=timezone.now())
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        self.stdout.write(f"{kid} is good for nothing any more.")
