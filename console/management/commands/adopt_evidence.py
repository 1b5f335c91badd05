"""`manage.py adopt_evidence --tenant SLUG [--by USERNAME --reason TEXT]`: mend a record that holds stray evidence.

Versions before 0.1 could store evidence of a verification run without an event, in an outage of the system that is read
back; since then `verify_ledger` names it. This command walks the whole record as `verify_ledger` does. For each subject
with stray evidence and no other finding it records one event that commits to the evidence as it was found, and to the
rows of its runs. Nothing is deleted. The record names the console as the actor, the member who asked for it, and the
reason. Without `--reason` it only lists what it would adopt.

Evidence that cannot be opened or differs from its own commitment, a run whose row says something else than its
evidence, and all evidence of a subject with another finding are left alone and named: they may be tampering. It exits
with 1 when something was left, and with 2 when it could not run.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.accounts.members import queries as members
from ledger.db import tenancy
from ledger.management.commands.verify_ledger import verify_ranges
from ledger.record.queries import events
from ledger.record.rules.refusals import Refused
from ledger.verification import operations
from ledger.verification.queries import storage
from reviews import queries as reviews_queries

if TYPE_CHECKING:
    from console.models import Membership
    from ledger.models import Tenant


class Command(BaseCommand):
    help = "Take evidence into the record that an earlier version stored without an event."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--by", metavar="USERNAME", help="the member who asks for it, kept on record")
        parser.add_argument("--reason", default="", help="why, kept on record; without it nothing is adopted")

    def handle(self, *args: Any, tenant: str, by: str | None = None, reason: str = "", **options: Any) -> None:
        known = events.tenant(tenant)
        if known is None:
            raise CommandError(f"There is no tenant {tenant}.", returncode=2)
        member = members.member_by_username(known.id, by) if by else None
        if by and member is None:
            raise CommandError(f"There is no member {by} in the tenant {tenant}.", returncode=2)
        if reason.strip() and member is None:
            raise CommandError("Use --by to name the member who asks for it.", returncode=2)
        self._adopt(known, reason.strip(), member)

    def _adopt(self, tenant: Tenant, reason: str, member: Membership | None) -> None:
        strays, others = find_strays(tenant)
        left: list[str] = []
        adopted = runs = 0
        for subject_id, pointers in strays.items():
            try:
                if others[subject_id]:
                    raise operations.NotAdopted(f"Something else is wrong there: {others[subject_id][0]}")
                with tenancy(tenant.id):
                    check_runs(tenant.id, subject_id, pointers)
                    if reason and member is not None:
                        runs += operations.adopt_evidence(
                            tenant_id=tenant.id,
                            subject_id=subject_id,
                            pointers=pointers,
                            reason=reason,
                            stated_by=member.actor_id,
                            at=timezone.now(),
                        )
                adopted += len(pointers)
            except Refused as refusal:
                left.append(f"Left alone: {len(pointers)} pieces of evidence of {subject_id}. {refusal.detail}")
        if not strays:
            told = "no evidence without an event."
        elif reason:
            told = f"{adopted} pieces of evidence adopted, with {runs} verification runs."
        else:
            told = f"{adopted} pieces of evidence can be adopted. Use --by and --reason."
        self.stdout.write(f"Tenant {tenant.slug}: {told}")
        if left:
            raise CommandError("\n".join(left))


def find_strays(tenant: Tenant) -> tuple[dict[UUID, list[UUID]], dict[UUID, list[str]]]:
    """The stray evidence of a tenant by subject, and the other faults of each subject."""
    pointers: list[UUID] = []
    others: dict[UUID, list[str]] = defaultdict(list)
    unlisted: dict[UUID, list[str]] = defaultdict(list)
    for _, found in verify_ranges(tenant.id, tenant.origin):
        for each in found:
            if each.part == "stray evidence":
                pointers.append(UUID(each.place.subject_id))
            elif each.part == "reviews.VerificationRun" and "no event made its row" in each.detail:
                unlisted[UUID(each.place.subject_id)].append(each.detail)
            else:
                others[UUID(each.place.subject_id)].append(each.detail)
    strays: dict[UUID, list[UUID]] = defaultdict(list)
    with tenancy(tenant.id):
        for pointer, subject_id in storage.evidence_subjects(tenant.id, pointers):
            strays[subject_id].append(pointer)
        for subject_id, rows in unlisted.items():
            runs = [run for run in reviews_queries.runs_of(tenant.id, subject_id) if run.pointer in strays[subject_id]]
            if len(runs) != len(rows):
                others[subject_id] += rows
    return {subject_id: each for subject_id, each in strays.items() if each}, others


def check_runs(tenant_id: UUID, subject_id: UUID, pointers: list[UUID]) -> None:
    """Refuse runs whose rows differ from their evidence."""
    for run in reviews_queries.runs_of(tenant_id, subject_id):
        if run.pointer in pointers:
            verdict = reviews_queries.run_findings(run).get("verdict", {})
            if (verdict.get("result"), verdict.get("discrepancy") or "") != (run.result, run.discrepancy):
                raise operations.NotAdopted(f"Run {run.number} says something else than its evidence.")
