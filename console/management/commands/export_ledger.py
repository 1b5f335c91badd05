"""`manage.py export_ledger --tenant SLUG --out FILE`: a bundle of the record, made here and now.

It is the same export as over HTTP: on record, made piece by piece, and gone on with when it is interrupted and called
again with `--resume ID`. It ends with 1 when the export came to nothing, and says why.
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

from console.pages.exports import bundle_information
from ledger.db import tenancy
from ledger.exports import queries as stored
from ledger.exports.operations import exports
from ledger.exports.rules.export_requests import FORMATS
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused

PAUSE_S = 0.5


class Command(BaseCommand):
    help = "Export the record as a bundle that can be verified offline; on record like any other export."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the bundle goes")
        parser.add_argument("--from", dest="start", metavar="INDEX|TIME", help="from here (the beginning)")
        parser.add_argument("--to", dest="end", metavar="INDEX|TIME", help="up to here (now)")
        parser.add_argument("--filter", action="append", default=[], metavar="NAME=VALUE", help="disclose only these")
        parser.add_argument("--format", choices=FORMATS, default="jsonl")
        parser.add_argument("--no-payloads", action="store_true", help="withhold payloads and evidence")
        parser.add_argument("--since", type=int, metavar="SIZE", help="prove that this older size was continued")
        parser.add_argument("--log", type=int, metavar="NUMBER", help="an older log of this tenant (the newest)")
        parser.add_argument("--resume", type=UUID, metavar="ID", help="go on with an export that was interrupted")

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
        shutil.copyfile(file, out)
        if options["verbosity"]:
            self.stdout.write(
                f"{out}: {out.stat().st_size} bytes. Verify it with verify_bundle.py and your own policy."
            )

    def _request(self, tenant_id: UUID, options: dict[str, Any]) -> UUID:
        wanted = {
            "from": _bound(options["start"]),
            "to": _bound(options["end"]),
            "filters": dict(each.partition("=")[::2] for each in options["filter"]),
            "format": options["format"],
            "payloads": not options["no_payloads"],
            "since": options["since"],
            "log": options["log"],
        }
        with tenancy(tenant_id):
            row = exports.request_export(tenant_id=tenant_id, wanted=wanted, by=ledger.SYSTEM, at=timezone.now())
        if options["verbosity"]:
            self.stdout.write(f"Export {row.id} is on record.")
        return row.id

    def _make(self, tenant_id: UUID, export_id: UUID, *, verbosity: int) -> None:
        while True:
            moved = bundle_information.advance_export(tenant_id=tenant_id, export_id=export_id, clock=timezone.now)
            with tenancy(tenant_id):
                row = stored.export(tenant_id, export_id)
            if row is None:
                raise exports.NoSuchExport
            if row.state == "FAILED":
                raise CommandError(row.reason)
            if row.state == "FINISHED":
                return
            if verbosity > 1 and row.log:
                self.stdout.write(f"{row.done - row.start} of {row.end - row.start}")
            if not moved:
                time.sleep(PAUSE_S)


def _bound(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text
