"""Traces from the record. None is stored: each is derived when it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.record.queries import events
from reviews import queries
from reviews.tracing.rules.spans import ActionTrace, Step, ToldReport, trace_of_action

if TYPE_CHECKING:
    from ledger.models import Action


def trace_of(action: Action) -> ActionTrace | None:
    """Return the trace of an action so far; None if it was erased."""
    steps = [
        Step(
            id=event.id,
            seq=event.seq,
            kind=event.kind,
            state=event.state,
            from_state=event.from_state,
            at=event.at,
            recorded_at=event.recorded_at,
            actor_kind=event.actor_kind,
            entry=entry or {},
            detail=detail or {},
        )
        for event, entry, detail in events.history(action.tenant_id, action.id)
    ]
    reports = [
        ToldReport(each.id, each.event_id, each.code, each.completed, each.at)
        for each in queries.reports_of(action.tenant_id, action.id)
    ]
    return trace_of_action(steps, reports, ordered_by=action.ordered_by)
