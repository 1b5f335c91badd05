"""`manage.py export_ledger --tenant SLUG --out FILE`: export the record as a bundle, in this process.

It is the same export as over HTTP: recorded, and made piece by piece. If interrupted, continue it with `--resume ID`.
It exits with 1 when the export failed, and prints the reason.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.exports import bundle_information
from ledger.db import tenancy
from ledger.exports import queries as stored
from ledger.exports.operations import exports
from ledger.exports.rules.export_requests import FORMATS
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound, Refused

PAUSE_S = 0.5


class Command(BaseCommand):
    help = "Export the record as a bundle that can be verified offline; recorded like any other export."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="output file")
        parser.add_argument("--from", dest="start", metavar="INDEX|TIME", help="start (default: the beginning)")
        parser.add_argument("--to", dest="end", metavar="INDEX|TIME", help="end (default: now)")
        parser.add_argument("--filter", action="append", default=[], metavar="NAME=VALUE", help="disclose only these")
        parser.add_argument("--format", choices=FORMATS, default="jsonl")
        parser.add_argument("--no-payloads", action="store_true", help="leave out payloads and evidence")
        parser.add_argument("--since", type=int, metavar="SIZE", help="prove consistency with this size")
        parser.add_argument(
            "--log", type=int, metavar="NUMBER", help="an earlier log of this tenant (default: the newest)"
        )
        parser.add_argument("--resume", type=UUID, metavar="ID", help="continue an interrupted export")

    def handle(self, *args: Any, tenant: str, out: Path, **options: Any) -> None:
        found = events.tenant(tenant)
        if found is None:
            raise CommandError(f"There is no tenant {tenant}.", returncode=2)
        try:
            export_id = options["resume"] or self._request(found.id, options)
            self._make(found.id, export_id, verbosity=options["verbosity"])
            with tenancy(found.id):
                file = exports.fetch_bundle(
                    tenant_id=found.id, export_id=export_id, by=ledger.SYSTEM, at=timezone.now()
                )
        except Refused as refusal:
            raise CommandError(str(refusal.detail)) from None
        with file, out.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        if options["verbosity"]:
            self.stdout.write(
                f"{out}: {out.stat().st_size} bytes. Verify it with verify_bundle.py and your own policy."
            )

    def _request(self, tenant_id: UUID, options: dict[str, Any]) -> UUID:
        wanted = {
            "from": _parse_bound(options["start"]),
            "to": _parse_bound(options["end"]),
            "filters": dict(each.partition("=")[::2] for each in options["filter"]),
            "format": options["format"],
            "payloads": not options["no_payloads"],
            "since": options["since"],
            "log": options["log"],
        }
        with tenancy(tenant_id):
            row = exports.request_export(tenant_id=tenant_id, wanted=wanted, by=ledger.SYSTEM, at=timezone.now())
        if options["verbosity"]:
            self.stdout.write(f"Export {row.id} was recorded.")
        return row.id

    def _make(self, tenant_id: UUID, export_id: UUID, *, verbosity: int) -> None:
        while True:
            moved = bundle_information.advance_export(tenant_id=tenant_id, export_id=export_id, clock=timezone.now)
            with tenancy(tenant_id):
                row = stored.export(tenant_id, export_id)
            if row is None:
                raise NotFound("Export")
            if row.state == "FAILED":
                raise CommandError(row.reason)
            if row.state == "FINISHED":
                return
            if verbosity > 1 and row.log:
                self.stdout.write(f"{row.done - row.start} of {row.end - row.start}")
            if not moved:
                time.sleep(PAUSE_S)


def _parse_bound(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text
