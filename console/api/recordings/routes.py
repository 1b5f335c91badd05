"""Recordings: conversations that agents had elsewhere, as the audit found them. Nothing here can be changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from console.accounts import operations as accounts_operations
from console.api import paging
from console.api.answers import Page
from console.api.auth import admits, caller_of
from console.api.recordings import answers
from console.api.schemas import Moment, Paged
from console.api.transaction import NotFound, in_tenancy, json_response
from console.transcripts.recordings import answers as recordings_answers
from console.transcripts.recordings import operations
from console.transcripts.recordings import queries as recordings_queries
from console.transcripts.recordings.queries import ConversationQuery, PagePosition, RecordingQuery
from ledger.record.rules.encryption import EvidenceErased
from ledger.retention import queries as retention_queries

router = Router(tags=["Recordings"])
READERS = ("oper", "audit", "person")
LARGEST = 2**31 - 1

Words = Annotated[str, Field(max_length=200, description="Words that all stand in one conversation.")]
Failures = Annotated[bool | None, Field(description="With calls that the tool failed, or without any.")]
Blocked = Annotated[bool | None, Field(description="With claims that nothing bears out, or without any.")]


class RecordingsWanted(Paged):
    since: Annotated[Moment | None, Field(alias="from", description="Imported from then on.")] = None
    until: Annotated[Moment | None, Field(alias="to")] = None
    file: Annotated[str, Field(max_length=300, description="A part of the file's name.")] = ""
    failures: Failures = None
    blocked: Blocked = None
    q: Words = ""


class ConversationsWanted(Paged):
    kind: Annotated[answers.Kind | None, Field(description="What was found of a call.")] = None
    code: Annotated[str, Field(max_length=64, description="Of a refused call or of a false claim.")] = ""
    findings: Annotated[bool | None, Field(description="With anything found, or without.")] = None
    failures: Failures = None
    blocked: Blocked = None
    q: Words = ""
    order: Annotated[Literal["gravest", "file"], Field(description="The gravest first, or as in the file.")] = "gravest"


class TurnsWanted(Paged):
    limit: Annotated[int, Field(ge=1, le=500, description="So many messages.")] = 100


@router.get(
    "/recordings",
    summary="Imported recordings of conversations, newest first",
    response=Page[answers.RecordingRow],
)
@admits(*READERS)
@in_tenancy
def list_recordings(request: HttpRequest, wanted: Query[RecordingsWanted]) -> HttpResponse:
    sought = RecordingQuery(
        since=wanted.since,
        until=wanted.until,
        file=wanted.file,
        failures=wanted.failures,
        blocked=wanted.blocked,
        words=wanted.q,
    )
    tenant_id, before = caller_of(request).tenant_id, paging.decode_cursor(wanted.cursor)
    found = recordings_queries.recordings(tenant_id, sought, before=before, limit=wanted.limit + 1)
    return paging.page_response(found, wanted.limit, recordings_answers.recording_document)


@router.get("/recordings/{recording_id}", summary="One recording with its figures", response=answers.RecordingAnswer)
@admits(*READERS)
@in_tenancy
def get_recording(request: HttpRequest, recording_id: UUID) -> HttpResponse:
    row = _seen(request, recording_id)
    return json_response(recordings_answers.recording_detail(row, operations.retention_status(row)))


@router.get(
    "/recordings/{recording_id}/conversations",
    summary="The conversations of a recording",
    response=Page[answers.AuditedConversationRow],
)
@admits(*READERS)
@in_tenancy
def list_conversations(request: HttpRequest, recording_id: UUID, wanted: Query[ConversationsWanted]) -> HttpResponse:
    row = _seen(request, recording_id)
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
    return json_response(
        {"items": [recordings_answers.conversation_row(each) for each in found.rows], "next": following}
    )


@router.get(
    "/recordings/{recording_id}/conversations/{number}",
    summary="One conversation: its messages with calls, mismatches, and claims with verdict and quote",
    response=answers.AuditedConversation,
)
@admits(*READERS)
@in_tenancy
def get_conversation(request: HttpRequest, recording_id: UUID, number: int, wanted: Query[TurnsWanted]) -> HttpResponse:
    row = _seen(request, recording_id)
    one = recordings_queries.conversation(row.tenant_id, row.id, number) if 0 < number <= LARGEST else None
    if one is None:
        raise NotFound
    where = (row.tenant_id, row.id, number)
    read = recordings_queries.messages(*where, since=_number(wanted.cursor or "0"), limit=wanted.limit + 1)
    following = read[wanted.limit].number if len(read) > wanted.limit else None
    counted = recordings_queries.count_categories(*where)
    return json_response(
        recordings_answers.conversation_detail(row, one, counted, read[: wanted.limit], following=following)
    )


def _seen(request: HttpRequest, recording_id: UUID) -> Any:
    """The recording, if it is the caller's tenant's; that they looked is noted, as on its page."""
    caller = caller_of(request)
    row = recordings_queries.find_recording(caller.tenant_id, recording_id)
    if row is None:
        raise NotFound
    gone = retention_queries.erased_subject(caller.tenant_id, recording_id)
    if gone is not None:
        raise EvidenceErased(f"This was erased under request {gone.erasure_id}.")
    accounts_operations.record_sighting(
        tenant_id=caller.tenant_id,
        by=caller.actor,
        kind="recording",
        thing_id=recording_id,
        about_id=None,
        at=timezone.now(),
    )
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
