"""`manage.py rebuild_metrics [--tenant SLUG]`: recompute all metrics from the record.

The result equals what the worker keeps up to date. Each tenant is one transaction: until it commits, the pages show the
old figures.
"""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.metrics import operations
from ledger.db import tenancy
from ledger.record.queries import events


class Command(BaseCommand):
    help = "Recompute all metrics from the record alone."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", metavar="SLUG", help="one tenant only")

    def handle(self, *args: Any, tenant: str | None = None, **options: Any) -> None:
        found = [each for each in events.tenants() if tenant in (None, each.slug)]
        if tenant is not None and not found:
            raise CommandError(f"There is no tenant {tenant}.")
        for each in found:
            with tenancy(each.id):
                count = operations.rebuild_metrics(tenant_id=each.id, at=timezone.now())
            self.stdout.write(f"{each.slug}: recomputed the metrics of {count} actions.")
