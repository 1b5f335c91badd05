"""The corrections of an action and the rows that its case is about, for the case's page and for the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from console.web import labels
from ledger.actions.queries import actions, runs
from ledger.catalogue.rules.remedies import Relation
from ledger.catalogue.rules.targets import target_text
from ledger.record.rules.outcomes import outcome_of
from reviews.reconciliation.rules.difference import effect_names, shown_rows

if TYPE_CHECKING:
    from ledger.models import Action


def corrections_of(tenant_id: UUID, action_id: UUID) -> list[dict[str, Any]]:
    """The corrections that were ordered for an action, oldest first, each with its action and a sentence about it."""
    orders = runs.order_details(tenant_id, action_id)
    return [
        _correction(detail, actions.child_of(tenant_id, event_id))
        for event_id, detail in orders.items()
        if detail["relation"] == Relation.CORRECTION
    ]


def _correction(detail: Mapping[str, Any], action: Action | None) -> dict[str, Any]:
    shared = {"tool": detail["tool"], "action_id": None, "target": "", "outcome": None}
    if detail["refused"]:
        return shared | {"said": f"The gate blocked {detail['tool']}: {detail['refused']['reason']}"}
    if action is None:
        return shared | {"said": f"{detail['tool']} is ordered and has not passed the gate yet."}
    outcome = labels.outcome_label(action)
    said = f"{action.tool} on {target_text(action.target)}: {outcome}."
    return shared | {
        "action_id": action.id,
        "target": action.target,
        "outcome": str(outcome_of(action)),
        "said": said,
    }


def rows_in_question(findings: Mapping[str, Any]) -> list[str]:
    """The names of the rows that a run's readings show of its effects, as "refund 3"; of one without an id none."""
    effects, readings = findings.get("verdict", {}).get("effects") or (), findings.get("readings") or ()
    if not readings:
        return []
    rows = [(each["name"], shown_rows(readings[0], each["name"])) for each in effects]
    return [name for effect, found in rows for name in effect_names(effect, found)]
