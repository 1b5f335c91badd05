"""Telling: what an agent and its user may be told of a session. Nothing here is judged; it is read from the record."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router

from approvals.sessions.operations.sessions import note_use, session_nudge
from console.edge.auth import admits, caller_of
from console.edge.transaction import in_tenancy, note_access
from console.sessions import schemas, session_context
from console.sessions.routes.sessions import visible_session
from ledger.actions.queries import actions
from reviews.reporting.operations.session_reports import read_aged_again
from reviews.reporting.rules.context import build_context

router = Router(tags=["Sessions"])
READERS = ("agent", "oper", "audit", "person")


@router.get(
    "/sessions/{session_id}/context",
    summary="Verified facts, open items and pointers for the next turn of a model",
    response=schemas.Context,
)
@admits(*READERS)
@in_tenancy
def get_context(request: HttpRequest, session_id: UUID) -> schemas.Context:
    caller, at = caller_of(request), timezone.now()
    session = visible_session(request, session_id)
    told = session_context.actions_of_session(session)
    found = build_context(told.items, told.scene, at=at)
    if caller.kind == "agent":
        shown = [each.action_id for each in (*found.facts, *found.aged, *found.unresolved)]
        of: dict[str, Any] = {
            "session": session,
            "session_actions": told,
            "found": shown,
            "to": caller.actor.id,
            "at": at,
        }
        note_access(request, session_context.remember_reported, **of)
        note_access(request, note_use, session=session, at=at)
        note_access(request, read_aged_again, tenant_id=session.tenant_id, aged=found.aged, at=at)
    return schemas.Context(
        session_id=session.id,
        as_of=at,
        text=found.text,
        facts=[schemas.Fact.of(item) for item in found.facts],
        aged=[schemas.Fact.of(item) for item in found.aged],
        unresolved=[schemas.Fact.of(item) for item in found.unresolved],
        more=schemas.More(
            facts=found.more_facts, aged=found.more_aged, unresolved=found.more_unresolved, unseen=told.scene.unseen
        ),
        manifest=[schemas.Tool.of(tool) for tool in told.scene.tools],
        stops=list(told.scene.stops),
        refused=dict(told.scene.refused),
        next=schemas.Next.of(session_nudge(session, actions.open_phases(session.tenant_id, session.id))),
    )


@router.get(
    "/sessions/{session_id}/summary",
    summary="Summary for the user from the record, at most six lines",
    response=schemas.Summary,
)
@admits(*READERS)
@in_tenancy
def get_summary(request: HttpRequest, session_id: UUID) -> schemas.Summary:
    return schemas.Summary.of(session_context.summary_document(visible_session(request, session_id)))
