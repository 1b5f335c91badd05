"""`manage.py release_gates --tenant SLUG RELEASE`: run the gates of a draft, store and print their results.

A section for each gate: whether it passed, one sentence, and its lines; the replay lists the outcomes that changed, the
difference the places that changed and the actions that would end otherwise. For a release on canary it evaluates
the canary's figures instead. It exits with 1 where a gate has not passed, and with 2 where it could not run.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any
from uuid import UUID

import orjson
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.releases import release_steps
from ledger.catalogue import queries
from ledger.catalogue.rules.releases import GATES, required_gates
from ledger.db import tenancy
from ledger.record.operations import SYSTEM
from ledger.record.queries import events, evidence
from ledger.record.rules.refusals import Refused


class Command(BaseCommand):
    help = "Run the gates of a release and print the results; exit with 1 if one did not pass."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", metavar="SLUG", required=True)
        parser.add_argument("release", type=UUID, help="id of the release")

    def handle(self, *, tenant: str, release: UUID, **options: Any) -> None:
        found = events.tenant(tenant)
        if found is None:
            raise CommandError(f"There is no tenant {tenant}.", returncode=2)
        with tenancy(found.id):
            row = queries.release(found.id, release)
            if row is None:
                raise CommandError(f"There is no release {release} in this tenant.", returncode=2)
            try:
                row = release_steps.run_gates(row, by=SYSTEM, at=timezone.now())
            except Refused as refusal:
                raise CommandError(refusal.detail, returncode=2) from refusal
            results = queries.gate_results(found.id, release)
            stored = evidence.open_evidence_many(found.id, [each.pointer for each in results.values()])
        self.stdout.write(f"{row.kind} policy {row.version}: {row.state}")
        for gate in required_gates(row.kind):
            result = results.get(gate)
            word = "not run" if result is None else "passed" if result.passed else "failed"
            self.stdout.write(f"\n{gate} {GATES[gate][0]}: {word}")
            if result is not None:
                self.stdout.write(f"  {result.summary}")
                self._write_lines(orjson.loads(stored[result.pointer]).get(gate, {}))
        if any(gate not in results or not results[gate].passed for gate in required_gates(row.kind)):
            sys.exit(1)

    def _write_lines(self, said: dict[str, Any]) -> None:
        for line in said.get("lines", ()):
            self.stdout.write(f"  {'ok' if line['passed'] else 'NO'}  {line['tried']}: {line['found']}")
        for each in said.get("changed", ()):
            self.stdout.write(f"  NO  {each['action_id']} run {each['run']}: {each['recorded']} -> {each['replayed']}")
        for each in said.get("changes", ()):
            self.stdout.write(f"  {each['path']}: {each['before']} -> {each['after']}")
        for action_id in said.get("actions", ()):
            self.stdout.write(f"  affects {action_id}")
