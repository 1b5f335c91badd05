"""An action and its events as the API shows them (api.md, "The envelope")."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from approvals.gate.operations.actions import CallAnswer
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from console.api.actions.recorded_call import recorded_call
from console.api.auth import Caller
from console.pages.approvals import context
from console.pages.approvals.queue import unanswered_questions
from console.pages.cases.settlement_signing import settlement_of_action
from console.pages.sessions.session_context import part_rows
from console.web import labels
from ledger.actions.queries import actions
from ledger.log.queries import log
from ledger.record.queries import events
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.canonical import digest
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import outcome_of
from reviews.reporting.operations import reports
from reviews.reporting.rules import report as rules

CLOCKS_AGREE = timedelta(seconds=5)
"""How far the clock of the process that wrote an event may be from the database's before the event says so."""


def user_status(tenant_id: UUID, action_id: UUID | None) -> dict[str, str]:
    """What may be told of an action now; a call without one was not executed."""
    action = actions.action(tenant_id, action_id) if action_id else None
    if action is None:
        return {"code": "NOT_EXECUTED", "text": "Not executed. Nothing has been attempted."}
    told = reports.report_on(action, events.entry(tenant_id, action.id, action.seq) or {})
    return {"code": str(told.code), "text": told.text}


def status_of(answer: CallAnswer, tenant_id: UUID) -> dict[str, str]:
    """What may be told of a call's action, which need not be read again when it is new."""
    if answer.entry is None or answer.state is None:
        return user_status(tenant_id, answer.action_id)
    told = reports.report_on_new(State(answer.state), answer.entry)
    return {"code": str(told.code), "text": told.text}


def action_row(action: Any) -> dict[str, Any]:
    """One line of a list of actions."""
    return {
        "action_id": str(action.id),
        "state": action.state,
        "outcome": str(outcome_of(action)),
        "tool": action.tool,
        "tool_version": action.tool_version,
        "agent": action.agent,
        "session_id": str(action.session_id),
        "workflow_run_id": action.run_id,
        "side_effect_class": action.side_effect_class,
        "target": action.target,
        "discrepancy": action.discrepancy or None,
        "discrepancy_settled": bool(action.discrepancy) and labels.is_past_finding(action),
        "contradicted": action.contradicted,
        "proposed_at": instant(action.proposed_at),
        "changed_at": instant(action.changed_at),
    }


def envelope(action: Any, caller: Caller) -> dict[str, Any]:
    """The newest event of an action with all that surrounds it; agents get no entry, actors or evidence."""
    event = events.event(action.tenant_id, action.id, action.seq)
    entry = events.entry(action.tenant_id, action.id, action.seq) or {}
    told = reports.report_on(action, entry)
    shown: dict[str, Any] = action_row(action) | {
        "trust_level": told.trust_level,
        "user_status": {"code": str(told.code), "text": told.text},
        "parts": part_rows(told),
        "settlement": _settlement(action, caller),
        "axes": _axes(action, entry),
        "approval": context.verdict_for_agent(action),
        "supersedes": str(action.supersedes) if action.supersedes else None,
        "pin_hash": _pin_of(action),
        "questions": unanswered_questions(action.tenant_id, [action.id]) if action.state == "VALIDATED" else [],
    }
    if caller.kind == "agent":
        return shown
    place = log.event_position(action.tenant_id, action.id, action.seq)
    evidence = {"evidence": visible_evidence(action, caller)}
    return (
        shown
        | event_document(event, entry, place)
        | evidence
        | {"call": recorded_call(action, caller) if caller.kind != "exec" else None}
    )


def _settlement(action: Any, caller: Caller) -> dict[str, Any] | None:
    """How a person ended the action; an agent learns what was decided and when, and neither by whom nor why."""
    found = settlement_of_action(action, lambda: events.history(action.tenant_id, action.id))
    if found is None:
        return None
    shown = caller.kind != "agent"
    return {
        "resolution": found.resolution,
        "text": labels.RESOLUTIONS.get(found.resolution, (labels.sentence_case(found.resolution), ""))[0],
        "at": instant(found.at),
        "by": str(found.by) if shown else None,
        "confirmed_by": str(found.confirmed_by) if shown and found.confirmed_by else None,
        "reason": found.reason if shown else None,
    }


def _pin_of(action: Any) -> str | None:
    """The pinned goal that an action serves, by its hash (R-PA-12)."""
    session = sessions_queries.session(action.tenant_id, action.session_id)
    return session.pin_hash if session is not None else None


def event_document(event: Any, entry: dict[str, Any] | None, place: log.LogPosition | None) -> dict[str, Any]:
    """One event with its entry, its place in the subject's chain, and its place in the log if it has one yet."""
    return {
        "entry_id": str(event.id),
        "seq": event.seq,
        "state": event.state,
        "event": event.kind,
        "actor": {"kind": event.actor_kind, "id": str(event.actor_id)},
        "at": instant(event.at),
        "recorded_at": instant(event.recorded_at),
        "clocks_differ": abs(event.recorded_at - event.at) > CLOCKS_AGREE,
        "entry": entry,
        "prev_hash": bytes(event.prev).hex() if event.prev else None,
        "entry_hash": bytes(event.entry_hash).hex(),
        "log": {
            "number": place.log if place else None,
            "index": place.index if place else None,
            "sealed": place is not None and place.sealed,
        },
    }


def visible_evidence(action: Any, caller: Caller) -> list[dict[str, Any]]:
    """The evidence of an action; raw output is for compliance only (R-OB-04)."""
    return [
        {
            "pointer": str(each.id),
            "kind": each.purpose,
            "commitment": each.commitment,
            "sha256": None if _closed(each, caller) else _sha256(action.tenant_id, each.id),
            "source": each.source,
            "observed_at": instant(each.observed_at),
            "redacted": _closed(each, caller),
        }
        for each in evidence_queries.evidence_of(action.tenant_id, action.id)
    ]


def _closed(evidence: Any, caller: Caller) -> bool:
    return evidence.purpose == "raw_output" and "compliance" not in caller.roles and caller.kind != "audit"


def _sha256(tenant_id: UUID, pointer: UUID) -> str | None:
    data = evidence_queries.open_evidence(tenant_id, pointer)
    return digest(data) if data is not None else None


def _axes(action: Any, entry: dict[str, Any]) -> dict[str, str]:
    approval = approvals.approval(action.tenant_id, action.approval_id) if action.approval_id else None
    axes = rules.axes(
        State(action.state),
        entry,
        outcome=outcome_of(action),
        approval=approval.state if approval else None,
    )
    return {"decision": axes.decision.text, "execution": axes.execution.text, "effect": axes.effect.text}
