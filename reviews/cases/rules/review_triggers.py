"""Review triggers: conditions that open a case although recovery continues (R-VD-01 to R-VD-05, R-RP-50).

Each class names its triggers (`ledger.rules.side_effect_classes.json`); a deeper one adds those of its depth. What a
trigger means over a run stands here. "Repeated" and "unreachable" need as many runs as the verification policy says,
so that one lost packet calls nobody (C-46).
"""

from __future__ import annotations

from collections.abc import Callable

from ledger.catalogue.rules.depth import REVIEW_TRIGGERS
from reviews.reconciliation.rules.discrepancies import PROVIDER_OUTAGE, Discrepancy
from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.predicates import PredicateOrigin, PredicateOutcome
from reviews.reconciliation.rules.verdict import CheckStatus, Verdict, VerificationResult

Fires = Callable[[RunInputs, Verdict], bool]


def fired_triggers(inputs: RunInputs, verdict: Verdict) -> tuple[str, ...]:
    """The review triggers of the action's class that this run fired."""
    facts = inputs.facts
    level = facts.depth.level if facts.depth else facts.side_effect_class
    named = dict.fromkeys([*REVIEW_TRIGGERS[facts.side_effect_class], *REVIEW_TRIGGERS[level]])
    return tuple(name for name in named if name in _FIRES and _FIRES[name](inputs, verdict))


def _indicated(*keys: str) -> Fires:
    def fires(inputs: RunInputs, verdict: Verdict) -> bool:
        return any(key in reading.indicators for reading in inputs.readings for key in keys)

    return fires


def _elsewhere(inputs: RunInputs, verdict: Verdict) -> bool:
    if any(one.check == "tenant_scope_confirmed" and one.made is CheckStatus.FAILED for one in verdict.checks):
        return True
    outside = [
        one for one in verdict.predicates if one.origin is PredicateOrigin.SCOPE and one.holds is PredicateOutcome.FALSE
    ]
    return any(".tenant is within" in one.text for one in outside) or _indicated("wrong_tenant")(inputs, verdict)


def _classed(*classes: Discrepancy) -> Fires:
    return lambda inputs, verdict: bool({verdict.discrepancy, *verdict.secondary} & set(classes))


def _found(*results: VerificationResult) -> Fires:
    return lambda inputs, verdict: verdict.result in results


def _repeated(inputs: RunInputs, verdict: Verdict) -> bool:
    return verdict.doubt and inputs.doubts + 1 >= inputs.facts.repeat_limit


def _declined(inputs: RunInputs, verdict: Verdict) -> bool:
    code = inputs.observation.error_code if inputs.observation else None
    return "DECLIN" in (code or "").upper() or _indicated("decline")(inputs, verdict)


def _unreachable(inputs: RunInputs, verdict: Verdict) -> bool:
    return PROVIDER_OUTAGE in verdict.triggers and inputs.attempts + 1 >= inputs.facts.repeat_limit


def _late(inputs: RunInputs, verdict: Verdict) -> bool:
    return verdict.timed_out


_FIRES: dict[str, Fires] = {
    "sensitive_data_boundary": _indicated("permission_leakage", "privilege_escalation"),
    "tenant_mismatch": _elsewhere,
    "wrong_tenant": _elsewhere,
    "policy_violation": _indicated("wildcard_policy", "policy_mismatch", "destructive_operation_outside_policy"),
    "sandbox_escape": _indicated("path_escapes_sandbox"),
    "unauthorized_path": _indicated("path_escapes_sandbox", "unauthorized_extension"),
    "destructive_operation": _indicated("destructive_operation_outside_policy"),
    "repeated_verification_mismatch": _repeated,
    "repeated_mismatch": _repeated,
    "partial_success": _classed(Discrepancy.PARTIAL_APPLICATION),
    "stale_state": _classed(Discrepancy.STALE_STATE),
    "decline": _declined,
    "mismatch": _found(VerificationResult.MISMATCH, VerificationResult.PARTIAL),
    "duplicate": _classed(Discrepancy.DUPLICATE_SIDE_EFFECT),
    "provider_unreachable": _unreachable,
    "verification_timeout": _late,
}
