"""Telling: what an agent and its user may be told of a session. Nothing here is judged; it is read from the record."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from console.api.auth import admits, caller_of
from console.api.sessions import session_report_answers
from console.api.sessions.routes import visible_session
from console.api.transaction import in_tenancy, json_response
from console.pages.sessions import session_context

router = Router(tags=["Sessions"])
READERS = ("agent", "oper", "audit", "person")


@router.get(
    "/sessions/{session_id}/context",
    summary="Verified facts, open items and pointers for the next turn of a model",
    response=session_report_answers.Context,
)
@admits(*READERS)
@in_tenancy
def get_context(request: HttpRequest, session_id: UUID) -> HttpResponse:
    caller, at = caller_of(request), timezone.now()
    session = visible_session(request, session_id)
    told = session_context.actions_of_session(session)
    document = session_context.context_document(session, told, at=at)
    if caller.kind == "agent":
        found = [each["action_id"] for each in (*document["facts"], *document["unresolved"])]
        session_context.remember_reported(session, told, found, to=caller.actor.id, at=at)
    return json_response(document)


@router.get(
    "/sessions/{session_id}/summary",
    summary="At most six lines for the user, from the record",
    response=session_report_answers.Summary,
)
@admits(*READERS)
@in_tenancy
def get_summary(request: HttpRequest, session_id: UUID) -> HttpResponse:
    return json_response(session_context.summary_document(visible_session(request, session_id)))
