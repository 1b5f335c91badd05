"""Changes of an action's target between the baseline reading and now."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.requests.operations import target_drift
from approvals.requests.rules.preflight import render_value
from console.web import labels
from ledger.actions.queries import readings
from ledger.catalogue.rules.money import format_money
from ledger.record.rules.envelope import instant

if TYPE_CHECKING:
    from approvals.models import Approval
    from console.actions.action_record import ActionRecord
    from ledger.models import Event
    from ledger.record import operations as ledger

    # The events of an approval in order, each with its entry and detail.
    History = list[tuple[Event, dict[str, Any] | None, dict[str, Any] | None]]

MOST = 40
_SUMS = frozenset({"amount", "total", "refunded", "amount_refunded", "captured", "paid", "balance", "price"})
_UNKNOWN: dict[str, Any] = {"known": False, "digest": None, "preflight": [], "touches": None, "raises": []}
_HOLDS = {"TRUE": ("tick", "holds"), "FALSE": ("cross", "does not hold"), "UNDECIDABLE": ("question", "unknown")}


def request_reading(approval: Approval, *, roles: frozenset[str], by: ledger.Actor, at: datetime) -> bool:
    """Ask for a reading because a reviewer opens the approval; whether one was asked for."""
    return "reviewer" in roles and target_drift.request_reading(approval=approval, by=by, at=at)


def baseline_document(approval: Approval, history: History) -> dict[str, Any] | None:
    """The state that people were asked on, as the API tells it; None where the contract asks for none."""
    requested = [detail for event, _, detail in history if event.kind == "approval_requested" and detail]
    before = (requested[-1].get("before") if requested else None) or {}
    if not before and approval.baseline_pointer is None and not target_drift.needs_reading(approval):
        return None
    taken = target_drift.baseline_of(approval)
    return {
        "known": taken is not None,
        "digest": approval.baseline_digest or None,
        "pointer": str(approval.baseline_pointer) if approval.baseline_pointer else None,
        "source": taken.state.source if taken else None,
        "read_at": instant(taken.state.observed_at) if taken else None,
        "fields": [{"field": ".".join(path), "value": value} for path, value in _leaves(taken)],
        "preflight": before.get("preflight", []),
        "touches": before.get("touches"),
        "raises": before.get("raises", []),
    }


def drift_panel(record: ActionRecord, approval: Approval, history: History) -> dict[str, Any] | None:
    """The panel of the approval page."""
    known = baseline_document(approval, history)
    if known is None and not target_drift.can_show_target(approval):
        return None
    is_wanted, known = known is not None, known or _UNKNOWN
    taken, newest = (
        target_drift.baseline_of(approval),
        target_drift.newest_reading(approval.tenant_id, approval.action_id),
    )
    found = target_drift.drift_since_request(approval)
    shown = newest or taken
    return {
        "known": known["known"] or not is_wanted,
        "compared": known["known"],
        "shown": target_fields(shown),
        "shown_at": shown.state.observed_at if shown else None,
        "shown_of": shown.state.source if shown else "",
        "preparing": approval.state == "PREPARING",
        "read_at": taken.state.observed_at if taken else None,
        "looked_at": newest.state.observed_at if newest and newest.pointer != approval.baseline_pointer else None,
        "reading": readings.is_reading_wanted(approval.tenant_id, approval.action_id),
        "fields": target_fields(taken),
        "left_out": max(0, len(_leaves(taken)) - MOST),
        "digest": known["digest"],
        "href": record.page("evidence", approval.baseline_pointer) if approval.baseline_pointer else "",
        "preflight": [_condition(each) for each in known["preflight"]],
        "touches": known["touches"],
        "raises": [labels.RAISES.get(each, each) for each in known["raises"]],
        "drift": _differences([each.document() for each in found.differences]) if found else [],
        "material": bool(found and found.material),
        "untold": found.untold if found else (),
        **_replacements(record, approval),
    }


def target_fields(taken: target_drift.TakenReading | None) -> list[dict[str, str]]:
    """The fields of the target in a reading, in words; whole numbers of minor units as money."""
    leaves = dict(_leaves(taken)[:MOST])
    return [
        {
            "field": ".".join(path),
            "word": " ".join(path[path[:1] == ("target",) :]).replace("_", " ").capitalize(),
            "value": render_value(value),
            "reading": format_money(value, leaves.get((*path[:-1], "currency"))) if path[-1] in _SUMS else "",
        }
        for path, value in leaves.items()
    ]


def _differences(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "then": _side(each["then"]), "now": _side(each["now"])} for each in found]


def _side(value: str | None) -> str:
    return "not there" if value is None else render_value(value)


def _condition(each: dict[str, Any]) -> dict[str, Any]:
    icon, word = _HOLDS[each["truth"]]
    read = "; ".join(f"{path} is {value}" for path, value in each["read"].items())
    return {"icon": icon, "word": word, "text": each["holds"], "read": read or each["reason"]}


def _replacements(record: ActionRecord, approval: Approval) -> dict[str, Any]:
    """The approval that this one replaced, or that replaced it, because the target changed."""
    asked = [detail for event, _, detail in record.history if event.kind == "approval_asked_again" and detail]
    came = next((each for each in asked if each["approval_id"] == str(approval.id)), None)
    gone = next((each for each in asked if each["instead_of"] == str(approval.id)), None)
    return {
        "came_of": _differences(came["changed"]) if came else [],
        "earlier": record.page("approval", UUID(came["instead_of"])) if came else "",
        "later": record.page("approval", UUID(gone["approval_id"])) if gone else "",
        "gone_for": _differences(gone["changed"]) if gone else [],
    }


def _leaves(taken: target_drift.TakenReading | None) -> list[tuple[tuple[str, ...], Any]]:
    return sorted(taken.state.leaves.items()) if taken else []
