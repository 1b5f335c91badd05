"""The guard: an outgoing message is judged before it goes out, and the verdict is kept."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.gate.operations.calls import NoSuchSession
from approvals.sessions import queries as sessions_queries
from console.api.auth import admits, caller_of
from console.api.guard import schemas
from console.api.paging import decode_cursor, page_response
from console.api.transaction import in_tenancy, json_response, run_once
from console.pages.sessions.guard_input import build_speaker
from ledger.record.rules.envelope import instant
from reviews import queries as after
from reviews.operations import guarding
from reviews.operations.extracting import extracted
from reviews.rules.guard.records import Stated
from reviews.rules.guard.verdict import Found

router = Router(tags=["Sessions"])


@router.post(
    "/sessions/{session_id}/guard",
    summary="Judge a message before it goes out; a blocked one comes with a corrected text",
    response=schemas.GuardAnswer,
)
@admits("agent")
def guard(request: HttpRequest, session_id: UUID, body: schemas.GuardBody) -> HttpResponse | None:
    # Asked before the transaction: an endpoint elsewhere must not hold a session's row.
    further = extracted(settings.COUNTERFOIL_GUARD_EXTRACTOR, body.message)
    return run_once(request, lambda: _guarded(request, session_id, body, further))


def _guarded(
    request: HttpRequest, session_id: UUID, body: schemas.GuardBody, further: tuple[Found, ...]
) -> HttpResponse:
    session = _seen(request, session_id)
    verdict = guarding.guard(
        speaker=build_speaker(session),
        message=body.message,
        stated=tuple(Stated(each.tool, each.statement, each.action_id, each.target) for each in body.claims),
        extra=further,
        at=timezone.now(),
    )
    violations = [
        {
            "code": each.code,
            "span": list(each.span),
            "claim": each.claim,
            "action_id": each.action_id,
            "detail": each.detail,
            "rule": each.rule,
            "tag": each.tag,
        }
        for each in verdict.violations
    ]
    return json_response({"verdict": verdict.verdict, "violations": violations, "corrected": verdict.corrected})


@router.get(
    "/sessions/{session_id}/guard",
    summary="The guard's log of a session, newest first",
    response=schemas.GuardLog,
)
@admits("agent", "oper", "audit", "person")
@in_tenancy
def guard_log(request: HttpRequest, session_id: UUID, wanted: Query[schemas.VerdictsWanted]) -> HttpResponse:
    session = _seen(request, session_id)
    rows = after.guard_verdicts(
        session.tenant_id,
        session_id=session_id,
        code=wanted.code,
        tag=wanted.tag,
        before=decode_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    return page_response(rows, wanted.limit, _row)


def _row(verdict: Any) -> dict[str, Any]:
    return {
        "verdict_id": str(verdict.id),
        "verdict": verdict.verdict,
        "codes": verdict.codes,
        "tags": verdict.tags,
        "claims": verdict.claims,
        "records": verdict.records,
        "message_hash": verdict.message_hash,
        "at": instant(verdict.at),
    }


def _seen(request: HttpRequest, session_id: UUID) -> Any:
    caller = caller_of(request)
    session = sessions_queries.session(caller.tenant_id, session_id)
    if session is None or (caller.kind == "agent" and session.key_actor != caller.actor.id):
        raise NoSuchSession
    return session
