"""`manage.py move_tenant DEED …`: move a tenant to another installation, step by step (docs/moving-a-tenant.md).

    offer --cell NAME --out FILE                              destination: what the source must know of it
    freeze SLUG --to FILE --cell NAME --reason WHY            source: nothing more is written
    export SLUG --out FOLDER                                  source: rows, people and keys, as a folder of files
    import FOLDER                                             destination: take them in
    verify FOLDER                                             destination: compare everything, and name what is missing
    status SLUG                                               either: one word, how far it is
    abandon SLUG                                              source: give it up, before the log is handed over

Then `manage.py log hand-over SLUG` at the source and `manage.py log take-over SLUG` at the destination, where the log
keys are. Each step may be run again after a crash.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.installation import moving, tenant_copy
from console.installation.moving import MoveRefused
from console.installation.tenant_copy import CopyRefused
from ledger.log.rules.epoch import EpochUnknown
from ledger.record.queries import events

if TYPE_CHECKING:
    from ledger.models import Tenant


class Command(BaseCommand):
    help = "Move a tenant to another installation, step by step."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        deeds = parser.add_subparsers(dest="deed", required=True, metavar="DEED")
        offer = deeds.add_parser("offer", help="destination: write what the source must know of it")
        offer.add_argument("--cell", required=True, metavar="NAME", help="the name of this installation")
        offer.add_argument("--out", type=Path, required=True, metavar="FILE")
        freeze = deeds.add_parser("freeze", help="source: let nothing more be written")
        freeze.add_argument("tenant", metavar="SLUG")
        freeze.add_argument("--to", type=Path, required=True, metavar="FILE", help="the offer of the destination")
        freeze.add_argument("--cell", required=True, metavar="NAME", help="the name of this installation")
        freeze.add_argument("--reason", required=True, help="reason, kept on record")
        freeze.add_argument("--wait-s", type=float, default=60.0, help="how long to wait for writers and the sequencer")
        export = deeds.add_parser("export", help="source: write the copy")
        export.add_argument("tenant", metavar="SLUG")
        export.add_argument("--out", type=Path, required=True, metavar="FOLDER")
        take_in = deeds.add_parser("import", help="destination: take the copy in")
        take_in.add_argument("folder", type=Path)
        verify = deeds.add_parser("verify", help="destination: compare everything with the copy")
        verify.add_argument("folder", type=Path)
        verify.add_argument("--without-files", action="store_true", help="open it although files are missing")
        for name, about in (("status", "how far it is, as one word"), ("abandon", "source: give the move up")):
            deeds.add_parser(name, help=about).add_argument("tenant", metavar="SLUG")

    def handle(self, *args: Any, deed: str, **options: Any) -> None:
        try:
            getattr(self, f"_{deed}")(options)
        except (MoveRefused, CopyRefused, EpochUnknown) as refusal:
            raise CommandError(str(refusal)) from None

    def _offer(self, options: dict[str, Any]) -> None:
        moving.write_offer(options["out"], moving.make_offer(options["cell"]))
        self.stdout.write(f"{options['out']} was written. Give it to the source.")

    def _freeze(self, options: dict[str, Any]) -> None:
        if not options["reason"].strip():
            raise CommandError("Say with --reason why: it is kept on record. Nothing was done.")
        tenant = _tenant(options)
        moving.freeze(
            tenant.id,
            moving.read_offer(options["to"]),
            cell=options["cell"],
            reason=options["reason"].strip(),
            wait_s=options["wait_s"],
            at=timezone.now(),
        )
        self.stdout.write(f"{tenant.slug} is frozen: nothing is written for it, and its log is signed to the end.")

    def _export(self, options: dict[str, Any]) -> None:
        manifest = tenant_copy.take(_tenant(options).id, options["out"])
        self.stdout.write(
            f"{options['out']} was written: {manifest.rows} rows of {len(manifest.tables)} tables,"
            f" {manifest.keys.rows} keys. Take it to the destination by a way that others cannot read."
        )

    def _import(self, options: dict[str, Any]) -> None:
        manifest, is_new = moving.take_in(options["folder"])
        before = "" if is_new else " already"
        self.stdout.write(f"{manifest.tenant['slug']} is imported{before}: {manifest.rows} rows. Verify it now.")

    def _verify(self, options: dict[str, Any]) -> None:
        manifest = tenant_copy.read_manifest(options["folder"])
        missing = moving.verify(manifest, without_files=options["without_files"])
        self.stdout.write(
            f"{manifest.tenant['slug']} is verified: {manifest.rows} rows and {manifest.keys.rows} keys are as in the"
            " copy; its record and its log are intact."
        )
        for each in missing:
            self.stdout.write(f"Missing: {each}")

    def _status(self, options: dict[str, Any]) -> None:
        self.stdout.write(_tenant(options).moving or "open")

    def _abandon(self, options: dict[str, Any]) -> None:
        tenant = _tenant(options)
        moving.abandon(tenant.id, at=timezone.now())
        self.stdout.write(f"{tenant.slug} goes on here. A copy that was imported elsewhere is never opened.")


def _tenant(options: dict[str, Any]) -> Tenant:
    tenant = events.tenant(options["tenant"])
    if tenant is None:
        raise CommandError(f"There is no tenant {options['tenant']}.")
    return tenant
