"""Store a recording: its rows and the one event about its import, in one transaction.

If the process dies before the commit, nothing of the import is there, and the same command begins again; after it, the
file is there and is not taken a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Any, Final
from uuid import UUID

import orjson
from django.db import IntegrityError, transaction

from console.models import RecordedConversation, RecordedMessage, RecordedWord, Recording
from console.transcripts.acts import TrustRequirement
from console.transcripts.audit import ConversationAudit
from console.transcripts.document import VERSION
from console.transcripts.recordings import queries as recordings_queries
from console.transcripts.recordings import recording_rows, search_words
from console.transcripts.records import TranscriptFault
from console.transcripts.totals import AuditTotals
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound, Refused
from ledger.retention import queries as retention_queries
from ledger.retention.operations import erasure
from ledger.retention.rules.retention import RetentionSubject

PORTION: Final = 500
MOST_MESSAGES: Final = 5_000_000
ONCE: Final = "recording_once_by_its_digest"


@dataclass(eq=False)
class RowSpool:
    """The rows of one recording, in their order, buffered in unnamed temporary files until the import is complete.

    The database is then written to in one short transaction, and memory holds one conversation, whatever the size of
    the recording. The files are gone with the process, however it ends.
    """

    _trust: TrustRequirement
    _conversations: IO[bytes]
    _messages: IO[bytes]
    count: int = 0

    def add(self, found: ConversationAudit) -> None:
        """Add one conversation completely or, if it cannot be written, not at all."""
        number = self.count + 1
        # Made before anything is written, so that what fails here leaves no half of it.
        head = orjson.dumps(recording_rows.conversation_row(found, number))
        rows = [orjson.dumps(each) for each in recording_rows.message_rows(found, number, self._trust)]
        self._conversations.write(head + b"\n")
        self._messages.writelines(row + b"\n" for row in rows)
        self.count = number

    def conversations(self) -> Iterator[dict[str, Any]]:
        """The rows of the conversations."""
        return _rows(self._conversations)

    def messages(self) -> Iterator[dict[str, Any]]:
        """The rows of their messages."""
        return _rows(self._messages)


@contextmanager
def open_spool(trust: TrustRequirement) -> Iterator[RowSpool]:
    """A temporary store for the rows of one recording."""
    with TemporaryFile() as conversations, TemporaryFile() as messages:
        yield RowSpool(trust, conversations, messages)


def _rows(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    file.seek(0)
    for line in file:
        yield orjson.loads(line)


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


@dataclass(frozen=True, kw_only=True)
class AuditedFile:
    """A file as audited: its name and digest, the trust in answers, and the contracts.

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
    row = _create_row(tenant_id, file, totals, faults, named, at=at)
    here = {"tenant_id": tenant_id, "recording_id": row.id}
    for conversations in _portions(spool.conversations()):
        RecordedConversation.objects.bulk_create([RecordedConversation(**here, **each) for each in conversations])
    for messages in _portions(spool.messages()):
        RecordedMessage.objects.bulk_create([RecordedMessage(**here, **each) for each in messages])
    for found in _portions(search_words.word_rows(spool.conversations(), spool.messages())):
        RecordedWord.objects.bulk_create([RecordedWord(**here, **each) for each in found])
    ledger.append(
        ledger.SubjectHead(tenant_id=tenant_id, id=row.id, kind="recording"),
        ledger.NewEvent(kind="recording_imported", to="IMPORTED", detail=_event_detail(row)),
        actor=by,
        at=at,
    )
    return row


def request_erasure(
    *, tenant_id: UUID, recording_id: UUID, legal_basis: str, reason: str, by: ledger.Actor, at: datetime
) -> None:
    """Request the erasure of a recording; another person must confirm it, as for everything (R-LE-21)."""
    if recordings_queries.find_recording(tenant_id, recording_id) is None:
        raise NotFound(detail="There is no such recording here.")
    wish = erasure.ErasureRequest(subjects=(recording_id,), legal_basis=legal_basis, reason=reason)
    erasure.request_erasure(tenant_id=tenant_id, request=wish, by=by, at=at)


def _create_row(
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


def _event_detail(row: Recording) -> Mapping[str, Any]:
    """The event's detail: the file's digest, how it was audited, and the totals."""
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


@dataclass(frozen=True, kw_only=True)
class RetentionStatus:
    """Until when a recording is kept: by the tenant's retention policy, and longer where a hold covers it.

    `standing` says whether the policy then erases it, or two people decide. `waiting` says whether its erasure has been
    requested.
    """

    days: int
    until: datetime
    standing: bool
    holds: tuple[UUID, ...]
    waiting: bool


def retention_status(row: Recording) -> RetentionStatus:
    """The retention status of a recording now."""
    policy = retention_queries.policy(row.tenant_id)
    held = RetentionSubject(id=row.id, kind="recording", state="IMPORTED", created_at=row.at)
    return RetentionStatus(
        days=policy.payload_days,
        until=row.at + timedelta(days=policy.payload_days),
        standing=policy.standing,
        holds=tuple(each.id for each in retention_queries.holds_on(row.tenant_id, [held])),
        waiting=bool(retention_queries.subjects_in_open_requests(row.tenant_id, [row.id])),
    )
