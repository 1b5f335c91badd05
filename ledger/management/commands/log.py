"""`manage.py log rotate-key | retire-key | restored | hand-over SLUG | take-over SLUG`: an operator's log commands.

Run it on the sequencer's machine, as its role: it needs the log key and the signer state.

    rotate-key   sign with a new key from now on, beside the old one; the log records this under the old key
    retire-key   stop signing with the old key
    restored     after a restore of the database: void every grant from before, by a new epoch, and open a new log
                 wherever the signer state knows more than the database; with --report, only say what the last one
                 led to
    hand-over    of a tenant that is frozen for its move: sign nothing more for its log here, and write the statement
                 with which the other installation goes on (`--statement FILE`)
    take-over    of a tenant that was moved here and verified: go on with its log from that statement, and open it
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from counterfoil_tlog import notes
from ledger.catalogue.rules.moving import HERE
from ledger.db import tenancy
from ledger.key_files import write_private
from ledger.log import signer_state
from ledger.log.operations import logs, sequencer
from ledger.log.operations.hand_over import hand_over, take_over
from ledger.log.queries import log
from ledger.log.rules.hand_over import sign_new_key
from ledger.log.rules.signing import LogHandedOver
from ledger.management.commands.sequencer import lead_at_once, open_signer
from ledger.models import Tenant
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused


class Command(BaseCommand):
    help = "Rotate or retire the log key, or open a new log after a restore."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        deeds = ["rotate-key", "retire-key", "restored", "hand-over", "take-over"]
        parser.add_argument("deed", choices=deeds, help="what to do")
        parser.add_argument("tenant", nargs="?", metavar="SLUG", help="with `hand-over` and `take-over`: the tenant")
        parser.add_argument("--statement", type=Path, metavar="FILE", help="with these: the statement")
        parser.add_argument("--reason", default="", help="reason, kept on record; required by `restored`")
        parser.add_argument("--report", action="store_true", help="with `restored`: say what the last one led to")

    def handle(self, *args: Any, deed: str, reason: str = "", report: bool = False, **options: Any) -> None:
        if report:
            self.stdout.write("\n".join(_restore_report(tenant) for tenant in events.tenants()))
            return
        if deed in ("hand-over", "take-over"):
            self._move(deed, options["tenant"], options["statement"])
            return
        try:
            told = {"rotate-key": self._rotate, "retire-key": self._retire, "restored": self._declare_restored}[deed](
                reason
            )
        except (OSError, ValueError) as error:
            raise CommandError(f"The log key or the signer state cannot be used: {error}") from None
        self.stdout.write(told)

    def _move(self, deed: str, slug: str | None, file: Path | None) -> None:
        tenant = events.tenant(slug or "")
        if tenant is None or file is None:
            raise CommandError("Name a tenant of this installation, and with --statement the file.")
        try:
            with open_signer() as signer, lead_at_once(signer):
                if deed == "hand-over":
                    write_private(file, hand_over(tenant_id=tenant.id, signer=signer).decode())
                    told = (
                        f"{file} was written. Nothing more is signed for {tenant.slug} here: take its log over there."
                    )
                else:
                    take_over(tenant_id=tenant.id, statement=file.read_bytes(), signer=signer, at=timezone.now())
                    told = f"The log of {tenant.slug} goes on here, and the tenant is open."
        except Refused as refusal:
            raise CommandError(refusal.detail) from None
        self.stdout.write(told)

    def _rotate(self, reason: str) -> str:
        # Key first, word second: if we die in between, the next run finds two keys and says what is still unsaid.
        known = signer_state.read_keys(settings.COUNTERFOIL_LOG_KEY)
        keys = known if known.is_rotated else signer_state.rotate_key(settings.COUNTERFOIL_LOG_KEY)
        assert keys.before is not None
        old, new = keys.before, keys.current

        def introduced(origin: str) -> dict[str, Any]:
            vkey = notes.vkey(origin, new.public_key())
            signature = sign_new_key(vkey, old)
            return {"old": notes.vkey(origin, old.public_key()), "new": vkey, "signature": signature, "reason": reason}

        if not _announce("key_rotated", new, introduced) and keys is known:
            raise CommandError("The key has already been rotated. Retire the old key before you rotate again.")
        return "A new key signs the log. Give its vkey to verifiers, then run `retire-key`."

    def _retire(self, reason: str) -> str:
        keys = signer_state.read_keys(settings.COUNTERFOIL_LOG_KEY)
        if keys.before is None or not keys.is_rotated:
            raise CommandError("There is no key to retire: only one key is signing.")
        old = keys.before
        # Word first, key second: if we die in between, the next run says nothing twice and ends it.
        _announce("key_retired", old, lambda origin: {"key": notes.vkey(origin, old.public_key()), "reason": reason})
        signer_state.retire_key(settings.COUNTERFOIL_LOG_KEY)
        return "The old key no longer signs the log."

    def _declare_restored(self, reason: str) -> str:
        if not reason:
            raise CommandError("Use --reason to explain why the database is older than the signed log.")
        opened = []
        with open_signer() as signer, lead_at_once(signer):
            # First of all: from here on no grant of before is good, whatever becomes of the rest.
            epoch = signer.state.raise_epoch()
            sequencer.sign_epoch(signer)
            for tenant in events.tenants():
                if not _has_log(tenant.id) or tenant.moving != HERE:
                    continue
                try:
                    origin = sequencer.reopen_log(tenant_id=tenant.id, signer=signer, reason=reason, at=timezone.now())
                except LogHandedOver as refusal:
                    # What goes on elsewhere must not go on here too, whatever this database has forgotten.
                    self.stdout.write(refusal.detail)
                    continue
                opened += [origin] if origin else []
        lines = [f"Opened {origin}" for origin in opened] or [
            "Every log matches what was signed; no new log was needed."
        ]
        return "\n".join([f"Epoch {epoch}: all earlier grants are void.", *lines])


def _restore_report(tenant: Tenant) -> str:
    """Summarise what happened to a tenant's actions since its record was last declared restored."""
    if tenant.restored_at is None:
        return f"{tenant.slug}: its record was never declared restored."
    with tenancy(tenant.id):
        counted = events.subjects_by_kind(tenant.id, _REPORTED, since=tenant.restored_at - timedelta(days=1))
    found = ", ".join(f"{words} {counted.get(kind, 0)}" for kind, words in _REPORTED.items())
    return f"{tenant.slug}: declared restored {tenant.restored_at:%Y-%m-%d %H:%M:%S} UTC, log {tenant.origin}. {found}."


_REPORTED = {
    "reading_taken": "targets read before a start:",
    "held_after_restore": "held because it may have been done:",
    "approval_revalidated": "people asked again:",
    "start_without_record": "logs and actions with starts that the record had lost:",
}


def _has_log(tenant_id: UUID) -> bool:
    with tenancy(tenant_id):
        return log.current_log(tenant_id) is not None


def _announce(kind: str, key: Ed25519PrivateKey, detail: Callable[[str], dict[str, Any]]) -> int:
    """Record the fact in the log of every tenant that lacks it, and return how many there were."""

    def vkey(origin: str) -> str:
        return notes.vkey(origin, key.public_key())

    return sum(
        logs.announce_key(tenant_id=each.id, kind=kind, key=vkey, detail=detail, at=timezone.now())
        for each in events.tenants(writable=True)
    )
