"""Recordings: conversations that agents had elsewhere, as the audit found them. Nothing here can be changed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router

from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page
from console.edge.transaction import in_tenancy, record_read
from console.recordings import operations, schemas
from console.recordings import queries as recordings_queries
from console.recordings.lists import API_READERS, RECORDINGS
from console.recordings.queries import ConversationQuery, PagePosition
from console.web.list_page import add_lists
from ledger.record.rules.encryption import EvidenceErased
from ledger.record.rules.refusals import NotFound
from ledger.retention import queries as retention_queries

router = Router(tags=["Recordings"])
LARGEST = 2**31 - 1


add_lists(router, __name__, RECORDINGS)


@router.get("/recordings/{recording_id}", summary="One recording with its statistics", response=schemas.RecordingAnswer)
@admits(*API_READERS)
@in_tenancy
def get_recording(request: HttpRequest, recording_id: UUID) -> schemas.RecordingAnswer:
    row = _get_recording(request, recording_id)
    return schemas.RecordingAnswer.of(row, retention=operations.retention_status(row))


@router.get(
    "/recordings/{recording_id}/conversations",
    summary="The conversations of a recording",
    response=Page[schemas.AuditedConversationRow],
)
@admits(*API_READERS)
@in_tenancy
def list_conversations(
    request: HttpRequest, recording_id: UUID, wanted: Query[schemas.ConversationsWanted]
) -> Page[schemas.AuditedConversationRow]:
    row = _get_recording(request, recording_id)
    asked = ConversationQuery(
        kind=wanted.kind or "",
        code=wanted.code,
        findings=wanted.findings,
        failures=wanted.failures,
        blocked=wanted.blocked,
        words=wanted.q,
        gravest_first=wanted.order == "gravest",
    )
    found = recordings_queries.conversations(
        row.tenant_id, row.id, asked, behind=_place(wanted.cursor), limit=wanted.limit
    )
    following = str(found.behind) if found.behind else None
    return Page(items=[schemas.AuditedConversationRow.of(each) for each in found.rows], next=following)


@router.get(
    "/recordings/{recording_id}/conversations/{number}",
    summary="One conversation: its messages with calls, mismatches, and claims with verdict and quote",
    response=schemas.AuditedConversation,
)
@admits(*API_READERS)
@in_tenancy
def get_conversation(
    request: HttpRequest, recording_id: UUID, number: int, wanted: Query[schemas.TurnsWanted]
) -> schemas.AuditedConversation:
    row = _get_recording(request, recording_id)
    one = recordings_queries.conversation(row.tenant_id, row.id, number) if 0 < number <= LARGEST else None
    if one is None:
        raise NotFound
    where = (row.tenant_id, row.id, number)
    read = recordings_queries.messages(*where, since=_number(wanted.cursor or "0"), limit=wanted.limit + 1)
    following = read[wanted.limit].number if len(read) > wanted.limit else None
    return schemas.AuditedConversation.of_messages(
        one,
        row,
        read[: wanted.limit],
        categories=recordings_queries.count_categories(*where),
        next=None if following is None else str(following),
    )


def _get_recording(request: HttpRequest, recording_id: UUID) -> Any:
    """Return the recording, if it is the caller's tenant's, and record the reader, as on its page."""
    caller = caller_of(request)
    row = recordings_queries.find_recording(caller.tenant_id, recording_id)
    if row is None:
        raise NotFound
    gone = retention_queries.erased_subject(caller.tenant_id, recording_id)
    if gone is not None:
        raise EvidenceErased(f"This was erased under request {gone.erasure_id}.")
    record_read(request, "recording", recording_id)
    return row


def _place(cursor: str | None) -> PagePosition | None:
    if not cursor:
        return None
    severity, _, number = cursor.partition(".")
    return PagePosition(_number(severity), _number(number))


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 11 and int(cursor) <= LARGEST):
        raise paging.BadCursor
    return int(cursor)
