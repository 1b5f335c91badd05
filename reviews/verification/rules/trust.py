"""The trust ladder: how reliable the knowledge about an action is (R-OB-04 to R-OB-09).

    0  raw tool output                nothing; unsafe for a model
    1  normalised observation         evidence
    2  verified observation           a strong reading shows that what was wanted exists
    3  reconciled state               predicates hold over the authority: task state may change
    4  audit-confirmed state          bound to ledger, approval, idempotency, policy and trace

A rung is reached only over the ones below it from level 2 on; level 1 may be skipped, since a readback
needs no answer of the tool. The level follows from the record and is set by nobody (R-OB-09). Each rung
says what lifted the action to it or what is missing.

A reading lifts an action only by what it showed: an effect that is absent, a source that settles nothing and the word
of a person confirm nothing, and a contradiction takes back what an earlier reading had shown.
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
RECONCILED = 3
"""The level at which the predicates hold, whatever else is bound."""
TRACE = "trace evidence"
_EFFECT_EXISTS = frozenset(
    {
        None,
        "NO_OP_SUCCESS",
        "PARTIAL_APPLICATION",
        "VALUE_MISMATCH",
        "DUPLICATE_SIDE_EFFECT",
        "COMPENSATION_REQUIRED",
        "PROPAGATION_DELAY",
    }
)
"""The classes of a committed action that say that what was wanted is there, if not as it was wanted."""


@dataclass(frozen=True)
class TrustLevel:
    """One level: whether it is reached, and the basis or the missing part."""

    level: int
    name: str
    reached: bool
    because: str


@dataclass(frozen=True)
class TrustLadder:
    """The action's level, every rung of the ladder, and the missing bindings of level 4."""

    level: int
    rungs: tuple[TrustLevel, ...]
    missing: tuple[str, ...] = ()

    @property
    def completes_critical(self) -> bool:
        """Return True if a CRITICAL_MUTATION may be reported as completed: reconciled, with everything that its class
        requires (C-44).

        Its class requires approval, policy, idempotency record and ledger. A trace comes from the agent's side, which
        may send none; without it the action cannot be replayed and stays at level 3, but it is no less done.
        """
        return self.level >= RECONCILED and set(self.missing) <= {TRACE}


def trust_ladder(entry: Mapping[str, Any], *, sealed: bool, contradicted: bool = False) -> TrustLadder:
    """Return the ladder of an action; `sealed` is True if its newest event is in the log."""
    observed = entry["execution"]["observation_pointer"] is not None
    confirmed = not contradicted and _is_confirmed(entry)
    reconciled = confirmed and entry["reconciliation"]["status"] == "RECONCILED_SUCCESS"
    missing = missing_bindings(entry, sealed=sealed)
    unconfirmed = _why_unconfirmed(entry, contradicted=contradicted)
    rungs = (
        TrustLevel(0, NAMES[0], True, "The lowest level; it takes no evidence."),
        _rung(1, observed, "The tool's answer is stored.", "No answer of the tool is on record."),
        _rung(2, confirmed, "A strong reading of the system of record shows that it exists.", unconfirmed),
        _rung(3, reconciled, "Every predicate holds.", _why_unreconciled(entry) if confirmed else unconfirmed),
        _rung(4, reconciled and not missing, "All five bindings exist.", _unbound(reconciled, missing)),
    )
    return TrustLadder(max(rung.level for rung in rungs if rung.reached), rungs, missing)


def missing_bindings(entry: Mapping[str, Any], *, sealed: bool) -> tuple[str, ...]:
    """The bindings of level 4 that an action lacks (R-OB-08).

    A trace id alone is no evidence, since we make one where none came. The parent span is on record only if the
    proposal carried a W3C traceparent.
    """
    idempotency = entry.get("idempotency") or {}
    needs_key = entry["side_effect_class"] != "READ_ONLY"
    keyed = bool(idempotency.get("key_hash") and idempotency.get("request_hash"))
    bound = {
        TRACE: bool(entry["trace"]["trace_id"] and entry["trace"]["parent_span_id"]),
        "policy version": all(entry["policy_context"].values()),
        "idempotency record": keyed or not needs_key,
        "approval records": _is_approved(entry),
        "append-only ledger": sealed,
    }
    return tuple(name for name, exists in bound.items() if not exists)


def _is_confirmed(entry: Mapping[str, Any]) -> bool:
    """Return whether a strong reading has shown that the wanted effect exists (R-OB-06).

    The execution is COMMITTED by a decisive reading, or by a person's statement, which the recovery decision
    distinguishes; a tool's claim that a reading did not support has a class that names no effect.
    """
    read = entry["verification"]["verified_state_pointer"] is not None
    committed = entry["execution"]["status"] == "COMMITTED"
    shown = entry["reconciliation"]["discrepancy_class"] in _EFFECT_EXISTS
    return read and committed and shown and not _is_attested(entry)


def _is_attested(entry: Mapping[str, Any]) -> bool:
    return bool(entry["reconciliation"]["recovery_decision"] == "HUMAN_ATTESTATION")


def _is_approved(entry: Mapping[str, Any]) -> bool:
    approval = entry.get("approval")
    if approval is None or not approval["required"]:
        return True
    same = approval["payload_hash"] == entry["requested_operation"]["validated_payload_hash"]
    return bool(approval["approval_id"] and approval["approver_id"]) and same


def _rung(level: int, reached: bool, lifted: str, missing: str) -> TrustLevel:
    return TrustLevel(level, NAMES[level], reached, lifted if reached else missing)


def _why_unconfirmed(entry: Mapping[str, Any], *, contradicted: bool) -> str:
    if contradicted:
        return "It was contradicted after it was settled."
    if _is_attested(entry):
        return "A person's word settled it, and not a reading."
    verification = entry["verification"]
    if verification["verified_state_pointer"] is None:
        return "No authoritative source has been read."
    if entry["execution"]["status"] == "FAILED" and verification["status"] == "VERIFIED":
        return "The system of record was read, and shows no effect."
    return "What was read does not confirm it."


def _why_unreconciled(entry: Mapping[str, Any]) -> str:
    taken_back = entry["reconciliation"]["status"] == "COMPENSATED"
    return "It was reversed afterwards." if taken_back else "Not every predicate holds."


def _unbound(reconciled: bool, missing: tuple[str, ...]) -> str:
    return f"Missing: {', '.join(missing)}." if reconciled else "Level 3 is not reached."
