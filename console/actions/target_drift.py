"""Changes of an action's target between the baseline reading and now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.requests.operations import target_drift
from approvals.requests.rules.preflight import render_value
from console.actions.action_record import ActionRecord, parse_arguments
from console.web import labels
from ledger.actions.queries import readings
from ledger.catalogue.rules.money import format_money
from ledger.catalogue.rules.previews import Preview
from ledger.catalogue.rules.report_templates import at_path
from ledger.record.rules.envelope import instant

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Event
    from ledger.record import operations as ledger

    # The events of an approval in order, each with its entry and detail.
    History = list[tuple[Event, dict[str, Any] | None, dict[str, Any] | None]]

MOST = 40
_SUMS = frozenset({"amount", "total", "refunded", "amount_refunded", "captured", "paid", "balance", "price"})
_UNKNOWN: dict[str, Any] = {"known": False, "digest": None, "preflight": [], "touches": None, "raises": []}
_HOLDS = {"TRUE": ("tick", "holds"), "FALSE": ("cross", "does not hold"), "UNDECIDABLE": ("question", "unknown")}


def request_reading(approval: Approval, *, roles: frozenset[str], by: ledger.Actor, at: datetime) -> bool:
    """Request a reading because a reviewer opens the approval; return True if one was requested."""
    return "reviewer" in roles and target_drift.request_reading(approval=approval, by=by, at=at)


def is_unread(approval: Approval) -> bool:
    """Return whether approving takes an acknowledgement that the target has not been read."""
    if approval.state != "REQUESTED":
        return False
    return target_drift.is_unread(approval, readings.target_reading(approval.tenant_id, approval.action_id))


def baseline_document(approval: Approval, history: History) -> dict[str, Any] | None:
    """The baseline of the request, as the API returns it; None if the contract requires none."""
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
    preview = record.contract.preview
    if known is None and not target_drift.can_show_target(approval) and not preview.lost:
        return None
    is_wanted, known = known is not None, known or _UNKNOWN
    taken, newest = (
        target_drift.baseline_of(approval),
        target_drift.newest_reading(approval.tenant_id, approval.action_id),
    )
    found = target_drift.drift_since_request(approval)
    shown, reading = newest or taken, record.facts.target
    return {
        "known": known["known"] or not is_wanted,
        "compared": known["known"],
        "preview": preview_rows(preview, shown, parse_arguments(record.payload)),
        "lost": [each.splitlines() for each in preview.losses(parse_arguments(record.payload))],
        "is_unread": approval.state == "REQUESTED" and target_drift.is_unread(approval, reading),
        "is_missed": reading.is_missed,
        "shown": [] if preview.fields else target_fields(shown),
        "shown_at": shown.state.observed_at if shown else None,
        "shown_of": shown.state.source if shown else "",
        "preparing": approval.state == "PREPARING",
        "read_at": taken.state.observed_at if taken else None,
        "looked_at": newest.state.observed_at if newest and newest.pointer != approval.baseline_pointer else None,
        "reading": reading.is_wanted,
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
    """The fields of the target in a reading, in words; whole numbers of minor units as money.

    An effect that the action is to have is there or is not; it says nothing of whether the target is.
    """
    leaves = dict(_leaves(taken)[:MOST])
    effects = {path[1] for path in leaves if path[0] == "effects"}
    present = {name for name in effects if leaves.get(("effects", name, "exists")) is True}
    rows = []
    for path, value in leaves.items():
        is_effect = path[0] == "effects"
        if path[2:] == ("exists",) and is_effect:
            rows.append(_row(path, f"Effect {path[1]}", "there already" if path[1] in present else "not there yet"))
        elif not is_effect or (path[1] in present and path[2:] != ("count",)) or _is_several(path, value):
            named = path[1:] if path[0] in ("target", "effects") else path
            currency = leaves.get((*path[:-1], "currency"))
            reading = format_money(value, currency) if path[-1] in _SUMS else ""
            rows.append(_row(path, " ".join(named), _value_text(value), reading))
    return rows


def _row(path: tuple[str, ...], word: str, value: str, reading: str = "") -> dict[str, str]:
    word = word.replace("_", " ")
    return {"field": ".".join(path), "word": word[:1].upper() + word[1:], "value": value, "reading": reading}


def _is_several(path: tuple[str, ...], value: Any) -> bool:
    return path[-1] == "count" and isinstance(value, int) and value > 1


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(render_value, value)) or "none" if isinstance(value, list | tuple) else render_value(value)


def preview_rows(
    preview: Preview, taken: target_drift.TakenReading | None, arguments: Mapping[str, Any]
) -> list[dict[str, str]]:
    """The fields that the contract previews: before, as read, and after, as requested."""
    leaves = dict(_leaves(taken))
    rows = []
    for field in preview.fields:
        missing = _missing_text(leaves, field.read) if taken is not None else "not read"
        currency = leaves.get((*field.read[:-1], "currency")) or arguments.get("currency")
        asked = at_path(arguments, tuple(field.argument.split("."))) if field.argument else None
        before = _with_unit(leaves[field.read], field.unit, currency) if field.read in leaves else missing
        after = field.after if not field.argument else "not requested"
        rows.append(
            {
                "label": field.label,
                "before": before,
                "after": after if asked is None else _with_unit(asked, field.unit, currency),
            }
        )
    return rows


def _missing_text(leaves: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> str:
    """The words for a field that a reading does not have: one of an effect that was read as absent is not there yet."""
    is_absent = path[0] == "effects" and leaves.get((*path[:2], "exists")) is False
    return "not there yet" if is_absent else "not in the reading"


def _with_unit(value: Any, unit: str, currency: Any) -> str:
    if unit == "minor":
        return format_money(value, currency) or _value_text(value)
    return f"{_value_text(value)} {unit}".rstrip()


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
