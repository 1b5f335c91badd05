"""Telling: what an agent and its user may be told of a session. Nothing here is judged; it is read from the record."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from console import telling
from console.api import telling_answers
from console.api.caller import admits, caller_of
from console.api.edge import answer, in_tenancy
from console.api.sessions import seen

router = Router(tags=["Sessions"])
READERS = ("agent", "oper", "audit", "person")


@router.get(
    "/sessions/{session_id}/context",
    summary="Verified facts, open items and pointers for the next turn of a model",
    response=telling_answers.Context,
)
@admits(*READERS)
@in_tenancy
def get_context(request: HttpRequest, session_id: UUID) -> HttpResponse:
    caller, at = caller_of(request), timezone.now()
    session = seen(request, session_id)
    told = telling.of_session(session)
    document = telling.context_of(session, told, at=at)
    if caller.kind == "agent":
        found = [each["action_id"] for each in (*document["facts"], *document["unresolved"])]
        telling.remember(session, told, found, to=caller.actor.id, at=at)
    return answer(document)


@router.get(
    "/sessions/{session_id}/summary",
    summary="At most six lines for the user, from the record",
    response=telling_answers.Summary,
)
@admits(*READERS)
@in_tenancy
def get_summary(request: HttpRequest, session_id: UUID) -> HttpResponse:
    return answer(telling.summary_of(seen(request, session_id)))
