"""`counterfoil-transcripts audit --import`: audited files on their way into the console of one tenant.

A file is known by the digest of its bytes. It is read to its end before anything is written; then all of it is, in one
transaction of the tenant's, or nothing (`console.recordings.operations`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID

import orjson
from django.conf import settings
from django.urls import reverse

from console.accounts.members import queries as members
from console.models import Recording
from console.recordings import operations as recordings_operations
from console.recordings import queries as recordings_queries
from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.audit import ConversationAudit
from counterfoil_transcripts.commands import recording_rows
from counterfoil_transcripts.commands.recording_rows import RowSpool, open_spool
from counterfoil_transcripts.contracts import ContractCatalogue
from counterfoil_transcripts.reading.records import TranscriptFault
from counterfoil_transcripts.reports.document import VERSION
from counterfoil_transcripts.reports.totals import AuditTotals
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound, Refused


class FileChanged(Refused):
    """The file changed while it was read; nothing of it was imported."""

    code = "FILE_CHANGED"


@dataclass(eq=False)
class IncomingFile:
    """One file: its audit so far. `there` is an earlier import of the same bytes."""

    file: Path
    digest: str
    spool: RowSpool
    there: Recording | None
    totals: AuditTotals = field(default_factory=AuditTotals)
    faults: list[TranscriptFault] = field(default_factory=list)

    def add(self, found: ConversationAudit) -> None:
        """Add a conversation."""
        if self.there is None:
            self.spool.add(found)
            self.totals.add(found)

    def fault(self, found: TranscriptFault) -> None:
        """Record an unreadable place."""
        self.totals.faults += 1
        if len(self.faults) < recording_rows.MOST_FAULTS:
            self.faults.append(found)


@dataclass(frozen=True)
class RecordingImporter:
    """The destination of imported files: a tenant, and the person in whose name they are imported."""

    slug: str
    tenant_id: UUID
    named: UUID | None
    trust: TrustRequirement
    contracts: str

    @contextmanager
    def incoming(self, file: Path) -> Iterator[IncomingFile]:
        """A file that is about to be read."""
        digest = sha256_of_file(file)
        with tenancy(self.tenant_id):
            there = recordings_queries.recording_with_digest(self.tenant_id, digest)
        with open_spool(self.trust) as spool:
            yield IncomingFile(file, digest, spool, there)

    def keep(self, incoming: IncomingFile, *, at: datetime) -> Recording:
        """Write the rows of a file that was not imported before."""
        if sha256_of_file(incoming.file) != incoming.digest:
            raise FileChanged
        file = audited_file(
            incoming.file,
            digest=incoming.digest,
            trust=str(self.trust),
            contracts=self.contracts,
            totals=incoming.totals,
            faults=incoming.faults,
        )
        with tenancy(self.tenant_id):
            return recordings_operations.store_recording(
                tenant_id=self.tenant_id, file=file, rows=incoming.spool, by=ledger.SYSTEM, named=self.named, at=at
            )

    def address(self, row: Recording) -> str:
        """The address at which people browse it."""
        return f"{settings.COUNTERFOIL_PUBLIC_URL}{reverse('recording', args=[self.slug, row.id])}"


def open_importer(
    slug: str, *, username: str, trust: TrustRequirement, catalogue: ContractCatalogue
) -> RecordingImporter:
    """Open an import into the console of a tenant; refuse an unknown tenant or person."""
    found = events.tenant(slug)
    if found is None:
        raise NotFound(detail=f"There is no tenant {slug}.")
    named = None
    if username:
        member = members.member_by_username(found.id, username)
        if member is None or member.joined_at is None:
            raise NotFound(detail=f"There is no member {username} in the tenant {slug}.")
        named = member.actor_id
    contracts = orjson.dumps(catalogue.documents(), option=orjson.OPT_SORT_KEYS) if catalogue.closed else b""
    return RecordingImporter(slug, found.id, named, trust, hashlib.sha256(contracts).hexdigest() if contracts else "")


def audited_file(
    file: Path,
    *,
    digest: str,
    trust: str,
    contracts: str,
    totals: AuditTotals,
    faults: Iterable[TranscriptFault],
) -> recordings_operations.AuditedFile:
    """A file as the console keeps it."""
    return recordings_operations.AuditedFile(
        name=file.name,
        digest=digest,
        size=file.stat().st_size,
        trust=trust,
        version=VERSION,
        contracts=contracts,
        conversations=totals.conversations,
        messages=totals.messages,
        calls=totals.calls,
        with_findings=totals.with_findings,
        false_claims=totals.all_false,
        faults=totals.faults,
        totals=recording_rows.totals_row(totals),
        unread=[recording_rows.fault_row(each) for each in faults],
    )


def sha256_of_file(file: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
