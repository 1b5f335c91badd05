"""What is wrong with an action, in one sentence with its amount; and which resolution usually fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from console.pages.actions.action_record import ActionRecord, parse_arguments
from console.pages.actions.state_comparison import differences
from ledger.catalogue.rules.money import format_money

# What is tried first where a discrepancy was found; the first that the rules allow is suggested.
_USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "DUPLICATE_SIDE_EFFECT": ("COMPENSATE", "ROLL_BACK"),
    "VALUE_MISMATCH": ("STRONG_READ", "COMPENSATE", "ROLL_BACK"),
    "PARTIAL_APPLICATION": ("FORWARD_RECOVER", "COMPENSATE"),
    "WRONG_TARGET_MODIFIED": ("ROLL_BACK", "COMPENSATE"),
    "COMPENSATION_REQUIRED": ("COMPENSATE", "ROLL_BACK"),
    "NO_OP_SUCCESS": ("ACKNOWLEDGE",),
    "UNVERIFIABLE_STATE": ("ATTEST_PRESENT",),
}
_LOOK_FIRST: Final = ("VERIFY_AGAIN", "STRONG_READ")


def case_sentence(told: ActionRecord, discrepancy: str) -> str:
    """What is wrong, with its amount; empty where nothing more is known than the definition of its class."""
    thing, found = told.title, told.found.get("layers", {})
    effects = found.get("sa", {}).get("effects", {})
    more = {name: one["count"] for name, one in effects.items() if one.get("count", 0) > 1}
    asked = parse_arguments(told.payload)
    match discrepancy:
        case "DUPLICATE_SIDE_EFFECT" if more:
            name, count = next(iter(more.items()))
            amount = format_money(asked.get("amount"), asked.get("currency"))
            one = "one was approved" if told.approval else "one was requested"
            return f"{count} {name.replace('_', ' ')}s{f' of {amount}' if amount else ''} exist; {one}."
        case "VALUE_MISMATCH" | "STALE_STATE":
            shown = [each for each in differences(told) if each["by"] == "the system of record"]
            parts = [_difference(each, asked.get("currency")) for each in shown[:3]]
            return f"{thing}: the system of record shows {', '.join(parts)}." if parts else ""
        case "NO_OP_FAILURE":
            return f"{thing}: the system of record shows no effect."
        case "PARTIAL_APPLICATION":
            return f"{thing} took effect only in part."
        case "UNKNOWN_STATE":
            return f"It is not known whether this took effect: {thing}."
    return ""


def _difference(each: Mapping[str, str], currency: Any) -> str:
    """One field that differs; an amount in minor units as money."""
    field, there, asked = each["field"].replace("_", " "), each["shown"], each["asked"]
    if each["field"] == "amount" and there.isdecimal() and asked.isdecimal():
        there, asked = (format_money(int(text), currency) or text for text in (there, asked))
    return f"{field} {there} instead of {asked}"


def suggest_resolution(ways: Iterable[Mapping[str, Any]], discrepancy: str) -> dict[str, Any] | None:
    """The resolution that usually fits what was found, among those that the rules allow now."""
    offered: dict[str, dict[str, Any]] = {choice["code"]: choice for group in ways for choice in group["choices"]}
    for code in (*_USUAL.get(discrepancy, ()), *_LOOK_FIRST):
        if code in offered:
            return offered[code]
    return None
