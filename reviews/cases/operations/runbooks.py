"""Ticks steps of runbooks; each tick and each removed tick is an event of the case or incident."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.record import operations as ledger
from ledger.record.queries import events
from reviews.cases.operations import cases
from reviews.cases.rules import runbooks
from reviews.incidents import operations as incidents_operations


def set_step(
    *,
    tenant_id: UUID,
    kind: str,
    subject_id: UUID,
    runbook: str,
    step: str,
    done: bool,
    evidence: str,
    by: ledger.Actor,
    at: datetime,
) -> None:
    """Tick a step of a case's or incident's runbook with its evidence, or remove the tick with a reason."""
    runbooks.find_step(runbook, step)
    locked = cases.lock_case if kind == "case" else incidents_operations.lock_incident
    head, _ = locked(tenant_id, subject_id)
    if ((runbook, step) in step_statuses(tenant_id, subject_id)) == done:
        raise runbooks.StepUnchanged
    happening = ledger.NewEvent(
        kind=runbooks.TICKED if done else runbooks.UNTICKED,
        detail={"runbook": runbook, "step": step, "evidence": evidence},
    )
    ledger.append(head, happening, actor=by, at=at)


def step_statuses(tenant_id: UUID, subject_id: UUID) -> dict[tuple[str, str], Any]:
    """The ticks of a case or incident, from its events."""
    return ticks_from_history(events.history(tenant_id, subject_id))


def ticks_from_history(history: list[Any]) -> dict[tuple[str, str], Any]:
    """The same from events that are already loaded."""
    return runbooks.ticks_by_step((event.kind, event.actor_id, event.at, detail or {}) for event, _, detail in history)
