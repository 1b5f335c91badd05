"""Actions: what was asked, what became of it, and the only words that may be told about it."""

from __future__ import annotations

import time
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.sessions import queries as sessions_queries
from console.actions import envelope, schemas, verbs, visibility
from console.approvals.context import verdict_for_agent
from console.edge import paging, waiting
from console.edge.auth import admits, caller_of
from console.edge.schemas import Page, ReasonBody
from console.edge.transaction import in_tenancy, json_response, run_once
from console.verbs.verb import add_verbs
from ledger.actions.queries import actions
from ledger.db import tenancy
from ledger.log.queries import log
from ledger.record.queries import events
from ledger.record.rules.lifecycle import NEEDS, TRANSITIONS, State
from ledger.record.rules.refusals import NotFound
from reviews import queries as reviews_queries
from reviews.cases.operations import cases
from reviews.tracing import queries as tracing
from reviews.verification.operations.verification import order_reading

router = Router(tags=["Actions"])
READERS = ("agent", "oper", "audit", "person")


@router.get("/actions", summary="Actions, newest first", response=Page[schemas.ActionRow])
@admits(*READERS)
@in_tenancy
def list_actions(request: HttpRequest, wanted: Query[schemas.ActionsWanted]) -> Page[schemas.ActionRow]:
    caller = caller_of(request)
    filters = wanted.model_dump(exclude={"limit", "cursor"})
    if caller.kind == "agent":
        filters["sessions"] = sessions_queries.sessions_of_key(caller.tenant_id, caller.actor.id)
    found = actions.actions(
        caller.tenant_id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1, **filters
    )
    accepted = reviews_queries.accepted_differences(caller.tenant_id, found)
    return paging.page_of(lambda each: schemas.ActionRow.of(each, accepted=accepted.get(each.id)), found, wanted.limit)


@router.get(
    "/state-machine",
    summary="The lifecycle's states and legal transitions",
    response=schemas.StateMachine,
)
@admits("agent", "exec", "oper", "audit", "person")
def state_machine(request: HttpRequest) -> HttpResponse:
    edges = [
        schemas.Transition(from_=start, to=target, grounds=sorted(NEEDS.get((start, target), ())))
        for start, target in sorted(TRANSITIONS)
    ]
    return json_response(schemas.StateMachine(states=list(State), transitions=edges))


@router.get(
    "/actions/{action_id}",
    summary="One action: latest event, status, axes and evidence; waits up to wait_s for a decision",
    response=schemas.Action,
)
@admits(*READERS)
def get_action(request: HttpRequest, action_id: UUID, wanted: Query[schemas.ActionWanted]) -> HttpResponse:
    """Waiting only reads: when the time is over the answer is how it stands, and no denial."""
    until = waiting.end_of_wait(request, wanted.wait_s)
    found = run_once(request, partial(_answer_if_decided, request, action_id, last=time.monotonic() >= until))
    if found is not None:
        return found
    return waiting.StillWaiting(waiting.Wait(until, partial(_is_decided, caller_of(request).tenant_id, action_id)))


def _answer_if_decided(request: HttpRequest, action_id: UUID, *, last: bool) -> schemas.Action | None:
    shown = envelope.envelope(visible_action(request, action_id), caller_of(request))
    waits = shown.approval is not None and shown.approval.waiting
    return shown if last or not waits else None


def _is_decided(tenant_id: UUID, action_id: UUID) -> bool:
    with tenancy(tenant_id, reads_only=True):
        action = actions.action(tenant_id, action_id)
        verdict = verdict_for_agent(action) if action is not None else None
    return verdict is None or not verdict["waiting"]


@router.get("/actions/{action_id}/history", summary="All events of an action", response=Page[schemas.Event])
@admits(*READERS)
@in_tenancy
def get_history(request: HttpRequest, action_id: UUID) -> Page[schemas.Event]:
    caller = caller_of(request)
    action = visible_action(request, action_id, or_erased=True)
    history = events.history(caller.tenant_id, action.id)
    if caller.kind == "agent":
        shown = [
            schemas.Event(seq=event.seq, state=event.state, event=event.kind, at=event.at) for event, _, _ in history
        ]
        return Page(items=shown, next=None)
    places = log.event_positions(caller.tenant_id, action_id)
    items = [
        schemas.Event(**envelope.event_fields(event, entry, places.get(event.seq)), detail=detail)
        for event, entry, detail in history
    ]
    return Page(items=items, next=None)


@router.get(
    "/actions/{action_id}/trace", summary="The trace spans of an action, as exported", response=schemas.ActionTrace
)
@admits("oper", "audit", "person")
@in_tenancy
def get_trace(request: HttpRequest, action_id: UUID) -> schemas.ActionTrace:
    action = visible_action(request, action_id)
    trace = tracing.trace_of(action)
    if trace is None:
        raise NotFound
    entry = events.entry(action.tenant_id, action.id, action.seq) or {}
    return schemas.ActionTrace(
        trace_id=trace.trace_id,
        parent_span_id=trace.remote_parent,
        parent=None if trace.remote_parent is None else "agent" if trace.is_agents else "recovery",
        replay_bundle_id=entry["trace"]["replay_bundle_id"],
        action_id=action.id,
        spans=[
            schemas.Span(
                span_id=span.span_id,
                parent_span_id=span.parent_id,
                stage=span.stage,
                name=span.name,
                start=span.start,
                end=span.end,
                status=span.status,
                seq=span.seq,
                attributes=dict(span.attributes),
            )
            for span in trace.spans
        ],
    )


@router.get(
    "/actions/{action_id}/report",
    summary="The only text about the outcome that may be shown to a user",
    response=schemas.Report,
)
@admits(*READERS)
@in_tenancy
def get_report(request: HttpRequest, action_id: UUID) -> schemas.Report:
    action = visible_action(request, action_id)
    return envelope.issue_report(request, actions.latest_event(action.tenant_id, action.id), at=timezone.now())


add_verbs(router, __name__, [verbs.CANCEL])


@router.post(
    "/actions/{action_id}/verify",
    summary="Verify an action now: read the system of record",
    response={202: schemas.ActionState},
)
@admits("oper", "operator")
@in_tenancy
def verify(request: HttpRequest, action_id: UUID) -> schemas.ActionState:
    action = visible_action(request, action_id)
    order_reading(action, by=caller_of(request).actor, at=timezone.now())
    return schemas.ActionState(action_id=action_id, state=action.state)


@router.post(
    "/actions/{action_id}/case",
    summary="Open a case for an action that nothing but a person can take further",
    response={201: schemas.OpenedCase},
)
@admits("operator")
@in_tenancy
def open_case(request: HttpRequest, action_id: UUID, body: ReasonBody) -> schemas.OpenedCase:
    caller = caller_of(request)
    case = cases.take_up(
        tenant_id=caller.tenant_id,
        action_id=visible_action(request, action_id).id,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return schemas.OpenedCase(case_id=case.id, action_id=action_id, state=case.state)


def visible_action(request: HttpRequest, action_id: UUID, *, or_erased: bool = False) -> Any:
    """The action that a request is about, if its caller may see it."""
    caller = caller_of(request)
    return visibility.visible_action(caller.tenant_id, caller.actor, action_id, or_erased=or_erased)
