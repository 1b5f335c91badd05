"""The work on approvals over HTTP: who looks after one, and what people and the agent say about it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from approvals.requests.operations import assignment, threads
from approvals.requests.queries import approvals
from approvals.voting.queries import votes
from console.accounts import queries as directory
from console.actions.routes.actions import visible_action
from console.approvals import schemas
from console.approvals.queue import eligible_assignees, refuse_no_assignee
from console.edge import paging
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, Paged
from console.edge.transaction import in_tenancy
from ledger.record.rules.refusals import NotFound

router = Router(tags=["Approvals"])
WORKERS = ("reviewer", "operator")
TALKERS = ("reviewer", "operator", "compliance")


@router.post(
    "/approvals/{approval_id}/claim",
    summary="Claim an approval; others can still vote",
    response=schemas.Claimed,
)
@admits(*WORKERS)
@in_tenancy
def claim(request: HttpRequest, approval_id: UUID) -> schemas.Claimed:
    caller = caller_of(request)
    held = assignment.claim_approval(
        tenant_id=caller.tenant_id, approval_id=approval_id, by=caller.actor, at=timezone.now()
    )
    return schemas.Claimed(approval_id=approval_id, claimed_by=held.by, claimed_until=held.until)


@router.post(
    "/approvals/{approval_id}/release",
    summary="Release a claim",
    response=schemas.Claimed,
)
@admits(*WORKERS)
@in_tenancy
def release(request: HttpRequest, approval_id: UUID) -> schemas.Claimed:
    caller = caller_of(request)
    assignment.release_claim(tenant_id=caller.tenant_id, approval_id=approval_id, by=caller.actor, at=timezone.now())
    return schemas.Claimed(approval_id=approval_id, claimed_by=None, claimed_until=None)


@router.post("/approvals/{approval_id}/assign", summary="Assign an approval", response=schemas.Assigned)
@admits(*WORKERS)
@in_tenancy
def assign(request: HttpRequest, approval_id: UUID, body: schemas.AssigneeBody) -> schemas.Assigned:
    caller, at = caller_of(request), timezone.now()
    approval = approvals.approval(caller.tenant_id, approval_id)
    if approval is None:
        raise NotFound
    among = eligible_assignees(approval, at=at)
    to = body.to or assignment.suggest_assignee(caller.tenant_id, among, at=at) or refuse_no_assignee()
    assignment.assign_approval(
        tenant_id=caller.tenant_id, approval_id=approval_id, to=to, among=among, by=caller.actor, at=at
    )
    return schemas.Assigned(approval_id=approval_id, assigned_to=to)


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


@router.post(
    "/approvals/{approval_id}/comments",
    summary="Comment on an approval",
    response={201: schemas.LineTaken},
)
@admits(*TALKERS)
@in_tenancy
def comment(request: HttpRequest, approval_id: UUID, body: schemas.LineBody) -> schemas.LineTaken:
    return schemas.LineTaken.of(_say(request, approval_id, body, threads.add_comment))


@router.post(
    "/approvals/{approval_id}/questions",
    summary="Ask the agent a question before deciding",
    response={201: schemas.LineTaken},
)
@admits(*WORKERS)
@in_tenancy
def ask(request: HttpRequest, approval_id: UUID, body: schemas.LineBody) -> schemas.LineTaken:
    return schemas.LineTaken.of(_say(request, approval_id, body, threads.ask_question))


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


def _say(request: HttpRequest, approval_id: UUID, body: schemas.LineBody, say: Any) -> Any:
    caller = caller_of(request)
    return say(
        tenant_id=caller.tenant_id,
        approval_id=approval_id,
        text=body.text,
        known=directory.mention_names(caller.tenant_id),
        by=caller.actor,
        at=timezone.now(),
    )
