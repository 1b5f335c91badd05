"""`manage.py create_key KIND --tenant T`: create another machine key; it is shown only once."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from console.accounts import operations as accounts_operations
from ledger.record import operations as ledger
from ledger.record.queries import events as queries


class Command(BaseCommand):
    help = "Create a key for an agent, an executor (exec), an operator (oper) or an auditor (audit)."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("kind", choices=accounts_operations.KEY_KINDS)
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--name", default="", help="name shown in the console")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            help="restrict the key: tool:NAME for exec, agent:ID for agent; repeatable",
        )
        parser.add_argument("--expires", type=int, metavar="DAYS", help="days until the key expires (default: never)")

    def handle(
        self, *args: Any, kind: str, tenant: str, name: str, scope: list[str], expires: int | None, **options: Any
    ) -> None:
        known = queries.tenant(tenant)
        if known is None:
            raise CommandError(f"There is no tenant {tenant}; create it with `manage.py bootstrap --tenant {tenant}`.")
        if expires is not None and not 1 <= expires <= 3650:
            raise CommandError("--expires must be between 1 and 3650 days.")
        at = timezone.now()
        # Shown before the commit: a crash in between leaves a key that opens nothing, not one that nobody knows.
        with transaction.atomic():
            try:
                secret = accounts_operations.create_key(
                    tenant_id=known.id,
                    kind=kind,
                    name=name or kind,
                    by=ledger.SYSTEM,
                    at=at,
                    scopes=scope,
                    expires_at=at + timedelta(days=expires) if expires is not None else None,
                )
            except accounts_operations.UnknownScope as unknown:
                raise CommandError(unknown.detail) from None
            self.stdout.write(secret)
            self.stdout.flush()
