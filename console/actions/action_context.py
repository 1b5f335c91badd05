"""The page of one action: headline, axes, trust, timeline, evidence, record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from approvals.gate import queries as gate_queries
from approvals.sessions import queries as sessions_queries
from console.actions.action_record import ActionRecord, action_timeline, outcome_axes
from console.actions.after_restore import restore_notice
from console.actions.related_actions import find_related
from console.actions.state_comparison import comparison_table, differences
from console.actions.ways_out import repeat_refusal, shown_way_out, usable_controls
from console.approvals.context import payload_fields
from console.cases.decisions import applied_policies
from console.cases.settlement_signing import settlement_of_action, settlement_of_case
from console.edge.auth import Caller
from console.web import labels
from console.web.labels import format_json
from console.web.predicate_sentences import CUSTOM, predicate_sentence
from ledger.actions.queries import actions
from ledger.record.queries import evidence as evidence_queries
from ledger.record.rules.lifecycle import OPEN
from reviews import queries as after
from reviews.reporting.operations.reports import report_on, trust_of
from reviews.reporting.rules import sentences
from reviews.reporting.rules.facts import Facts, Permission

if TYPE_CHECKING:
    from ledger.models import Evidence, Tenant

_UNREAD: Final = "Not checked yet: the system of record has not been read."
_NOT_STARTED: Final = "Not checked: nothing was executed."


def required_checks(record: ActionRecord) -> dict[str, Any]:
    """The table of required checks over the newest run that read something."""
    depth = record.contract.depth
    made = record.found.get("verdict", {}).get("checks", [])
    rows = [
        {"made": one["made"], "word": labels.sentence_case(one["check"]), "by": _check_source(record, one["by"])}
        for one in made
    ]
    note = f"for {labels.side_effect_class_label(record.action.side_effect_class).lower()}"
    if depth.because:
        note += f", deeper because {' and '.join(labels.sentence_case(each).lower() for each in depth.because)}"
    unread = _UNREAD if record.facts.may_have_started else _NOT_STARTED
    return {"rows": rows, "note": note, "unread": unread}


def _check_source(record: ActionRecord, by: str) -> str:
    """The source of a check: a system, or predicates of the contract as sentences."""
    known = {text: predicate_sentence(text, record.contract) for text in record.contract.predicates}
    return "; ".join(text if known.get(text, CUSTOM) == CUSTOM else known[text] for text in by.split("; "))


def action_context(record: ActionRecord, tenant: Tenant, *, caller: Caller, at: datetime) -> dict[str, Any]:
    """The action page's context."""
    action, event = record.action, record.history[-1][0]
    way = shown_way_out(action, slug=record.slug)
    said = report_on(action, record.entry, facts=record.facts)
    return {
        "row": action,
        "title": record.title,
        "refused": _gate_refusal(record),
        "headline": _headline(record),
        "report": said.text,
        "parts": said.parts,
        "settled": _settlement(record),
        "axes": outcome_axes(record),
        "trust": trust_of(action, record.entry),
        "restored": restore_notice(tenant, record, at=at),
        "policies": applied_policies(record),
        "cases": _cases(record),
        "way_out": way,
        "controls": usable_controls(way, caller) if way is not None else (),
        "repeat": repeat_refusal(action, at=at),
        "dirty": actions.workspace_left_dirty(action),
        "layers": comparison_table(record) if record.payload is not None else None,
        "depth": required_checks(record),
        "stages": _stages(record),
        "timeline": action_timeline(record),
        "kin": find_related(record),
        "fields": payload_fields(record),
        "differences": differences(record),
        "canonical": (record.payload or b"").decode(),
        "erased": record.payload is None,
        "evidence": _evidence(record, caller),
        "entry": format_json(record.entry),
        "entry_hash": bytes(event.entry_hash).hex(),
        "prev_hash": bytes(event.prev).hex() if event.prev else "",
        "attempts": record.facts.attempts,
        "payload_note": sentences.payload_note(record.facts).text,
        "run": record.page("actions"),
        "href": {
            "session": record.page("session", action.session_id),
            "run": record.page("run", action.run_id),
            "approval": record.page("approval", action.approval_id) if action.approval_id else "",
            "export": f"{record.page('exports')}?action={action.id}" if "compliance" in caller.roles else "",
        },
    }


def _stages(record: ActionRecord) -> list[LifecycleStage]:
    action = record.action
    session = sessions_queries.session(action.tenant_id, action.session_id)
    return lifecycle_stages(
        record.facts,
        record.history,
        pinned_at=session.pinned_at if session is not None else None,
        told=[each.at for each in after.reports_of(action.tenant_id, action.id)],
    )


_BLOCKED: Final = frozenset({Permission.BLOCKED, Permission.BLOCKED_BY_PREFLIGHT, Permission.BLOCKED_BY_AUTONOMY})


def _gate_refusal(record: ActionRecord) -> dict[str, str] | None:
    """The reason of the gate and what it would have accepted, as its agent was told; None for what it let through."""
    given, action = record.facts.authorization, record.action
    if given.how not in _BLOCKED:
        return None
    detail = next((detail or {} for event, _, detail in record.history if event.seq in given.seqs), {})
    call = gate_queries.call_of(action.tenant_id, action.session_id, action.id)
    return {
        "reason": str(detail.get("reason") or ""),
        "accepted": str((call.result.get("hint") if call is not None else "") or ""),
    }


def _headline(record: ActionRecord) -> str:
    """The summary line, unless the badge beside it has the same text."""
    line = sentences.headline(record.facts, preparing=record.preparing).text
    return "" if line == labels.outcome_label(record.action) else line


def _cases(record: ActionRecord) -> list[dict[str, Any]]:
    case = after.case_of(record.action.tenant_id, record.action.id)
    if case is None:
        return []
    label = labels.case_label(case)
    settlement = settlement_of_case(case, record.history)
    said = settlement.sentence(record.names, record.difference) if settlement else ""
    return [
        {
            "row": case,
            "word": label,
            "href": record.page("case", case.id),
            "open": case.state != "RESOLVED",
            "settled": said,
        }
    ]


def _settlement(record: ActionRecord) -> dict[str, Any] | None:
    """The person's decision that ended the action, and the earlier finding."""
    settlement = settlement_of_action(record.action, lambda: record.history)
    if settlement is None:
        return None
    found = labels.discrepancy_label(record.action.discrepancy) if record.action.discrepancy else ""
    return {"said": settlement.sentence(record.names, record.difference), "at": settlement.at, "found": found}


def _evidence(record: ActionRecord, caller: Caller) -> list[dict[str, Any]]:
    """The evidence that this person may open; raw output is for compliance only."""
    return [
        {
            "row": each,
            "kind": labels.EVIDENCE.get(each.purpose, labels.sentence_case(each.purpose)),
            "href": record.page("evidence", each.id) if may_open_evidence(each, caller) else "",
        }
        for each in reversed(evidence_queries.evidence_of(record.action.tenant_id, record.action.id))
    ]


def may_open_evidence(evidence: Evidence, caller: Caller) -> bool:
    """Return True if this person may open raw evidence, which can contain anything: only compliance may."""
    return evidence.purpose != "raw_output" or "compliance" in caller.roles


@dataclass(frozen=True, slots=True)
class LifecycleStage:
    """One of the eight stages of an action; `at` is None if the action has not reached it."""

    name: str
    means: str
    at: datetime | None


_COMPARED: Final = frozenset(
    {"reconciled", "partially_reconciled", "reconciliation_failed", "answered", "answer_refused"}
)


def lifecycle_stages(
    facts: Facts, history: Iterable[tuple[Any, Any, Any]], *, pinned_at: datetime | None, told: Iterable[datetime]
) -> list[LifecycleStage]:
    """The eight stages (R-CX-01) in order, from an action's facts and events, its session's pin, and its reports.

    A report that was given before the action came to stand as it does, or before an attempt that may still come, is not
    the report of its outcome.
    """
    at = {event.seq: event.at for event, _, _ in history}
    first: dict[str, datetime] = {}
    for event, _, _ in history:
        first.setdefault(event.kind, event.at)
    answers = [answer.at for attempt in facts.attempts for answer in attempt.answers]
    read = [reading.at for reading in facts.readings if reading.is_decisive]
    compared = [first[kind] for kind in _COMPARED if kind in first]
    has_outcome = facts.attempts or facts.state not in OPEN
    reported = [each for each in told if has_outcome and each >= at[facts.reached_at]]
    return [
        LifecycleStage("Planned", "the goal was pinned", pinned_at),
        LifecycleStage("Proposed", "the agent requested it", first.get("proposed")),
        LifecycleStage("Validated", "the gate accepted it", first.get("validated")),
        LifecycleStage("Attempted", "an executor started it", first.get("execution_started")),
        LifecycleStage("Observed", "the tool answered", min(answers, default=None)),
        LifecycleStage("Verified", "a decisive reading of the system of record was taken", min(read, default=None)),
        LifecycleStage("Reconciled", "what was found was compared with what was intended", min(compared, default=None)),
        LifecycleStage("Reported", "its outcome was reported", min(reported, default=None)),
    ]
