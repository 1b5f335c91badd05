"""The work on approvals over HTTP: who looks after one, and what people and the agent say about it."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from approvals.requests.operations import threads
from approvals.requests.queries import approvals
from approvals.voting.queries import votes
from console.actions.routes.actions import visible_action
from console.approvals import schemas, verbs
from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, Paged
from console.edge.transaction import in_tenancy
from console.verbs.verb import add_verbs
from ledger.record.rules.refusals import NotFound

router = Router(tags=["Approvals"])


add_verbs(router, __name__, (verbs.CLAIM, verbs.RELEASE, verbs.ASSIGN))


@router.get(
    "/approvals/{approval_id}/thread",
    summary="Comments, questions and answers on an approval",
    response=Page[schemas.Line],
)
@admits("person")
@in_tenancy
def thread(request: HttpRequest, approval_id: UUID, wanted: Query[Paged]) -> Page[schemas.Line]:
    caller = caller_of(request)
    if approvals.approval(caller.tenant_id, approval_id) is None:
        raise NotFound
    return paging.page_of_whole_list(schemas.Line.of, votes.thread_lines(caller.tenant_id, approval_id), wanted)


add_verbs(router, __name__, (verbs.COMMENT, verbs.ASK))


@router.post(
    "/actions/{action_id}/answers",
    summary="Answer a question as the agent; this does not authorise anything",
    response={201: schemas.Answered},
)
@admits("agent")
@in_tenancy
def answer_question(request: HttpRequest, action_id: UUID, body: schemas.AnswerBody) -> schemas.Answered:
    caller = caller_of(request)
    row = threads.answer_question(
        tenant_id=caller.tenant_id,
        action_id=visible_action(request, action_id).id,
        question_id=body.question_id,
        text=body.text,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.Answered(question_id=body.question_id, line_id=row.id)
