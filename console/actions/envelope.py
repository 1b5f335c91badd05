"""An action and its events as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone

from approvals.gate.operations.actions import CallAnswer
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from approvals.voting.queries import votes
from console.actions import ways_out
from console.actions.action_record import parse_arguments, payload_of
from console.actions.schemas import (
    Action,
    ActionRow,
    Actor,
    Axes,
    Evidence,
    LogPlace,
    Question,
    RecordedCall,
    Report,
    Settlement,
    UserStatus,
)
from console.approvals import context
from console.cases.settlement_signing import settlement_of_action
from console.edge.auth import Caller, caller_of
from console.edge.transaction import note_access
from console.web import labels
from ledger.actions.queries import actions
from ledger.log.queries import log
from ledger.record.queries import events
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.canonical import digest
from ledger.record.rules.encryption import CannotOpen, EvidenceErased
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import outcome_of
from reviews import queries as after
from reviews.reporting.operations import reports, session_reports
from reviews.reporting.queries import facts_of
from reviews.reporting.rules import report as rules
from reviews.reporting.rules import sentences
from reviews.reporting.rules.facts import Facts

if TYPE_CHECKING:
    from ledger import models

CLOCKS_AGREE = timedelta(seconds=5)
"""How far the clock of the process that wrote an event may be from the database's before the event says so."""


def user_status(tenant_id: UUID, action_id: UUID | None) -> UserStatus:
    """The text about an action for users; a call without an action was not executed."""
    action = actions.action(tenant_id, action_id) if action_id else None
    if action is None:
        return UserStatus(code="NOT_EXECUTED", text="Not executed. Nothing has been attempted.")
    return UserStatus.of(reports.report_on(action, events.entry(tenant_id, action.id, action.seq) or {}))


def status_of(answer: CallAnswer, tenant_id: UUID) -> UserStatus:
    """The text about a call's action for users; a new action need not be read again."""
    if answer.entry is None or answer.state is None:
        return user_status(tenant_id, answer.action_id)
    return UserStatus.of(reports.report_on_new(State(answer.state), answer.entry))


def issue_report(request: HttpRequest, latest: actions.LatestEvent, *, at: datetime) -> Report:
    """Return the present report on an action and record that the caller got it."""
    action, event_id, entry = latest
    told = reports.report_on(action, entry or {})
    to: dict[str, Any] = {"tenant_id": action.tenant_id, "to": caller_of(request).actor.id, "at": at}
    note_access(request, session_reports.remember_reports, told=[(action, told)], **to)
    return Report.of(
        told, state=action.state, outcome=outcome_of(action), parts=list(told.parts), as_of=at, entry_id=event_id
    )


def envelope(action: models.Action, caller: Caller) -> Action:
    """Return the newest event of an action with its related records; agents get no entry, actors or evidence."""
    entry = events.entry(action.tenant_id, action.id, action.seq) or {}
    facts = facts_of(action, entry)
    told = reports.report_on(action, entry, facts=facts)
    difference = facts.last_reading.difference
    shown = dict(ActionRow.of(action)) | {
        "trust_level": told.trust_level,
        "user_status": told,
        "parts": list(told.parts),
        "settlement": _settlement(action, caller, difference),
        "axes": _axes(action, facts),
        "accepted": difference if told.code is rules.StatusCode.ACCEPTED_AS_IT_IS else None,
        "approval": context.verdict_for_agent(action),
        "way_out": _way_out(action, caller),
        "repeat_refused": ways_out.repeat_refusal(action, at=timezone.now()),
        "workspace_dirty_by": dirty.id if (dirty := actions.workspace_left_dirty(action)) is not None else None,
        "supersedes": action.supersedes,
        "pin_hash": _pin_of(action),
        "questions": unanswered_questions(action.tenant_id, [action]),
    }
    if caller.kind == "agent":
        return Action(**shown)
    event = events.event(action.tenant_id, action.id, action.seq)
    place = log.event_position(action.tenant_id, action.id, action.seq)
    return Action(
        **shown
        | event_fields(event, entry, place)
        | {
            "evidence": visible_evidence(action, caller),
            "call": recorded_call(action, caller) if caller.kind != "exec" else None,
        }
    )


def _way_out(action: models.Action, caller: Caller) -> ways_out.ShownWayOut | None:
    """Return the next party to act; an agent is shown its own controls, everybody else all of them."""
    shown = ways_out.shown_way_out(action)
    if shown is None or caller.kind != "agent":
        return shown
    return replace(shown, controls=ways_out.usable_controls(shown, caller))


def unanswered_questions(tenant_id: UUID, asked: Iterable[Any]) -> list[Question]:
    """The unanswered questions to the agent about actions awaiting approval."""
    waiting = [action.id for action in asked if action.state == "VALIDATED"]
    return [
        Question(question_id=line.id, action_id=action_id, text=line.text, at=line.at)
        for action_id, lines in (votes.open_questions(tenant_id, waiting).items() if waiting else ())
        for line in lines
    ]


def _settlement(action: models.Action, caller: Caller, difference: str) -> Settlement | None:
    """Return the person's decision that ended the action; an agent is given its content and time, without the person or
    the reason.
    """
    found = settlement_of_action(action, lambda: events.history(action.tenant_id, action.id))
    if found is None:
        return None
    hidden = {"by": None, "confirmed_by": None, "reason": None} if caller.kind == "agent" else {}
    text = labels.resolution_label(found.resolution, difference)
    return Settlement.of(found, text=text, **hidden)


def _pin_of(action: models.Action) -> str | None:
    """The pinned goal that an action serves, by its hash (R-PA-12)."""
    session = sessions_queries.session(action.tenant_id, action.session_id)
    return session.pin_hash if session is not None else None


def event_fields(event: models.Event, entry: dict[str, Any] | None, place: log.LogPosition | None) -> dict[str, Any]:
    """One event with its entry, its position in the subject's chain, and its log index once it is sealed."""
    return {
        "entry_id": str(event.id),
        "seq": event.seq,
        "state": event.state,
        "event": event.kind,
        "actor": Actor(kind=event.actor_kind, id=event.actor_id),
        "at": event.at,
        "recorded_at": event.recorded_at,
        "clocks_differ": abs(event.recorded_at - event.at) > CLOCKS_AGREE,
        "entry": entry,
        "prev_hash": bytes(event.prev).hex() if event.prev else None,
        "entry_hash": bytes(event.entry_hash).hex(),
        "log": LogPlace(number=place.log, index=place.index, sealed=place.sealed)
        if place
        else LogPlace(number=None, index=None, sealed=False),
    }


def visible_evidence(action: models.Action, caller: Caller) -> list[Evidence]:
    """The evidence of an action; raw output is for compliance only (R-OB-04)."""
    found = []
    for each in evidence_queries.evidence_of(action.tenant_id, action.id):
        is_closed = _is_closed_to(each, caller)
        sha256 = None if is_closed else _sha256(action.tenant_id, each.id)
        found.append(Evidence.of(each, sha256=sha256, redacted=is_closed))
    return found


def _is_closed_to(evidence: models.Evidence, caller: Caller) -> bool:
    return evidence.purpose == "raw_output" and "compliance" not in caller.roles and caller.kind != "audit"


def _sha256(tenant_id: UUID, pointer: UUID) -> str | None:
    try:
        data = evidence_queries.open_evidence(tenant_id, pointer)
    except CannotOpen:
        return None
    return digest(data) if data is not None else None


def _axes(action: models.Action, facts: Facts) -> Axes:
    approval = approvals.approval(action.tenant_id, action.approval_id) if action.approval_id else None
    axes = sentences.axes(facts, preparing=approval is not None and approval.state == "PREPARING")
    return Axes(decision=axes.decision.text, execution=axes.execution.text, effect=axes.effect.text)


def recorded_call(action: models.Action, caller: Caller) -> RecordedCall:
    """The action as the record of one tool call (R-TC-13): request and answer, always in this shape (R-OB-01).

    The idempotency key is known by its hash (R-EX-16).

    A tool's own words on what went wrong are raw output, which is for compliance (C-32).
    """
    kept = actions.idempotency(action.tenant_id, action.id)
    answer = after.last_observation(action.tenant_id, action.id)
    result = _result(answer)
    error = result.get("error") if isinstance(result.get("error"), dict) else None
    if error is not None and "compliance" not in caller.roles and caller.kind != "audit":
        error = {name: part for name, part in error.items() if name != "message"}
    return RecordedCall(
        tool=action.tool,
        arguments=_arguments(action),
        status=answer.status if answer is not None else None,
        success=answer.claimed_success if answer is not None else None,
        result={name: part for name, part in result.items() if name != "error"} if answer is not None else None,
        error=error,
        trace_id=action.trace_id,
        timestamp=answer.at if answer is not None else action.proposed_at,
        idempotency_key=kept.key_hash if kept is not None else None,
    )


def _arguments(action: models.Action) -> dict[str, Any] | None:
    try:
        payload = payload_of(action)
    except EvidenceErased:
        return None
    return parse_arguments(payload) if payload is not None else None


def _result(answer: Any) -> dict[str, Any]:
    try:
        found = after.observation_document(answer).get("result") if answer is not None else {}
    except (CannotOpen, EvidenceErased):
        return {}
    return found if isinstance(found, dict) else {"unreadable": True}
