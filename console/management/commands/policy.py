"""`manage.py policy diff|apply FILE --tenant SLUG`: compare a policy in a file with the one in force, and draft it.

A file holds one document, such as `{"version": "7", "rules": [...]}`; its name, `approval.json`, says its kind unless
`--kind` does. `diff` writes nothing: it prints the differences in sentences and by place, and exits with 1 where there
is one. `apply` drafts a release as the page does, in the name of a member who may: gates, signatures and the promotion
by two people follow as for any other draft, and the member who drafted it is not the one who signs. Both exit with 2
where the file is not a valid policy, and name each fault with its line.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from console.accounts.members.queries import member_by_username
from console.accounts.queries import members_with
from console.contracts.registration import refusal_notes
from console.policies.policy_changes import compare_documents
from console.policies.policy_sentences import KIND_NAMES
from console.releases import release_steps
from console.releases.verbs import PEOPLE
from ledger.catalogue import queries as catalogue
from ledger.catalogue.rules.policies import POLICY_KINDS
from ledger.db import tenancy
from ledger.record.operations import Actor
from ledger.record.queries import events
from ledger.record.rules.canonical import canonical, read
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from uuid import UUID

REFUSED = 2


class Command(BaseCommand):
    help = "Compare a policy in a file with the one in force (diff), or draft a release of it (apply)."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("step", choices=("diff", "apply"))
        parser.add_argument("file", metavar="FILE", help="the policy, named after its kind; - for standard input")
        parser.add_argument("--tenant", metavar="SLUG", required=True)
        parser.add_argument("--kind", choices=POLICY_KINDS, help="default: the name of the file")
        parser.add_argument("--by", metavar="USERNAME", help="the operator or administrator who drafts it (apply)")
        parser.add_argument("--reason", help="kept in the audit log (apply)")

    def handle(
        self,
        *args: Any,
        step: str,
        file: str,
        tenant: str,
        kind: str | None = None,
        by: str | None = None,
        reason: str | None = None,
        **options: Any,
    ) -> None:
        found = events.tenant(tenant)
        if found is None:
            raise CommandError(f"There is no tenant {tenant}.", returncode=REFUSED)
        kind = kind or Path(file).stem
        if kind not in POLICY_KINDS:
            kinds = ", ".join(POLICY_KINDS)
            raise CommandError(f"Say with --kind which policy this is: {kinds}.", returncode=REFUSED)
        text = _read_text(file)
        with transaction.atomic(), tenancy(found.id):
            document = _checked_document(file, kind, text)
            in_force = catalogue.active_policies(found.id)[kind]
            is_changed = self._write_changes(kind, in_force.version, bytes(in_force.document), document)
            if step == "diff":
                sys.exit(1 if is_changed else 0)
            if is_changed and "version" not in document:
                raise CommandError(f"{file}: Give the document the `version` that it is to have.", returncode=REFUSED)
            if is_changed:
                self._draft(found.id, kind, document, by=by, reason=reason)

    def _write_changes(self, kind: str, version: str, in_force: bytes, document: dict[str, Any]) -> bool:
        """Print the differences from the version in force; return whether there is any."""
        compared = compare_documents(kind, in_force, canonical(document))
        if not compared["places"]:
            self.stdout.write(f"{KIND_NAMES[kind]}: no difference from version {version}, which is in force.")
            return False
        self.stdout.write(f"{KIND_NAMES[kind]}: changes from version {version}, which is in force.")
        for topic in compared["sentences"]:
            self.stdout.write(f"\n{topic['heading']}")
            for mark, sentences in (("-", topic["gone"]), ("+", topic["new"])):
                for each in sentences:
                    self.stdout.write(f"  {mark} {each}")
        self.stdout.write("\nPlace by place")
        for each in compared["places"]:
            was, now = each["before"] or "not given", each["after"] or "not given"
            self.stdout.write(f"  {each['path']}: {was} -> {now}")
        return True

    def _draft(
        self, tenant_id: UUID, kind: str, document: dict[str, Any], *, by: str | None, reason: str | None
    ) -> None:
        try:
            row = release_steps.draft_policy(
                tenant_id=tenant_id,
                kind=kind,
                version=document["version"],
                document=document,
                reason=reason or "",
                by=_member(tenant_id, by),
                at=timezone.now(),
            )
        except Refused as refusal:
            raise CommandError(refusal.detail, returncode=REFUSED) from None
        self.stdout.write(f"\nDrafted as release {row.id}. It has no effect yet; run its gates next.")
        if alone := release_steps.missing_people(tenant_id):
            self.stdout.write(alone)


def _read_text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise CommandError(f"{file} cannot be read: {problem}", returncode=REFUSED) from None


def _checked_document(file: str, kind: str, text: str) -> dict[str, Any]:
    try:
        document = read(text)
        if not isinstance(document, dict):
            raise CommandError(f"{file}: The document must be a JSON object.", returncode=REFUSED)
        release_steps.check_draft(kind, {"version": "unnamed", **document})
    except Refused as refusal:
        lines = [
            f"{file}:{note.line}: {f'{note.path}: ' if note.path else ''}{note.text}"
            for note in refusal_notes(text, refusal)
        ]
        raise CommandError("\n".join(lines), returncode=REFUSED) from None
    return document


def _member(tenant_id: UUID, username: str | None) -> Actor:
    """The member in whose name a draft is made; they are then not the person who signs it."""
    row = member_by_username(tenant_id, username) if username else None
    if row is None or row.actor_id not in members_with(tenant_id, *PEOPLE):
        raise CommandError(
            "Name with --by the operator or administrator who drafts it by their username.", returncode=REFUSED
        )
    return Actor("person", row.actor_id)
