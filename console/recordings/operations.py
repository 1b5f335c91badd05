"""Store a recording: its rows and the one event about its import, in one transaction.

If the process dies before the commit, nothing of the import is there, and the same command begins again; after it, the
file is there and is not taken a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, Protocol
from uuid import UUID

from django.db import IntegrityError, transaction

from console.models import RecordedConversation, RecordedMessage, RecordedWord, Recording
from console.recordings import queries as recordings_queries
from console.recordings import search_words
from console.recordings.rules import MOST_NAME, storable_text
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound, Refused
from ledger.retention import queries as retention_queries
from ledger.retention.operations import erasure
from ledger.retention.rules.retention import RetentionSubject

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


class RecordedRows(Protocol):
    """The rows of one recording, each time from the first: dictionaries with the columns of their tables."""

    def conversations(self) -> Iterator[dict[str, Any]]: ...

    def messages(self) -> Iterator[dict[str, Any]]: ...


@dataclass(frozen=True, kw_only=True)
class AuditedFile:
    """A file as audited: its name and digest, the trust in answers, the contracts, and what was counted.

    `version` is that of the report, `contracts` the digest of the contracts that were given, empty where the recordings
    brought their own tools. `totals` are the report's figures, `unread` the places that could not be read.
    """

    name: str
    digest: str
    size: int
    trust: str
    version: int
    contracts: str = ""
    conversations: int
    messages: int
    calls: int
    with_findings: int
    false_claims: int
    faults: int
    totals: Mapping[str, Any]
    unread: Sequence[Mapping[str, str]]


def store_recording(
    *,
    tenant_id: UUID,
    file: AuditedFile,
    rows: RecordedRows,
    by: ledger.Actor,
    at: datetime,
    named: UUID | None = None,
) -> Recording:
    """Write an audited recording and its event.

    The row with the digest comes first: of two imports of one file, the second waits for the first and is refused.
    """
    if file.conversations == 0:
        raise NothingToImport
    if file.messages > MOST_MESSAGES:
        raise TooManyMessages
    row = _create_row(tenant_id, file, named, at=at)
    here = {"tenant_id": tenant_id, "recording_id": row.id}
    for conversations in _portions(rows.conversations()):
        RecordedConversation.objects.bulk_create([RecordedConversation(**here, **each) for each in conversations])
    for messages in _portions(rows.messages()):
        RecordedMessage.objects.bulk_create([RecordedMessage(**here, **each) for each in messages])
    for found in _portions(search_words.word_rows(rows.conversations(), rows.messages())):
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


def _create_row(tenant_id: UUID, file: AuditedFile, named: UUID | None, *, at: datetime) -> Recording:
    row = Recording(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        file_name=storable_text(file.name, MOST_NAME),
        digest=file.digest,
        size=file.size,
        trust=file.trust,
        version=file.version,
        contracts=file.contracts,
        conversations=file.conversations,
        messages=file.messages,
        calls=file.calls,
        with_findings=file.with_findings,
        false_claims=file.false_claims,
        faults=file.faults,
        totals=dict(file.totals),
        unread=[*file.unread],
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
