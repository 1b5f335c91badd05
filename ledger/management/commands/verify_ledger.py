"""`manage.py verify_ledger [--tenant SLUG]`: check every stored byte of the record, and name everything that is wrong.

With `--log` it checks the Merkle log instead, a hundred times as fast: every leaf is hashed again from the bytes of its
event, every tile and root is rebuilt, every checkpoint that was kept is compared (`ledger.log.rules.log_check`);
`--processes 2` divides it among processes, `--key` trusts these verifier keys and no others.

Everything is read again as the application role: envelopes are hashed, chains followed, states replayed, commitments
opened, heads and present views rebuilt and compared (`ledger.verification.rules.stored_record`). It may run beside the
console: what is written meanwhile is left to the next run. Memory holds one range of subjects, whatever the record's
size. It goes on after a finding: each is one sentence, the first hundred of a tenant are listed, and their total and
kinds are told. `--json` prints the same as one document. It exits with 1 when something was found, and with 2 when it
could not check.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from counterfoil_tlog import notes
from ledger import register
from ledger.db import tenancy
from ledger.log.queries import log
from ledger.log.rules.log_check import LogBroken
from ledger.management import log_check
from ledger.models import Tenant
from ledger.record.queries import events as queries
from ledger.record.rules.envelope import Commitment
from ledger.record.rules.refusals import Refused
from ledger.retention import queries as retention_queries
from ledger.verification.queries import storage
from ledger.verification.rules import stored_record
from ledger.verification.rules.decisions import PolicyHistory
from ledger.verification.rules.rebuilding import ADOPTED, RecordTable, Row, VerifiedEvent
from ledger.verification.rules.stored_record import (
    Findings,
    RecordBroken,
    RecordLocation,
    ReplayState,
    StoredEvent,
    StoredHead,
    SubjectErasure,
)

SUBJECTS, EVENTS, BLOBS = 100, 200, 16
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)
LAST_SEQ = 2**31 - 1
# What reading a forged detail can raise.
_UNFIT = (KeyError, TypeError, ValueError, AttributeError)


class Command(BaseCommand):
    help = "Check every stored byte of the record; list what is wrong and exit with 1."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", metavar="SLUG", help="one tenant only")
        parser.add_argument("--log", action="store_true", help="check only the Merkle log and its checkpoints")
        parser.add_argument("--processes", type=int, default=1, help="with --log: number of processes (default 1)")
        parser.add_argument("--key", metavar="VKEY", action="append", help="with --log: trust only this verifier key")
        parser.add_argument("--json", action="store_true", help="without --log: print the result as one JSON document")

    def handle(self, *args: Any, tenant: str | None = None, verbosity: int = 1, **options: Any) -> None:
        try:
            known = [each for each in queries.tenants() if tenant in (None, each.slug)]
            if tenant is not None and not known:
                raise CommandError(f"There is no tenant {tenant}.", returncode=2)
            if options.get("log"):
                self._check_logs(known, options["processes"], options["key"] or [], verbosity)
                return
            checked = {each.slug: check_tenant(each.id, each.origin) for each in known}
        except OperationalError as error:
            raise CommandError(f"The record could not be read: {str(error).strip()}", returncode=2) from None
        if options.get("json"):
            document = {slug: _document(seen, found) for slug, (seen, found) in checked.items()}
            self.stdout.write(json.dumps({"tenants": document}, indent=2))
        elif verbosity:
            for slug, (seen, found) in checked.items():
                if not found.total:
                    self.stdout.write(f"Tenant {slug}: {_sentence(seen)}. The record is intact.")
        broken = "\n".join(line for slug, (_, found) in checked.items() for line in _lines(slug, found))
        if broken:
            raise CommandError(broken)

    def _check_logs(self, known: list[Tenant], processes: int, vkeys: list[str], verbosity: int) -> None:
        try:
            keys = [notes.read_vkey(each) for each in vkeys]
        except Refused as refusal:
            raise CommandError(refusal.detail, returncode=2) from None
        with log_check.block_runner(processes) as walks:
            for each in known:
                try:
                    entries, signed = log_check.check_logs(each.id, walks, keys)
                except LogBroken as broken:
                    raise CommandError(f"Tenant {each.slug}: {broken.detail}") from None
                if verbosity:
                    self.stdout.write(
                        f"Tenant {each.slug}: {entries} entries, {signed} checkpoints. The log is intact."
                    )


def _sentence(seen: Counter[str]) -> str:
    adopted = f", {seen['adopted']} of them adopted" if seen["adopted"] else ""
    erased = f", {seen['erased']} subjects erased on request" if seen["erased"] else ""
    return (
        f"{seen['subjects']} subjects, {seen['events']} events, {seen['evidence']} pieces of evidence{adopted}{erased}"
    )


def _lines(slug: str, found: Findings) -> list[str]:
    """Return the lines for a tenant's findings, with the count of each kind if there is more than one."""
    lines = [f"Tenant {slug}: {each}" for each in found.listed]
    if found.total > 1:
        left = f", of which {len(found.listed)} are listed" if found.total > len(found.listed) else ""
        lines.append(f"Tenant {slug}: {found.total} findings{left}: {found.kinds()}.")
    return lines


def _document(seen: Counter[str], found: Findings) -> dict[str, Any]:
    return {
        "intact": not found.total,
        "checked": dict(seen),
        "total": found.total,
        "kinds": dict(found.counts),
        "findings": found.listed,
    }


def verify(tenant_id: UUID, origin: str) -> Counter[str]:
    """Verify one tenant; return what was checked, or raise `RecordBroken` if anything was found."""
    seen, found = check_tenant(tenant_id, origin)
    if found.total:
        raise RecordBroken(RecordLocation("tenant", str(tenant_id)), "record", found.summary())
    return seen


def check_tenant(tenant_id: UUID, origin: str) -> tuple[Counter[str], Findings]:
    """Verify one tenant; return what was checked and what was found."""
    seen: Counter[str] = Counter()
    found = Findings()
    found.add(*pruned_findings(tenant_id))
    for more, broken in verify_ranges(tenant_id, origin):
        seen += more
        found.add(*broken)
    found.add(*check_whole(tenant_id))
    return seen, found


def verify_ranges(tenant_id: UUID, origin: str) -> Iterator[tuple[Counter[str], list[RecordBroken]]]:
    """Verify all subjects of a tenant, a range of them at a time."""
    after = FIRST
    while after != LAST:
        with tenancy(tenant_id):
            page = storage.subject_ids(tenant_id, after=after, limit=SUBJECTS)
            upto = page[-1] if len(page) == SUBJECTS else LAST
            yield verify_range(tenant_id, origin, after, upto)
        after = upto


def check_whole(tenant_id: UUID) -> list[RecordBroken]:
    """Check the parts that belong to no single subject: whole tables, the search columns, kept checkpoints."""
    found = [*check_whole_tenant(tenant_id), *check_search(tenant_id), *check_checkpoints(tenant_id)]
    for check in register.tenant_checks():
        with tenancy(tenant_id):
            found += check(tenant_id)
    return found


def check_search(tenant_id: UUID) -> list[RecordBroken]:
    """Check that the search columns of actions agree with their present views; names the first that does not."""
    with tenancy(tenant_id):
        action_id = storage.search_fault(tenant_id)
    if action_id is None:
        return []
    place = RecordLocation("action", str(action_id))
    return [RecordBroken(place, "search", "a search would not find it by its target")]


def check_checkpoints(tenant_id: UUID) -> list[RecordBroken]:
    """Check that no stored checkpoint is missing and that the log's own keys signed each."""
    with tenancy(tenant_id):
        return [
            RecordBroken(RecordLocation("log", str(head.id)), "checkpoint", fault)
            for head in log.logs(tenant_id)
            for fault in log_check.checkpoint_faults(tenant_id, head)
        ]


def check_whole_tenant(tenant_id: UUID) -> list[RecordBroken]:
    """Check the tables whose rows follow from the events of many subjects, such as the roster of approvers."""
    found: list[RecordBroken] = []
    for table in register.record_tables():
        if table.place:
            continue
        faults: list[str] = []
        for _ in range(3):
            # Rows that change while the events are read are looked at again.
            faults = _whole_table_faults(tenant_id, table)
            if not faults:
                break
        place = RecordLocation("tenant", str(tenant_id))
        found += [RecordBroken(place, table.model, fault) for fault in faults]
    return found


def _whole_table_faults(tenant_id: UUID, table: RecordTable) -> list[str]:
    rows: dict[Any, Row] = {}
    with tenancy(tenant_id):
        for subject_id in storage.subjects_of_kind(tenant_id, table.subjects):
            for event in events_of(tenant_id, subject_id):
                # What does not fit its kind is a finding of its subject.
                with suppress(*_UNFIT):
                    table.take(rows, event)
        return list(table.faults(rows, storage.stored_rows(table.model, tenant_id, "").get("", ())))


def events_of(tenant_id: UUID, subject_id: UUID, *, upto: int = LAST_SEQ) -> Iterator[VerifiedEvent]:
    """The events of one subject, up to and including event `upto`, without those that cannot be read."""
    place = (subject_id, 0)
    while page := storage.stored_events(tenant_id, after=place, upto=subject_id, limit=EVENTS):
        for stored in page:
            if stored.columns["seq"] <= upto:
                # What cannot be read is a finding of its subject.
                with suppress(Refused):
                    yield stored_record.read_event(stored)
        place = (subject_id, page[-1].columns["seq"])


def pruned_findings(tenant_id: UUID) -> list[RecordBroken]:
    """Check that exactly as many subjects are listed as pruned as the events of the policy say."""
    with tenancy(tenant_id):
        counts = retention_queries.pruned_counts(tenant_id)
    return [
        RecordBroken(
            RecordLocation("retention", str(policy)),
            "pruned",
            f"{listed} subjects are listed as pruned under it, and its events say {told}.",
        )
        for policy, listed, told in counts
        if listed != told
    ]


def verify_range(tenant_id: UUID, origin: str, after: UUID, upto: UUID) -> tuple[Counter[str], list[RecordBroken]]:
    """Verify the subjects with ids in (after, upto]; return what was checked and what was found."""
    looked = Range(tenant_id, origin, after, upto)
    looked.verify()
    if looked.found:
        # Erased while we looked? Then the list is longer now, and a second look says whether that is all.
        again = Range(tenant_id, origin, after, upto)
        if again.find_emptied() != looked.emptied:
            looked = Range(tenant_id, origin, after, upto)
            looked.verify()
    return looked.seen, looked.found


class Rebuilt:
    """The rows rebuilt from the events of one subject, by table."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._rows: dict[str, dict[Any, Row]] = {table.model: {} for table in register.tables_of(kind)}

    def take(self, event: VerifiedEvent) -> None:
        """Apply the subject's next event."""
        for table in register.tables_of(self.kind):
            table.take(self._rows[table.model], event)

    def rows(self, table: RecordTable) -> dict[Any, Row]:
        """The rebuilt rows of one table."""
        return self._rows.get(table.model, {})


class Range:
    """The subjects with ids in (after, upto] of one tenant."""

    def __init__(self, tenant_id: UUID, origin: str, after: UUID, upto: UUID) -> None:
        self.tenant_id = tenant_id
        # After a restore there is more than one log, and events of each.
        self.origins = {origin, *(each.origin for each in log.logs(tenant_id))}
        self.after, self.upto = after, upto
        self.promised: set[str] = set()
        self.unread: list[tuple[RecordLocation, Commitment, str]] = []
        self.seen: Counter[str] = Counter()
        self.emptied: dict[str, SubjectErasure] = {}
        self.policies = PolicyHistory((), {})
        self.rebuilt: dict[str, Rebuilt] = {}
        self.found: list[RecordBroken] = []
        self.lost: set[str] = set()

    def verify(self) -> None:
        # Evidence first, heads next, events last: each is written before the one after it, so a writer at work
        # never looks like a break.
        evidence = storage.evidence_pointers(self.tenant_id, after=self.after, upto=self.upto)
        heads = {head.columns["id"]: head for head in self._heads()}
        documents = storage.stored_documents(self.tenant_id, list(heads))
        # Whatever decided an event that a head knows of was in force before that head.
        self.policies = PolicyHistory(storage.policies_in_force(self.tenant_id), register.recovery_tables())
        self.emptied = self.find_emptied()
        walks = dict.fromkeys(heads, ReplayState())
        self.rebuilt = {subject: Rebuilt(head.place.kind) for subject, head in heads.items()}
        for subject, events in groupby(self._events(), key=lambda stored: stored.place.subject_id):
            if subject in heads:
                walks[subject] = self._walk(events, upto=heads[subject].columns["seq"])
        self._check_evidence(self.unread)
        for subject, head in heads.items():
            walk = walks[subject]
            self.found += stored_record.head_findings(walk, head)
            if head.place.kind in ("contract", "policy") and (walk.digests or not walk.lost):
                stored_record.attempt(self.found, stored_record.check_document, walk, head, documents.get(subject))
        self._find_strays(evidence)
        self._check_rows()
        self.seen["subjects"] += len(heads)

    def find_emptied(self) -> dict[str, SubjectErasure]:
        """The erased subjects in this range; each must also be named in the events of its erasure request."""
        told: dict[UUID, dict[UUID, int]] = {}
        found: dict[str, SubjectErasure] = {}
        for row in retention_queries.erased_between(self.tenant_id, after=self.after, upto=self.upto):
            if row.erasure_id not in told:
                told[row.erasure_id] = retention_queries.recorded_erasures(self.tenant_id, row.erasure_id)
            if told[row.erasure_id].get(row.subject_id) != row.seq:
                place = RecordLocation(row.kind, str(row.subject_id))
                self.found.append(RecordBroken(place, "erased", "it is listed as erased, and no event says so."))
                continue
            if row.pruned_by is None:
                found[str(row.subject_id)] = SubjectErasure(request=str(row.erasure_id), seq=row.seq)
        self.seen["erased"] += len(found)
        return found

    def _heads(self) -> list[StoredHead]:
        return storage.stored_heads(self.tenant_id, after=self.after, upto=self.upto)

    def _events(self) -> Iterator[StoredEvent]:
        place = (self.after, LAST_SEQ)
        while page := storage.stored_events(self.tenant_id, after=place, upto=self.upto, limit=EVENTS):
            yield from page
            place = (UUID(page[-1].place.subject_id), page[-1].columns["seq"])

    def _walk(self, events: Iterator[StoredEvent], *, upto: int) -> ReplayState:
        walk = ReplayState()
        for stored in events:
            if walk.seq < upto:
                emptied = self.emptied.get(stored.place.subject_id)
                walk, event, found = stored_record.replay_event(
                    walk, stored, origins=self.origins, policies=self.policies, erasure=emptied
                )
                self.found += found
                self.seen["events"] += 1
                if found and (walk.hash is None or any(each.part == "sequence" for each in found)):
                    self.lost.add(stored.place.subject_id)
                if event is None:
                    continue
                self._rebuild(stored.place, event)
                promised = (each for each in event.envelope.commitments if each.pointer is not None)
                owner = event.said("subject", "") if event.envelope.kind == ADOPTED else ""
                owner = owner if isinstance(owner, str) else ""
                before = len(self.unread)
                self.unread += [(stored.place, each, owner) for each in promised]
                if event.envelope.kind == ADOPTED:
                    self.seen["adopted"] += len(self.unread) - before
        while len(self.unread) >= BLOBS:
            self._check_evidence(self.unread[:BLOBS])
            del self.unread[:BLOBS]
        return walk

    def _rebuild(self, place: RecordLocation, event: VerifiedEvent) -> None:
        try:
            self.rebuilt[place.subject_id].take(event)
        except _UNFIT:
            self.found.append(RecordBroken(place, "detail", "it does not say what an event of its kind says."))
            self.lost.add(place.subject_id)

    def _check_evidence(self, promised: list[tuple[RecordLocation, Commitment, str]]) -> None:
        stored = storage.stored_evidence(self.tenant_id, [str(each.pointer) for _, each, _ in promised])
        for place, each, owner in promised:
            emptied = self.emptied.get(place.subject_id)
            kept = stored.get(str(each.pointer))
            stored_record.attempt(
                self.found, stored_record.check_evidence, place, each, kept, erasure=emptied, owner=owner
            )
            self.promised.add(str(each.pointer))
            self.seen["evidence"] += 1

    def _check_rows(self) -> None:
        """Compare the rows that follow from events with the stored ones, without a query per row."""
        no_rows = Rebuilt("")
        for table in register.record_tables():
            if table.place:
                stored = storage.stored_rows(table.model, self.tenant_id, table.place, after=self.after, upto=self.upto)
                for subject in sorted({*stored, *self.rebuilt} - self.lost):
                    kept, rows = stored.get(subject, ()), self.rebuilt.get(subject, no_rows).rows(table)
                    if (kept or rows) and table.fault(rows, kept) is not None:
                        self._look_again(table, UUID(subject))

    def _look_again(self, table: RecordTable, subject_id: UUID) -> None:
        """Read a subject again, in case it changed while it was checked. Events and rows are committed together."""
        seq = storage.event_count(self.tenant_id, subject_id)
        while True:
            stored = storage.stored_rows(
                table.model, self.tenant_id, table.place, after=UUID(int=subject_id.int - 1), upto=subject_id
            )
            before, seq = seq, storage.event_count(self.tenant_id, subject_id)
            if before == seq:
                break
        kind, rebuilt = "subject", Rebuilt("")
        for event in events_of(self.tenant_id, subject_id, upto=seq):
            if not rebuilt.kind:
                kind = event.envelope.subject_kind
                rebuilt = Rebuilt(kind)
            rebuilt.take(event)
        faults = list(table.faults(rebuilt.rows(table), stored.get(str(subject_id), ())))
        if faults and not (seq == 0 and retention_queries.is_pruned(self.tenant_id, subject_id)):
            place = RecordLocation(kind, str(subject_id))
            self.found += [RecordBroken(place, table.model, fault) for fault in faults]

    def _find_strays(self, evidence: set[str]) -> None:
        for what, subject, seq in storage.stray_rows(self.tenant_id, after=self.after, upto=self.upto):
            place = RecordLocation("subject", str(subject), seq)
            self.found.append(RecordBroken(place, f"stray {what}", f"its {what} belongs to nothing."))
        strays = sorted(evidence - self.promised)
        if strays:
            strays = storage.unaccounted_evidence(self.tenant_id, strays, erased=list(self.emptied))
        for pointer in strays:
            place = RecordLocation("evidence", pointer)
            self.found.append(RecordBroken(place, "stray evidence", "no event has committed to it."))
