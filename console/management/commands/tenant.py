"""`manage.py tenant list | export SLUG --out FILE | off-board SLUG --confirm NAME --reason WHY --out FILE`.

list        each tenant with what is open and how many keys are in force
export      the whole record as a bundle (`export_ledger` does parts); with --policy, verified as an outsider does
off-board   ask; once a person of the tenant has confirmed, let nothing new begin, wait until nothing is open, hand
            the record over. What is deleted then is for erasure and retention; run it again until it says that it has
            finished
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.installation import off_boarding
from ledger.db import tenancy
from ledger.record.queries import events
from ledger.record.rules.refusals import AlreadyDecided

if TYPE_CHECKING:
    from ledger.models import Tenant

VERIFIED: Final = {0: "verified", 10: "verified, with erased payloads", 11: "verified, its tail not anchored"}
STAYS: Final = (
    "What stays: events, their log with its signed heads and proofs, and contents until an erasure by two people or the"
    " retention removes them. Members may still sign in and read; `manage.py member` ends that."
)


class Command(BaseCommand):
    help = "List tenants, export the record of one, or off-board it."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("deed", choices=["list", "export", "off-board"], help="what to do")
        parser.add_argument("tenant", nargs="?", metavar="SLUG")
        parser.add_argument("--out", type=Path, metavar="FILE", help="write the bundle here")
        parser.add_argument("--policy", type=Path, metavar="FILE", help="verify the bundle against this tlog-policy")
        parser.add_argument("--confirm", metavar="NAME", help="with off-board: the tenant's full name, typed")
        parser.add_argument("--reason", default="", help="with off-board: reason, kept on record")
        parser.add_argument("--json", action="store_true", help="with list: one JSON document instead of lines")

    def handle(self, *args: Any, deed: str, tenant: str | None = None, **options: Any) -> None:
        if deed == "list":
            self._list(as_json=options["json"])
            return
        found = events.tenant(tenant or "")
        if found is None:
            raise CommandError(f"There is no tenant {tenant}." if tenant else "Name a tenant.")
        if options["out"] is None:
            raise CommandError("Say with --out where the bundle is to be written.")
        if deed == "export":
            self._export(found, options["out"], options["policy"])
        else:
            self._off_board(found, **{name: options[name] for name in ("out", "policy", "confirm", "reason")})

    def _list(self, *, as_json: bool) -> None:
        told = []
        for each in events.tenants():
            with tenancy(each.id):
                work, keys = (
                    off_boarding.open_work(each.id, at=timezone.now()),
                    off_boarding.count_keys_in_force(each.id),
                )
            told.append(
                {
                    "tenant": each.slug,
                    "name": each.name,
                    "id": str(each.id),
                    "since": each.created_at.isoformat(),
                    "open_actions": work.actions,
                    "open_cases": work.cases,
                    "keys_in_force": keys,
                }
            )
        if as_json:
            self.stdout.write(json.dumps(told, indent=1))
            return
        for row in told:
            counts = (
                f"actions open: {row['open_actions']}, cases open: {row['open_cases']}, keys: {row['keys_in_force']}"
            )
            self.stdout.write(f"{row['tenant']}  {row['name']}  since {str(row['since'])[:10]}  {counts}")

    def _export(self, tenant: Tenant, out: Path, policy: Path | None) -> None:
        call_command("export_ledger", tenant=tenant.slug, out=out, verbosity=0, stdout=self.stdout)
        if policy is None:
            self.stdout.write(f"{out} was written. It has not been verified: give a --policy.")
            return
        verifier = [sys.executable, "-m", "ledger.verify_bundle", str(out), "--policy", str(policy)]
        ended = subprocess.run(verifier, capture_output=True, text=True)
        if ended.returncode not in VERIFIED:
            raise CommandError(f"{out} was written and is not verified:\n{(ended.stdout + ended.stderr).strip()}")
        self.stdout.write(f"{out} was written and is {VERIFIED[ended.returncode]}.")

    def _off_board(self, tenant: Tenant, *, out: Path, policy: Path | None, confirm: str | None, reason: str) -> None:
        if confirm != tenant.name:
            raise CommandError(
                "Type the tenant's full name after --confirm, as `tenant list` shows it. Nothing was done."
            )
        if not reason.strip():
            raise CommandError("Say with --reason why: it is kept on record. Nothing was done.")
        asked = off_boarding.request_off_boarding(tenant.id, reason=reason.strip(), at=timezone.now())
        if asked.state == "REQUESTED":
            raise CommandError(
                f"Asked for since {asked.requested_at:%Y-%m-%d %H:%M} UTC, and nothing else was done. A person of this"
                " tenant with the role compliance confirms it within 30 days, on the page Audit, Holds and erasure. Run"
                " this again then."
            )
        try:
            off_boarding.close_entrances(tenant.id, asked, at=timezone.now())
        except AlreadyDecided:
            raise CommandError("A person of the tenant has refused it at this moment. Nothing was done.") from None
        self.stdout.write("Nothing new begins: the tenant is frozen, its agents are stopped, their keys are revoked.")
        with tenancy(tenant.id):
            work = off_boarding.open_work(tenant.id, at=timezone.now())
        if work:
            raise CommandError(
                f"Open actions: {work.actions}, open cases: {work.cases}. Workers end what can be ended, people settle"
                " the cases on their pages. Run this again then."
            )
        self._export(tenant, out, policy)
        with out.open("rb") as file:
            bundle = hashlib.file_digest(file, "sha256").hexdigest()
        off_boarding.finish(tenant.id, asked, bundle=bundle, at=timezone.now())
        self.stdout.write(f"{tenant.slug} is off-boarded; no key is in force. {STAYS}")
