"""`manage.py prune [--month y2019m03]`: delete whole months of events (ledger.retention.operations.pruning).

Run by hand as the owner of the tables: DATABASE_URL is that of the owner. Without `--month` every month is tried,
oldest first; for one that cannot be pruned yet, the reason is printed. Only a backup brings a month back.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from ledger.record.queries import events
from ledger.record.rules.refusals import Refused
from ledger.retention.operations import pruning


class Command(BaseCommand):
    help = "Delete months of events that no retention policy requires any longer. Run as the owner of the tables."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--month", metavar="yYYYYmMM", help="only this month")

    def handle(self, *args: Any, month: str | None = None, **options: Any) -> None:
        found = [each for each in pruning.month_partitions() if month in (None, each.name)]
        if month is not None and not found:
            raise CommandError(f"There is no partition named {month}.")
        tenants = [tenant.id for tenant in events.tenants()]
        for each in found:
            if each.ended_at > timezone.now():
                continue
            try:
                count = pruning.prune_month(each, tenants, clock=timezone.now)
            except Refused as refusal:
                if month is not None:
                    raise CommandError(refusal.detail) from None
                self.stdout.write(refusal.detail)
                return
            self.stdout.write(f"{each.name}: {count} events deleted.")
