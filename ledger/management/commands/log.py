"""`manage.py log rotate-key | retire-key | restored --reason WHY`: what an operator does to the log by hand.

On the machine of the sequencer, as its role: it needs the log key and the guard.

    rotate-key   a new key signs from now on, the old one beside it; both facts are on record under the old key
    retire-key   the old key signs nothing any more
    restored     after a restore of the database: void every grant from before, by a new epoch, and open a new log
                 wherever the guard knows more than the database
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from ledger.log import signer_state as guards
from ledger.log.operations import logs, sequencer
from ledger.log.rules import notes
from ledger.record.queries import events


class Command(BaseCommand):
    help = "Rotate or retire the key of the log, or open a new log after a restore."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("deed", choices=["rotate-key", "retire-key", "restored"])
        parser.add_argument("--reason", default="", help="why; `restored` asks for it")

    def handle(self, *args: Any, deed: str, reason: str = "", **options: Any) -> None:
        try:
            told = {"rotate-key": self._rotate, "retire-key": self._retire, "restored": self._restored}[deed](reason)
        except (OSError, ValueError) as error:
            raise CommandError(f"The log key or the guard cannot be used: {error}") from None
        self.stdout.write(told)

    def _rotate(self, reason: str) -> str:
        # Key first, word second: if we die in between, the next run finds two keys and says what is still unsaid.
        known = guards.read_keys(settings.COUNTERFOIL_LOG_KEY)
        keys = known if known.is_rotated else guards.rotate_key(settings.COUNTERFOIL_LOG_KEY)
        assert keys.before is not None
        old, new = keys.before, keys.current

        def introduced(origin: str) -> dict[str, Any]:
            vkey = notes.vkey(origin, new.public_key())
            word = old.sign(b"counterfoil/log-key/1\x00" + vkey.encode()).hex()
            return {"old": notes.vkey(origin, old.public_key()), "new": vkey, "signature": word, "reason": reason}

        if not _announced("key_rotated", new, introduced) and keys is known:
            raise CommandError("A key was rotated already: retire the old one before another one is introduced.")
        return "A new key signs the log; give verifiers its vkey, then run `retire-key`."

    def _retire(self, reason: str) -> str:
        keys = guards.read_keys(settings.COUNTERFOIL_LOG_KEY)
        if keys.before is None or not keys.is_rotated:
            raise CommandError("There is no key to retire: only one signs.")
        old = keys.before
        # Word first, key second: if we die in between, the next run says nothing twice and ends it.
        _announced("key_retired", old, lambda origin: {"key": notes.vkey(origin, old.public_key()), "reason": reason})
        guards.retire_key(settings.COUNTERFOIL_LOG_KEY)
        return "The old key signs nothing any more."

    def _restored(self, reason: str) -> str:
        if not reason:
            raise CommandError("Say with --reason why the database is older than what was signed.")
        opened = []
        with guards.SignerState(settings.COUNTERFOIL_SIGNER_STATE, epoch=settings.COUNTERFOIL_EPOCH) as guard:
            # First of all: from here on no grant of before is good, whatever becomes of the rest.
            epoch = guard.raise_epoch()
            signer = sequencer.Signer(guards.read_keys(settings.COUNTERFOIL_LOG_KEY), guard)
            for tenant in events.tenants():
                origin = sequencer.reopen_log(tenant_id=tenant.id, signer=signer, reason=reason, at=timezone.now())
                opened += [origin] if origin else []
        told = [f"Opened {origin}" for origin in opened] or ["Every log continues what was signed."]
        return "\n".join([f"Epoch {epoch}: no grant from before is good any more.", *told])


def _announced(kind: str, key: Ed25519PrivateKey, detail: Callable[[str], dict[str, Any]]) -> int:
    """Say it in the log of every tenant that has not said it yet; how many there were."""

    def vkey(origin: str) -> str:
        return notes.vkey(origin, key.public_key())

    return sum(
        logs.announce_key(tenant_id=each.id, kind=kind, key=vkey, detail=detail, at=timezone.now())
        for each in events.tenants()
    )
