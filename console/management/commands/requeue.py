"""`manage.py requeue TENANT ID… | --all`: have overdue work done now, without deciding anything.

The ids are those that `stuck` lists. Readings, recoveries, notices and events to outside become due at once; leases and
deadlines are left alone, because ending one early would decide something. Workers do the rest.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.installation import operations, queries
from ledger.record.queries import events


class Command(BaseCommand):
    help = "Make overdue work due now; it changes no outcome."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("tenant", nargs="?", help="the tenant's short name")
        parser.add_argument("ids", nargs="*", type=UUID, help="ids, as `stuck` lists them")
        parser.add_argument("--all", action="store_true", help="everything that is overdue by more than a minute")

    def handle(
        self,
        *args: Any,
        tenant: str | None = None,
        ids: list[UUID] | None = None,
        **options: Any,
    ) -> None:
        at, everything = timezone.now(), bool(options["all"])
        if everything == bool(ids) or (everything and tenant):
            raise CommandError("Name a tenant and ids as `stuck` lists them, or --all.")
        if everything:
            late = queries.overdue_items(due_before=at - timedelta(minutes=1), at=at)
            wanted = list(dict.fromkeys((each.tenant_id, each.id) for each in late))
        else:
            found = events.tenant(tenant or "")
            if found is None:
                raise CommandError(f"There is no tenant {tenant}.")
            wanted = [(found.id, each) for each in ids or ()]
        moved = 0
        for tenant_id, subject_id in wanted:
            if operations.requeue(tenant_id=tenant_id, subject_id=subject_id, at=at):
                moved += 1
            else:
                self.stdout.write(f"{subject_id}: nothing waits for a time, or a worker is at it.")
        self.stdout.write(f"{moved} of {len(wanted)} are due now.")
