"""What a person is shown before they settle a case: what was wanted, what was found, and what they may decide."""

from __future__ import annotations

from typing import Any

from console import words
from console.account import Account, account, axes, timeline
from console.api.caller import Caller
from console.layers import layers, predicates
from ledger import queries as record
from ledger.rules.sealing import CannotOpen
from reviews import queries as after
from reviews.operations.cases import held_of
from reviews.operations.reports import report_on
from reviews.rules import recovery_table, resolutions

_ROWS = {row.id: row for row in recovery_table.ROWS}


def dispute(tenant: Any, case: Any, *, caller: Caller) -> dict[str, Any]:
    """The case page's context: nothing in it is decided here."""
    action = record.action(tenant.id, case.action_id)
    assert action is not None
    told = account(tenant, action)
    policy = _policy(told)
    label, definition = words.DISCREPANCIES.get(case.discrepancy, (words.sentence(case.reason), ""))
    return {
        "row": case,
        "action": action,
        "title": told.title,
        "label": label,
        "definition": definition or policy["finding"].capitalize(),
        "owner": told.names.get(case.claimed_by, "") if case.claimed_by else "",
        "report": report_on(action, told.entry).text,
        "axes": axes(told),
        "policy": policy,
        "layers": layers(told),
        "predicates": predicates(told),
        "readbacks": _readbacks(told),
        "timeline": timeline(told),
        "comments": [
            {"by": told.names.get(each.author, "somebody"), "at": each.at, "text": each.text}
            for each in after.comments_of(tenant.id, case.id)
        ],
        "incidents": after.incidents_of(tenant.id, action.id),
        "freezes": _freezes(told),
        "page": {
            name: told.page(f"case-{name}", case.id) for name in ("claim", "release", "comment", "resolve", "confirm")
        },
        "href": {name: told.page(name, key) for name, key in _links(action)},
        **_choices(told, case, caller),
    }


def _links(action: Any) -> list[tuple[str, Any]]:
    links = [("action", action.id), ("session", action.session_id)]
    return [*links, ("approval", action.approval_id)] if action.approval_id else links


def _choices(told: Account, case: Any, caller: Caller) -> dict[str, Any]:
    """What this person may do now; the rules are asked again when they do it."""
    works = "operator" in caller.roles and case.state != "RESOLVED"
    mine = case.claimed_by == caller.actor.id
    held = held_of(case)
    allowed = resolutions.allowed(held)
    return {
        "may_claim": works and case.claimed_by is None,
        "may_release": works and mine,
        "may_settle": works and case.state == "OPEN" and bool(allowed),
        "may_confirm": _may_confirm(case, caller),
        "may_comment": bool({"operator", "reviewer", "compliance"} & caller.roles),
        "why_not": _why_not(case, caller, allowed),
        "resolutions": [_resolution(held, each) for each in allowed],
        "proposed": _proposed(told, case) if case.state == "AWAITING_SECOND" else None,
        "settled": _settled(told, case) if case.state == "RESOLVED" else None,
    }


def _may_confirm(case: Any, caller: Caller) -> bool:
    second = bool({"operator", "reviewer"} & caller.roles) and case.proposed_by != caller.actor.id
    return case.state == "AWAITING_SECOND" and second


def _resolution(held: Any, resolution: Any) -> dict[str, Any]:
    word, text = words.RESOLUTIONS[resolution]
    return {"code": str(resolution), "word": word, "text": text, "second": resolutions.needs_second(held, resolution)}


def _why_not(case: Any, caller: Caller, allowed: tuple[Any, ...]) -> str:
    if case.state == "AWAITING_SECOND":
        return "Another operator or a reviewer must confirm this; nobody confirms their own proposal."
    if "operator" not in caller.roles:
        return "Only operators settle cases."
    return "" if allowed else "The action is in no state that a person may settle; it is being read again."


def _proposed(told: Account, case: Any) -> dict[str, Any]:
    return {
        "word": words.RESOLUTIONS[case.proposed_resolution][0],
        "by": told.names.get(case.proposed_by, "somebody"),
        "reason": case.proposed_reason,
        "evidence": case.proposed_evidence,
    }


def _settled(told: Account, case: Any) -> dict[str, Any]:
    """Who settled it, why and on what: from the action's own history."""
    for _, _, detail in reversed(told.history):
        if detail and detail.get("case_id") == str(case.id) and detail.get("resolution"):
            by = {str(actor): name for actor, name in told.names.items()}
            return {
                "word": words.RESOLUTIONS[case.resolution][0],
                "by": by.get(detail["by"], "somebody"),
                "second": by.get(detail["confirmed_by"] or "", ""),
                "reason": detail["reason"],
                "evidence": detail["evidence"],
                "at": case.resolved_at,
            }
    return {"word": words.sentence(case.resolution), "at": case.resolved_at}


def _policy(told: Account) -> dict[str, Any]:
    """The row of the recovery table that decided, and why it was held."""
    row = _ROWS.get(told.action.recovery_row)
    decision = told.found.get("decision", {})
    return {
        "row": told.action.recovery_row,
        "version": told.entry["policy_context"]["recovery_policy_version"],
        "decision": words.sentence(row.action) if row else "",
        "finding": row.finding if row else "",
        "condition": row.condition if row else "",
        "why": decision.get("held_because") or told.found.get("verdict", {}).get("reason", ""),
    }


def _readbacks(told: Account) -> list[dict[str, Any]]:
    """What the system of record answered, newest first."""
    return [_readback(told, run) for run in reversed(told.runs)]


def _readback(told: Account, run: Any) -> dict[str, Any]:
    try:
        found = after.findings(run)
    except CannotOpen:
        found = {}
    reading = (found.get("readings") or [{}])[0]
    failure = found.get("failure") or {}
    return {
        "at": run.at,
        "source": run.source or "no answer",
        "consistency": run.consistency,
        "freshness": run.freshness,
        "found": failure.get("reason") or found.get("verdict", {}).get("reason", ""),
        "pointer": reading.get("pointer", ""),
        "href": told.page("evidence", run.pointer),
    }


def _freezes(told: Account) -> list[Any]:
    action = told.action
    covered = {("agent", action.agent), ("tool", action.tool), ("target", action.target)}
    return [each for each in record.freezes_in_force(action.tenant_id) if (each.scope, each.value) in covered]
