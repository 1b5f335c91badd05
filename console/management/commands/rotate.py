"""`manage.py rotate kek | django-secret | registry-key [--use | --retire [--now]] --reason WHY`: change a key.

A change has three steps, and between two of them the key file is given to every host (docs/commands.md#rotate):

    rotate KEY            make a new key, which every process reads and none uses yet
    rotate KEY --use      use it; the one before it is still read. For the kek, wrap everything under it
    rotate KEY --retire   read the one before it no more; refused while anything needs it

Each step may be run again, and goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from django.utils import timezone

from approvals.agents import queries as agents
from approvals.agents.operations.registry_entry import is_sealed_in_use
from console.accounts.sign_in.operations import reseal_factors
from console.local.keys import KEY_FILES
from console.search.operations import is_indexed
from console.tasks import KEPT
from ledger import key_files, keystore
from ledger.catalogue.operations.installation import KEY_EVENTS, record_key_change
from ledger.db import tenancy
from ledger.key_files import BadKeyFile, KeyLine
from ledger.record.queries import events
from ledger.record.rules.encryption import CannotOpen

INTRODUCED, USED, RETIRED = KEY_EVENTS
FILES: Final = {"kek": keystore.KEK, "django-secret": "django_secret", "registry-key": "registry_key"}
BATCH: Final = 1_000
DISTRIBUTE: Final = (
    "Give {file} to every host before the next step: {next} "
    "Where this folder is a copy, replace the file on the hosts with it; it is 0600."
)


class Command(BaseCommand):
    help = "Change a key of the installation: make one, use it, retire the one before it."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("key", choices=FILES, help="which key")
        step = parser.add_mutually_exclusive_group()
        step.add_argument("--use", action="store_true", help="use the key that was made")
        step.add_argument("--retire", action="store_true", help="stop reading the keys before the one in use")
        parser.add_argument(
            "--now", action="store_true", help="with --retire: do not wait for what only costs a repeat"
        )
        parser.add_argument("--reason", default="", help="reason, kept on record")

    def handle(
        self,
        *args: Any,
        key: str,
        use: bool = False,
        retire: bool = False,
        now: bool = False,
        reason: str = "",
        **options: Any,
    ) -> None:
        file = Path(settings.COUNTERFOIL_SECRETS_DIR) / FILES[key]
        try:
            if retire:
                self._retire(key, file, reason, now=now)
            elif use:
                self._use(key, file, reason)
            else:
                self._introduce(key, file, reason)
        except PermissionError as error:
            raise CommandError(
                f"{error.filename} cannot be written. Copy the folder to one of mode 700 that can be, and name that in"
                " COUNTERFOIL_SECRETS_DIR for this command."
            ) from None
        except (OSError, BadKeyFile, OperationalError, ImproperlyConfigured) as error:
            raise CommandError(str(error).strip()) from None

    def _introduce(self, key: str, file: Path, reason: str) -> None:
        lines = list(key_files.read_lines(file))
        waiting = key_files.waiting_key(lines)
        if waiting is None:
            lines = key_files.introduce(lines, KEY_FILES[file.name]())
            key_files.write_lines(file, lines)
            waiting = lines[-1]
            self.stdout.write(f"A new {key} ({waiting.name}) is in {file}. It is read, and not used yet.")
        else:
            self.stdout.write(f"A new {key} ({waiting.name}) was made already, and is not used yet.")
        record_key_change(INTRODUCED, key=key, name=waiting.name, reason=reason, at=timezone.now())
        self._next_step(key, file, "--use")

    def _use(self, key: str, file: Path, reason: str) -> None:
        if key == "kek" and not settings.KEYS_DATABASE_OWNER_URL:
            raise CommandError("Set KEYS_DATABASE_OWNER_URL: only the owner of the key database may wrap keys anew.")
        lines = key_files.read_lines(file)
        if key_files.waiting_key(lines) is not None:
            key_files.write_lines(file, key_files.use_waiting_key(lines, at=timezone.now()))
            lines = key_files.read_lines(file)
        if lines[0].since is None:
            raise CommandError(f"No new {key} was made. Run `manage.py rotate {key}` first.")
        record_key_change(USED, key=key, name=lines[0].name, reason=reason, at=timezone.now())
        self.stdout.write(f"The {key} {lines[0].name} is in use since {lines[0].since:%Y-%m-%d %H:%M} UTC.")
        if key == "kek":
            self._wrap_all(file)
        self._next_step(key, file, "--retire")

    def _retire(self, key: str, file: Path, reason: str, *, now: bool) -> None:
        lines = key_files.read_lines(file)
        if key_files.waiting_key(lines) is not None:
            raise CommandError(f"A new {key} waits for its use. Run `manage.py rotate {key} --use` first.")
        former = key_files.former_keys(lines)
        if not former:
            raise CommandError(f"There is no former {key} to retire.")
        if key == "kek":
            self._wrap_all(file)
        needs = list(_NEEDS[key](lines[0], timezone.now()))
        if needs and not now:
            raise CommandError("\n".join([*needs, "Nothing was retired. With --now it is retired all the same."]))
        for each in former:
            record_key_change(RETIRED, key=key, name=each.name, reason=reason, at=timezone.now())
        key_files.write_lines(file, lines[:1])
        self.stdout.write(f"Only the {key} {lines[0].name} is read. Give {file} to every host.")

    def _wrap_all(self, file: Path) -> None:
        """Wrap every stored key and every factor's secret under the key in use; after a crash, the rest."""
        keys = key_files.read_hex_keys(file)
        after, changed = UUID(int=0), 0
        while True:
            reached, count = keystore.rewrap_keys(after=after, limit=BATCH, keys=keys)
            if reached is None:
                break
            after, changed = reached, changed + count
            if count:
                self.stdout.write(f"{changed} keys of payloads and evidence were wrapped anew.")
                self.stdout.flush()
        try:
            factors = reseal_factors(keys=keys)
        except CannotOpen:
            raise CommandError(
                "The secret of a second factor opens under no key of this file. Find the file that has its key, or have"
                " the person set up a new one."
            ) from None
        self.stdout.write(f"All keys are under the kek in use ({changed} keys and {factors} second factors anew).")

    def _next_step(self, key: str, file: Path, option: str) -> None:
        self.stdout.write(DISTRIBUTE.format(file=file, next=f"`manage.py rotate {key} {option}`."))


def _kek_needs(used: KeyLine, at: datetime) -> Iterator[str]:
    for tenant in events.tenants(writable=True):
        with tenancy(tenant.id):
            if not is_indexed(tenant_id=tenant.id):
                yield f"The search terms of {tenant.slug} are still being made anew by the workers."
    yield from _time_needs(used, at, KEPT, "answers to repeats of a write are kept so long")


def _secret_needs(used: KeyLine, at: datetime) -> Iterator[str]:
    lasts = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    yield from _time_needs(used, at, lasts, "whoever signed in before and does nothing until then is signed out")


def _time_needs(used: KeyLine, at: datetime, lasts: timedelta, reason: str) -> Iterator[str]:
    if used.since is not None and at < used.since + lasts:
        yield f"The key before it is needed until {used.since + lasts:%Y-%m-%d %H:%M} UTC: {reason}."


def _registry_needs(used: KeyLine, at: datetime) -> Iterator[str]:
    for tenant in events.tenants(writable=True):
        with tenancy(tenant.id):
            former = [each for each in agents.all_versions(tenant.id) if not is_sealed_in_use(each)]
        for each in former:
            yield f"{tenant.slug}: the registration {each.agent_id} {each.version} is sealed under a key before it."


_NEEDS: Final[dict[str, Callable[[KeyLine, datetime], Iterator[str]]]] = {
    "kek": _kek_needs,
    "django-secret": _secret_needs,
    "registry-key": _registry_needs,
}
