"""The trust ladder: how far what is known about an action may be relied on (R-OB-04 to R-OB-09).

    0  raw tool output                nothing; unsafe for a model
    1  normalised observation         evidence
    2  verified observation           an authoritative source was read back
    3  reconciled state               predicates hold over the authority: task state may change
    4  audit-confirmed state          bound to ledger, approval, idempotency, policy and trace

A rung is reached only over the ones below it from level 2 on; level 1 may be skipped, since a readback
needs no answer of the tool. The level follows from the record and is set by nobody (R-OB-09). Each rung
says what lifted the action to it or what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAMES = (
    "Raw tool output",
    "Normalised observation",
    "Verified observation",
    "Reconciled state",
    "Audit-confirmed state",
)


@dataclass(frozen=True)
class Rung:
    """One level: reached or not, and by what or for want of what."""

    level: int
    name: str
    reached: bool
    because: str


@dataclass(frozen=True)
class Trust:
    """The level that an action stands on, and every rung of the ladder."""

    level: int
    rungs: tuple[Rung, ...]


def trust(entry: Mapping[str, Any], *, sealed: bool, contradicted: bool = False) -> Trust:
    """The ladder of an action; `sealed` says that its newest event is in the log."""
    observed = entry["execution"]["observation_pointer"] is not None
    read = entry["verification"]["verified_state_pointer"] is not None
    succeeded = entry["reconciliation"]["status"] == "RECONCILED_SUCCESS"
    taken_back = entry["reconciliation"]["status"] == "COMPENSATED"
    reconciled = read and succeeded and not contradicted
    missing = missing_bindings(entry, sealed=sealed)
    rungs = (
        Rung(0, NAMES[0], True, "The action is on record."),
        _rung(1, observed, "The tool's answer is stored.", "No answer of the tool is on record."),
        _rung(2, read, "An authoritative source was read.", "No authoritative source has been read."),
        _rung(3, reconciled, "Every predicate holds.", _unreconciled(read, contradicted, taken_back=taken_back)),
        _rung(4, reconciled and not missing, "All five bindings exist.", _unbound(reconciled, missing)),
    )
    return Trust(max(rung.level for rung in rungs if rung.reached), rungs)


def missing_bindings(entry: Mapping[str, Any], *, sealed: bool) -> tuple[str, ...]:
    """Which of the five bindings of level 4 an action lacks (R-OB-08)."""
    idempotency = entry.get("idempotency") or {}
    needs_key = entry["side_effect_class"] != "READ_ONLY"
    keyed = bool(idempotency.get("key_hash") and idempotency.get("request_hash"))
    bound = {
        "trace evidence": bool(entry["trace"]["trace_id"]),
        "policy version": all(entry["policy_context"].values()),
        "idempotency record": keyed or not needs_key,
        "approval records": _approved(entry),
        "append-only ledger": sealed,
    }
    return tuple(name for name, exists in bound.items() if not exists)


def _approved(entry: Mapping[str, Any]) -> bool:
    approval = entry.get("approval")
    if approval is None or not approval["required"]:
        return True
    same = approval["payload_hash"] == entry["requested_operation"]["validated_payload_hash"]
    return bool(approval["approval_id"] and approval["approver_id"]) and same


def _rung(level: int, reached: bool, lifted: str, missing: str) -> Rung:
    return Rung(level, NAMES[level], reached, lifted if reached else missing)


def _unreconciled(read: bool, contradicted: bool, *, taken_back: bool) -> str:
    if taken_back:
        return "It was reversed afterwards."
    if contradicted:
        return "A later reading contradicts it."
    return "Not every predicate holds." if read else "There is no reading to compare."


def _unbound(reconciled: bool, missing: tuple[str, ...]) -> str:
    return f"Missing: {', '.join(missing)}." if reconciled else "Level 3 is not reached."
