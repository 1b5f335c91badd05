"""The guard: an outgoing message is judged before it goes out, and the verdict is kept."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.sessions import queries as sessions_queries
from approvals.sessions.operations.sessions import check_output_tags, note_use
from console.edge.auth import admits, caller_of
from console.edge.paging import decode_cursor, page_of
from console.edge.transaction import in_tenancy, run_once
from console.guard import schemas
from console.sessions.guard_input import build_speaker
from ledger.db import tenancy
from ledger.record.rules.refusals import NotFound
from reviews import queries as after
from reviews.guarding import operations as guarding
from reviews.guarding.extractor import reports_by
from reviews.guarding.queries import message_rule_of
from reviews.guarding.rules.records import Stated
from reviews.guarding.rules.verdict import Strictness

router = Router(tags=["Sessions"])


@router.post(
    "/sessions/{session_id}/guard",
    summary="Check an agent's message before it is sent; contradicted text is replaced and a receipt added",
    response=schemas.GuardAnswer,
)
@admits("agent")
def guard(request: HttpRequest, session_id: UUID, body: schemas.GuardBody) -> HttpResponse | None:
    with tenancy(caller_of(request).tenant_id):
        session = _get_session(request, session_id)
        rule = message_rule_of(session.tenant_id, session.agent_id)
    strict = None
    if rule.uncited != "pass":
        # Asked before the transaction: an endpoint elsewhere must not hold a session's row.
        strict = Strictness(reports_by(settings.COUNTERFOIL_GUARD_EXTRACTOR, body.message), rule.uncited)
    return run_once(request, lambda: _guard_message(request, session_id, body, strict))


def _guard_message(
    request: HttpRequest, session_id: UUID, body: schemas.GuardBody, strict: Strictness | None
) -> schemas.GuardAnswer:
    session = _get_session(request, session_id)
    check_output_tags(session=session, tags=body.output_tags, at=timezone.now())
    note_use(session=session, at=timezone.now())
    guarded = guarding.guard(
        speaker=build_speaker(session),
        message=body.message,
        stated=tuple(Stated(each.tool, each.statement, each.action_id, each.target, each.span) for each in body.claims),
        language=body.language,
        strict=strict,
        at=timezone.now(),
    )
    return schemas.GuardAnswer.of(guarded.verdict, receipt=guarded.receipt)


@router.get(
    "/sessions/{session_id}/guard",
    summary="Checked messages of a session, newest first, with the receipt of all its changes",
    response=schemas.GuardLog,
)
@admits("agent", "oper", "audit", "person")
@in_tenancy
def guard_log(request: HttpRequest, session_id: UUID, wanted: Query[schemas.VerdictsWanted]) -> schemas.GuardLog:
    session = _get_session(request, session_id)
    rows = after.guard_verdicts(
        session.tenant_id,
        session_id=session_id,
        code=wanted.code,
        tag=wanted.tag,
        before=decode_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = page_of(schemas.GuardVerdict.of, rows, wanted.limit)
    return schemas.GuardLog(**dict(page), receipt=_receipt_for(request, session, wanted.language))


def _receipt_for(request: HttpRequest, session: Any, language: str) -> schemas.Receipt | None:
    """The receipt of a session for its own agent; others read its values only where the access is recorded."""
    if caller_of(request).kind != "agent":
        return None
    return schemas.Receipt.of(guarding.receipt_of_session(build_speaker(session), language=language, at=timezone.now()))


def _get_session(request: HttpRequest, session_id: UUID) -> Any:
    caller = caller_of(request)
    session = sessions_queries.session(caller.tenant_id, session_id)
    if session is None or (caller.kind == "agent" and session.key_actor != caller.actor.id):
        raise NotFound("Session")
    return session
