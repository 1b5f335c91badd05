"""The decisions about a disputed action: the deciding rule and its reason, the readings, and the next
automatic step.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from console.actions.action_record import ActionRecord
from console.actions.ways_out import repeat_refusal
from console.web import labels
from ledger.catalogue import queries as catalogue_queries
from ledger.record.rules.encryption import CannotOpen
from reviews import queries as after
from reviews.recovery.rules import recovery_table

if TYPE_CHECKING:
    from reviews.models import Case


def recovery_decision(record: ActionRecord) -> dict[str, Any]:
    """Return the row of the recovery policy that decided, in words: its finding, its action, and what is held."""
    under = _decided_under(record)
    row = _row(record, under)
    decision = record.found.get("decision") or {}
    if decision.get("row") != record.action.recovery_row:
        decision = {}
    wanted = str(decision.get("wanted") or "")
    return {
        "row": record.action.recovery_row,
        "version": under.version if under else "",
        "digest": under.digest if under else "",
        "trigger": row.trigger if row else "",
        "decision": labels.sentence_case(row.action) if row else "",
        "finding": row.finding if row else "",
        "condition": (row.condition or "") if row else "",
        "effects": row.effects if row else (),
        "wanted": labels.WANTED.get(wanted, labels.sentence_case(wanted)) if wanted else "",
        "held_because": decision.get("held_because") or "",
        "why": record.found.get("verdict", {}).get("reason", ""),
    }


def applied_policies(record: ActionRecord) -> list[dict[str, str]]:
    """Under which versions of which policies it was read last and its recovery decided last, with their digests."""
    lines = []
    read = next((entry for _, entry, detail in reversed(record.history) if entry and "run" in (detail or {})), None)
    context = read["policy_context"] if read else {}
    if "verification_policy_digest" in context:
        name = "verification_policy"
        said = {"version": context[f"{name}_version"], "digest": context[f"{name}_digest"]}
        lines.append({"word": "Read under", "kind": "verification"} | said)
    under = _decided_under(record)
    if under is not None:
        said = {"version": under.version, "digest": under.digest}
        lines.append({"word": "Recovery decided under", "kind": "recovery"} | said)
    return lines


def _decided_under(record: ActionRecord) -> Any:
    """The version of the recovery policy whose row decided last; None if no row of a policy did.

    The event of the decision names it. Events from before they did are taken to have been decided under the policy
    that their entry names.
    """
    row = record.action.recovery_row
    for _, entry, detail in reversed(record.history):
        said = detail or {}
        if row and entry is not None and said.get("recovery_row") == row:
            context = entry["policy_context"]
            by_policy = "recovery_table" in said or "recovery_policy_digest" not in context
            version = context["recovery_policy_version"]
            return catalogue_queries.policy_version(record.action.tenant_id, "recovery", version) if by_policy else None
    return None


def _row(record: ActionRecord, under: Any) -> Any:
    """The row in the deciding policy version; for the console's own decisions a built-in row."""
    policy = recovery_table.parse_policy(bytes(under.document)) if under else recovery_table.BUILT_IN
    return next((row for row in policy.rows if row.id == record.action.recovery_row), None)


def unknown_action_panel(record: ActionRecord, case: Case, *, at: datetime) -> dict[str, Any]:
    """The data of an unknown outcome: its age, the next reading, the attempts, and whether it can be repeated."""
    action, planned = record.action, after.schedule_of(record.action.tenant_id, record.action.id)
    return {
        "opened_at": case.opened_at,
        "next_at": planned.due_at if planned else None,
        "overdue": bool(planned and planned.due_at <= at),
        "readings": len(record.runs),
        "attempts": action.attempt_count,
        "repeat": repeat_refusal(action, at=at),
        "horizon_at": action.horizon_at,
    }


def read_back_rows(record: ActionRecord) -> list[dict[str, Any]]:
    """Return the answers of the systems of record, newest first; a run may have queried several sources."""
    return [line for run in reversed(record.runs) for line in _answers(record, run)]


def _answers(record: ActionRecord, run: Any) -> list[dict[str, Any]]:
    try:
        found = after.run_findings(run)
    except CannotOpen:
        found = {}
    failure = found.get("failure") or {}
    shared = {
        "at": run.at,
        "run": run.number,
        "found": failure.get("reason") or found.get("verdict", {}).get("reason", ""),
        "result": labels.sentence_case(run.result),
        "href": record.page("evidence", run.pointer),
    }
    readings = found.get("readings") or [
        {"source": run.source or "no answer", "consistency": run.consistency, "freshness": run.freshness}
    ]
    silent = [
        {"source": each.get("source", ""), "found": each.get("reason", ""), "result": "No answer"}
        for each in found.get("silent") or ()
    ]
    return [
        {
            **shared,
            "at": _parse_time(reading.get("observed_at")) or run.at,
            "source": reading.get("source", ""),
            "found": reading.get("found", shared["found"]),
            "result": reading.get("result", shared["result"]),
            "consistency": reading.get("consistency", ""),
            "freshness": reading.get("freshness", ""),
            "pointer": reading.get("pointer", ""),
            "indicators": [labels.sentence_case(code).lower() for code in reading.get("indicators", ())],
        }
        for reading in [*readings, *silent]
    ]


def _parse_time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
