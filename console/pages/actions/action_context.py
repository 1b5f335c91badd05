"""The whole story of one action, as its page tells it: headline, axes, trust, timeline, evidence, record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from approvals.sessions import queries as sessions_queries
from console.api.auth import Caller
from console.pages.actions.action_record import ActionRecord, action_timeline, format_json, outcome_axes
from console.pages.actions.lifecycle_stages import LifecycleStage, lifecycle_stages
from console.pages.actions.related_actions import find_related
from console.pages.actions.state_comparison import differences
from console.pages.approvals.context import payload_fields
from console.pages.cases.decisions import applied_policies
from console.pages.cases.settlement_signing import settlement_of_action, settlement_of_case
from console.web import labels
from console.web.predicate_sentences import CUSTOM, predicate_sentence
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import outcome_of
from reviews import queries as after
from reviews.reporting.operations.reports import report_on, trust_of
from reviews.reporting.rules import report
from reviews.verification.rules.verification import VERIFIABLE_IN

if TYPE_CHECKING:
    from ledger.models import Action, Evidence

# What an action's class requires, as pages and the API show it: each check of a run, made or not, and by what.


def required_checks(told: ActionRecord) -> dict[str, Any]:
    """The table of required checks over the newest run that read something."""
    depth = told.contract.depth
    made = told.found.get("verdict", {}).get("checks", [])
    rows = [
        {"made": one["made"], "word": labels.sentence_case(one["check"]), "by": _by(told, one["by"])} for one in made
    ]
    note = f"for {labels.side_effect_class_label(told.action.side_effect_class).lower()}"
    if depth.because:
        note += f", deeper because {' and '.join(labels.sentence_case(each).lower() for each in depth.because)}"
    return {"rows": rows, "note": note}


def _by(told: ActionRecord, by: str) -> str:
    """What made a check: a source, or predicates of the contract as sentences."""
    known = {text: predicate_sentence(text, told.contract) for text in told.contract.predicates}
    return "; ".join(text if known.get(text, CUSTOM) == CUSTOM else known[text] for text in by.split("; "))


def action_context(told: ActionRecord, *, caller: Caller) -> dict[str, Any]:
    """The action page's context."""
    action, event = told.action, told.history[-1][0]
    approval = told.approval.state if told.approval else None
    said = report_on(action, told.entry)
    return {
        "row": action,
        "title": told.title,
        "headline": _headline(action, told.entry, approval),
        "report": said.text,
        "parts": said.parts,
        "settled": _settled(told),
        "axes": outcome_axes(told),
        "trust": trust_of(action, told.entry),
        "policies": applied_policies(told),
        "cases": _cases(told),
        "depth": required_checks(told),
        "stages": _stages(told),
        "timeline": action_timeline(told),
        "kin": find_related(told),
        "fields": payload_fields(told),
        "differences": differences(told),
        "canonical": (told.payload or b"").decode(),
        "erased": told.payload is None,
        "evidence": _evidence(told, caller),
        "entry": format_json(told.entry),
        "entry_hash": bytes(event.entry_hash).hex(),
        "prev_hash": bytes(event.prev).hex() if event.prev else "",
        "attempts": told.attempts,
        "run": told.page("actions"),
        "href": {
            "session": told.page("session", action.session_id),
            "run": told.page("run", action.run_id),
            "approval": told.page("approval", action.approval_id) if action.approval_id else "",
            "verify": told.page("action-verify", action.id) if _may_verify(action, caller) else "",
        },
    }


def _stages(told: ActionRecord) -> list[LifecycleStage]:
    action = told.action
    session = sessions_queries.session(action.tenant_id, action.session_id)
    reports = after.reports_of(action.tenant_id, action.id)
    return lifecycle_stages(
        told.history,
        pinned_at=session.pinned_at if session is not None else None,
        told_at=min((each.at for each in reports), default=None),
    )


def _headline(action: Action, entry: dict[str, Any], approval: str | None) -> str:
    """The one line that sums it up, unless the badge beside it says the same."""
    line = report.headline(State(action.state), entry, outcome=outcome_of(action), approval=approval)
    return "" if line == labels.outcome_label(action) else line


def _may_verify(action: Action, caller: Caller) -> bool:
    return "operator" in caller.roles and State(action.state) in VERIFIABLE_IN and not action.settled


def _cases(told: ActionRecord) -> list[dict[str, Any]]:
    case = after.case_of(told.action.tenant_id, told.action.id)
    if case is None:
        return []
    label = labels.discrepancy_label(case.discrepancy) if case.discrepancy else labels.case_reason_label(case.reason)
    settlement = settlement_of_case(case, told.history)
    said = settlement.sentence(told.names) if settlement else ""
    return [
        {
            "row": case,
            "word": label,
            "href": told.page("case", case.id),
            "open": case.state != "RESOLVED",
            "settled": said,
        }
    ]


def _settled(told: ActionRecord) -> dict[str, Any] | None:
    """How a person ended the action, and what had been found before that."""
    settlement = settlement_of_action(told.action, lambda: told.history)
    if settlement is None:
        return None
    found = labels.discrepancy_label(told.action.discrepancy) if told.action.discrepancy else ""
    return {"said": settlement.sentence(told.names), "at": settlement.at, "found": found}


def _evidence(told: ActionRecord, caller: Caller) -> list[dict[str, Any]]:
    """What may be opened by this person: raw output is for compliance only."""
    return [
        {
            "row": each,
            "kind": labels.EVIDENCE.get(each.purpose, labels.sentence_case(each.purpose)),
            "href": told.page("evidence", each.id) if may_open_evidence(each, caller) else "",
        }
        for each in reversed(evidence_queries.evidence_of(told.action.tenant_id, told.action.id))
    ]


def may_open_evidence(evidence: Evidence, caller: Caller) -> bool:
    """Raw tool output can hold anything, so only compliance opens it."""
    return evidence.purpose != "raw_output" or "compliance" in caller.roles
