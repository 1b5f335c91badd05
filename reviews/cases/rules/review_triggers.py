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


def _on_indicators(*keys: str) -> Fires:
    def fires(inputs: RunInputs, verdict: Verdict) -> bool:
        return any(key in reading.indicators for reading in inputs.readings for key in keys)

    return fires


def _elsewhere(inputs: RunInputs, verdict: Verdict) -> bool:
    if any(one.check == "tenant_scope_confirmed" and one.made is CheckStatus.FAILED for one in verdict.checks):
        return True
    outside = [
        one for one in verdict.predicates if one.origin is PredicateOrigin.SCOPE and one.holds is PredicateOutcome.FALSE
    ]
    return any(".tenant is within" in one.text for one in outside) or _on_indicators("wrong_tenant")(inputs, verdict)


def _on_classes(*classes: Discrepancy) -> Fires:
    return lambda inputs, verdict: bool({verdict.discrepancy, *verdict.secondary} & set(classes))


def _on_results(*results: VerificationResult) -> Fires:
    return lambda inputs, verdict: verdict.result in results


def _on_repeated_doubt(inputs: RunInputs, verdict: Verdict) -> bool:
    return verdict.doubt and inputs.doubts + 1 >= inputs.facts.repeat_limit


def _on_decline(inputs: RunInputs, verdict: Verdict) -> bool:
    code = inputs.observation.error_code if inputs.observation else None
    return "DECLIN" in (code or "").upper() or _on_indicators("decline")(inputs, verdict)


def _unreachable(inputs: RunInputs, verdict: Verdict) -> bool:
    return PROVIDER_OUTAGE in verdict.triggers and inputs.attempts + 1 >= inputs.facts.repeat_limit


def _late(inputs: RunInputs, verdict: Verdict) -> bool:
    return verdict.timed_out


_FIRES: dict[str, Fires] = {
    "sensitive_data_boundary": _on_indicators("permission_leakage", "privilege_escalation"),
    "tenant_mismatch": _elsewhere,
    "wrong_tenant": _elsewhere,
    "policy_violation": _on_indicators("wildcard_policy", "policy_mismatch", "destructive_operation_outside_policy"),
    "sandbox_escape": _on_indicators("path_escapes_sandbox"),
    "unauthorized_path": _on_indicators("path_escapes_sandbox", "unauthorized_extension"),
    "destructive_operation": _on_indicators("destructive_operation_outside_policy"),
    "repeated_verification_mismatch": _on_repeated_doubt,
    "repeated_mismatch": _on_repeated_doubt,
    "partial_success": _on_classes(Discrepancy.PARTIAL_APPLICATION),
    "stale_state": _on_classes(Discrepancy.STALE_STATE),
    "decline": _on_decline,
    "mismatch": _on_results(VerificationResult.MISMATCH, VerificationResult.PARTIAL),
    "duplicate": _on_classes(Discrepancy.DUPLICATE_SIDE_EFFECT),
    "provider_unreachable": _unreachable,
    "verification_timeout": _late,
}
