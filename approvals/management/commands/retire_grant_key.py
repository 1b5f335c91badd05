"""`manage.py retire_grant_key --reason WHY -- KID`: stop trusting a grant key at once.

Grants that it signed are refused from now on, and the JWKS no longer publishes it; executors that verify grants
themselves notice when their cached key set expires. A key that was merely rotated out need not be retired.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from approvals.execution.operations import grant_keys
from approvals.management.commands.rotate_grant_key import say_what_was_taken_over
from ledger.record.rules.refusals import Refused


class Command(BaseCommand):
    help = "Stop trusting a grant key at once, for example because it was stolen. Another key must already be signing."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kid", help="key id, as in the JWKS; after `--`, since it may begin with `-`")
        parser.add_argument("--reason", required=True, help="reason, kept on record")

    def handle(self, *args: Any, kid: str, reason: str, **options: Any) -> None:
        try:
            say_what_was_taken_over(self.stdout.write)
            grant_keys.retire_key(kid=kid, reason=reason, at=timezone.now())
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        self.stdout.write(f"{kid} is retired. Grants that it signed are refused.")
