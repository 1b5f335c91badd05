"""Actions: what was asked, what became of it, and the only words that may be told about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from approvals.execution.operations import executions
from approvals.sessions import queries as sessions_queries
from console.api import answers, envelope, paging
from console.api.auth import admits, caller_of
from console.api.schemas import ActionsWanted, ActionWanted, CancelBody
from console.api.transaction import NotFound, in_tenancy, json_response, run_once
from console.pages.sessions.session_context import part_rows
from ledger.actions.queries import actions
from ledger.log.queries import log
from ledger.record.queries import events
from ledger.record.rules.encryption import EvidenceErased
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import NEEDS, TRANSITIONS, State
from ledger.record.rules.refusals import Refused
from ledger.retention import queries as retention_queries
from reviews.readback.operations import schedules
from reviews.reporting.operations import reports
from reviews.verification.rules.verification import VERIFIABLE_IN

router = Router(tags=["Actions"])
READERS = ("agent", "oper", "audit", "person")
POLL_S = 0.25
_WAITERS = BoundedSemaphore(4)


class NothingToVerify(Refused):
    """This action is not waiting for a reading."""

    code = "NOTHING_TO_VERIFY"


@router.get("/actions", summary="Actions, newest first", response=answers.Page[answers.ActionRow])
@admits(*READERS)
@in_tenancy
def list_actions(request: HttpRequest, wanted: Query[ActionsWanted]) -> HttpResponse:
    caller = caller_of(request)
    filters = wanted.model_dump(exclude={"limit", "cursor"})
    if caller.kind == "agent":
        filters["sessions"] = sessions_queries.sessions_of_key(caller.tenant_id, caller.actor.id)
    found = actions.actions(
        caller.tenant_id, before=paging.decode_cursor(wanted.cursor), limit=wanted.limit + 1, **filters
    )
    return paging.page_response(found, wanted.limit, envelope.action_row)


@router.get(
    "/state-machine",
    summary="The lifecycle's states and legal transitions",
    response=answers.StateMachine,
    by_alias=True,
)
@admits("agent", "exec", "oper", "audit", "person")
def state_machine(request: HttpRequest) -> HttpResponse:
    edges = [
        {"from": str(start), "to": str(target), "grounds": sorted(NEEDS.get((start, target), ()))}
        for start, target in sorted(TRANSITIONS)
    ]
    return json_response({"states": [str(state) for state in State], "transitions": edges})


@router.get(
    "/actions/{action_id}",
    summary="One action: its newest event, status, axes and evidence; waits up to wait_s for a decision",
    response=answers.Action,
)
@admits(*READERS)
def get_action(request: HttpRequest, action_id: UUID, wanted: Query[ActionWanted]) -> HttpResponse:
    """Waiting only reads, each look for itself: when the time is over the answer is how it stands, and no denial."""
    with _may_wait(wanted.wait_s) as patient:
        until = time.monotonic() + (wanted.wait_s if patient else 0)
        while True:
            found = run_once(request, partial(_looked, request, action_id, last=time.monotonic() >= until))
            if found is not None:
                return found
            time.sleep(POLL_S)


def _looked(request: HttpRequest, action_id: UUID, *, last: bool) -> HttpResponse | None:
    shown = envelope.envelope(visible_action(request, action_id), caller_of(request))
    waits = shown["approval"] is not None and shown["approval"]["waiting"]
    return json_response(shown) if last or not waits else None


@contextmanager
def _may_wait(wait_s: int) -> Iterator[bool]:
    # Waiting holds a thread of the server, so only some may; the others are answered at once and ask again.
    patient = wait_s > 0 and _WAITERS.acquire(blocking=False)
    try:
        yield patient
    finally:
        if patient:
            _WAITERS.release()


@router.get("/actions/{action_id}/history", summary="Every event of an action", response=answers.Page[answers.Event])
@admits(*READERS)
@in_tenancy
def get_history(request: HttpRequest, action_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    action = visible_action(request, action_id, or_erased=True)
    history = events.history(caller.tenant_id, action.id)
    if caller.kind == "agent":
        told = [
            {"seq": event.seq, "state": event.state, "event": event.kind, "at": event.at} for event, _, _ in history
        ]
        return json_response({"items": told, "next": None})
    places = log.event_positions(caller.tenant_id, action_id)
    items = [
        envelope.event_document(event, entry, places.get(event.seq)) | {"detail": detail}
        for event, entry, detail in history
    ]
    return json_response({"items": items, "next": None})


@router.get("/actions/{action_id}/report", summary="The only text that may be told to a user", response=answers.Report)
@admits(*READERS)
@in_tenancy
def get_report(request: HttpRequest, action_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    action = visible_action(request, action_id)
    entry, at = events.entry(caller.tenant_id, action.id, action.seq) or {}, timezone.now()
    told = reports.issue_report(action=action, entry=entry, to=caller.actor.id, at=at)
    event = events.event(caller.tenant_id, action.id, action.seq)
    return json_response(
        {
            "code": str(told.code),
            "text": told.text,
            "completed": told.completed,
            "trust_level": told.trust_level,
            "parts": part_rows(told),
            "as_of": instant(at),
            "entry_id": str(event.id),
        }
    )


@router.post(
    "/actions/{action_id}/cancel", summary="Cancel an action that has not started", response=answers.ActionState
)
@admits("agent", "oper", "operator")
@in_tenancy
def cancel(request: HttpRequest, action_id: UUID, body: CancelBody) -> HttpResponse:
    caller = caller_of(request)
    action = visible_action(request, action_id)
    executions.cancel_action(
        tenant_id=caller.tenant_id, action_id=action.id, reason=body.reason, by=caller.actor, at=timezone.now()
    )
    return json_response({"action_id": str(action_id), "state": "FAILED"})


@router.post(
    "/actions/{action_id}/verify", summary="Read the system of record now", response={202: answers.ActionState}
)
@admits("oper", "operator")
@in_tenancy
def verify(request: HttpRequest, action_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    action = visible_action(request, action_id)
    if State(action.state) not in VERIFIABLE_IN or action.settled:
        raise NothingToVerify
    at = timezone.now()
    schedules.schedule(tenant_id=caller.tenant_id, action_id=action.id, due_at=at, priority=5, at=at)
    return json_response({"action_id": str(action_id), "state": action.state}, 202)


def visible_action(request: HttpRequest, action_id: UUID, *, or_erased: bool = False) -> Any:
    """The action, if the caller may see it: an agent key sees those of its own sessions.

    Of one that was erased nothing is left to answer with but its bare events.
    """
    caller = caller_of(request)
    action = actions.action(caller.tenant_id, action_id)
    if action is None:
        raise NotFound
    if caller.kind == "agent":
        session = sessions_queries.session(caller.tenant_id, action.session_id)
        if session is None or session.key_actor != caller.actor.id:
            raise NotFound
    gone = None if or_erased else retention_queries.erased_subject(caller.tenant_id, action_id)
    if gone is not None:
        raise EvidenceErased(f"This was erased under request {gone.erasure_id}; its events stay at /history.")
    return action
