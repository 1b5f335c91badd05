"""`manage.py stuck [--over SECONDS] [--limit N] [--json]`: list the work of all tenants that is overdue, oldest first.

Readings of actions and claims, leases, deadlines, recoveries, notices, exports and events to outside, each with the
reason as far as that is on record. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from console.installation import queries


class Command(BaseCommand):
    help = "List the work of all tenants that is overdue, the oldest first, with the reason."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--over", type=int, default=60, metavar="SECONDS", help="overdue by more than this; 60")
        parser.add_argument("--limit", type=int, default=100, help="list no more; 100")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *args: Any, over: int = 60, limit: int = 100, json: bool = False, **options: Any) -> None:
        at = timezone.now()
        found = queries.overdue_items(due_before=at - timedelta(seconds=over), at=at)
        told = [
            {
                "kind": item.kind,
                "tenant": item.tenant,
                "id": str(item.id),
                "due_at": item.due_at.isoformat(),
                "overdue_s": int((at - item.due_at).total_seconds()),
                "reason": " ".join(filter(None, (item.reason, queries.last_failure(item)))),
            }
            for item in found[:limit]
        ]
        if json:
            self.stdout.write(_as_json({"overdue": len(found), "items": told}))
        else:
            for each in told:
                self.stdout.write(
                    f"{each['overdue_s']:>8} s  {each['kind']:<8}  {each['tenant']}  {each['id']}  {each['reason']}"
                )
            more = f", of which {limit} are shown" if len(found) > limit else ""
            self.stdout.write(f"{len(found)} overdue{more}." if found else f"Nothing is overdue by more than {over} s.")
        if found:
            sys.exit(1)


def _as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1)
