"""Keeping a recording: its rows and the one event that says who imported which file, in one transaction.

If the process dies before the commit, nothing of the import is there, and the same command begins again; after it, the
file is there and is not taken a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction

from console.models import RecordedConversation, RecordedMessage, RecordedWord, Recording
from console.transcripts.document import VERSION
from console.transcripts.recordings import queries as recordings_queries
from console.transcripts.recordings import recording_rows, search_words
from console.transcripts.recordings.spool import RowSpool
from console.transcripts.records import TranscriptFault
from console.transcripts.totals import AuditTotals
from ledger.record import operations as ledger
from ledger.record.rules.refusals import Refused
from ledger.retention.operations import erasure

PORTION: Final = 500
MOST_MESSAGES: Final = 5_000_000
ONCE: Final = "recording_once_by_its_digest"


class AlreadyImported(Refused):
    """A file of exactly these bytes was imported already."""

    code = "ALREADY_IMPORTED"


class NothingToImport(Refused):
    """There is no conversation in this file that could be read."""

    code = "NOTHING_TO_IMPORT"
    status = 422


class TooManyMessages(Refused):
    """A recording holds at most 5,000,000 messages; split the file."""

    code = "TOO_MANY_MESSAGES"
    status = 422


class NoSuchRecording(Refused):
    """There is no such recording here."""

    code = "NOT_FOUND"
    status = 404


@dataclass(frozen=True, kw_only=True)
class AuditedFile:
    """A file as it was audited: its name and digest, how far answers were trusted, and against which contracts.

    `contracts` is the digest of the contracts that were given, empty where the recordings brought their own tools.
    """

    name: str
    digest: str
    size: int
    trust: str
    contracts: str = ""


def store_recording(
    *,
    tenant_id: UUID,
    file: AuditedFile,
    spool: RowSpool,
    totals: AuditTotals,
    faults: Iterable[TranscriptFault],
    by: ledger.Actor,
    at: datetime,
    named: UUID | None = None,
) -> Recording:
    """Write an audited recording and its event.

    The row with the digest comes first: of two imports of one file, the second waits for the first and is refused.
    """
    if totals.conversations == 0:
        raise NothingToImport
    if totals.messages > MOST_MESSAGES:
        raise TooManyMessages
    row = _first(tenant_id, file, totals, faults, named, at=at)
    here = {"tenant_id": tenant_id, "recording_id": row.id}
    for conversations in _portions(spool.conversations()):
        RecordedConversation.objects.bulk_create([RecordedConversation(**here, **each) for each in conversations])
    for messages in _portions(spool.messages()):
        RecordedMessage.objects.bulk_create([RecordedMessage(**here, **each) for each in messages])
    for found in _portions(search_words.word_rows(spool.conversations(), spool.messages())):
        RecordedWord.objects.bulk_create([RecordedWord(**here, **each) for each in found])
    ledger.append(
        ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="recording"),
        ledger.NewEvent(kind="recording_imported", to="IMPORTED", detail=_told(row)),
        actor=by,
        at=at,
    )
    return row


def request_erasure(
    *, tenant_id: UUID, recording_id: UUID, legal_basis: str, reason: str, by: ledger.Actor, at: datetime
) -> None:
    """Ask for a recording to be erased; another person must confirm it, as for everything (R-LE-21)."""
    if recordings_queries.find_recording(tenant_id, recording_id) is None:
        raise NoSuchRecording
    wish = erasure.ErasureRequest(subjects=(recording_id,), legal_basis=legal_basis, reason=reason)
    erasure.request_erasure(tenant_id=tenant_id, wish=wish, by=by, at=at)


def _first(
    tenant_id: UUID,
    file: AuditedFile,
    totals: AuditTotals,
    faults: Iterable[TranscriptFault],
    named: UUID | None,
    *,
    at: datetime,
) -> Recording:
    row = Recording(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        file_name=recording_rows.storable_text(file.name, recording_rows.MOST_NAME),
        digest=file.digest,
        size=file.size,
        trust=file.trust,
        version=VERSION,
        contracts=file.contracts,
        conversations=totals.conversations,
        messages=totals.messages,
        calls=totals.calls,
        with_findings=totals.with_findings,
        false_claims=totals.all_false,
        faults=totals.faults,
        totals=recording_rows.totals_row(totals),
        unread=[recording_rows.fault_row(each) for each in islice(faults, recording_rows.MOST_FAULTS)],
        named=named,
        at=at,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as conflict:
        if ONCE in str(conflict):
            raise AlreadyImported from None
        raise
    return row


def _told(row: Recording) -> Mapping[str, Any]:
    """What the event says: which bytes, how they were audited, what came of it."""
    counted = ("size", "conversations", "messages", "calls", "with_findings", "false_claims", "faults")
    return {
        "file_name": row.file_name,
        "digest": row.digest,
        "audit": {"version": row.version, "trust": row.trust, "contracts": row.contracts},
        "named": str(row.named) if row.named else None,
        **{name: getattr(row, name) for name in counted},
    }


def _portions(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while portion := list(islice(rows, PORTION)):
        yield portion
