"""The checks that an action's class requires, evaluated over one run (R-VD-01 to R-VD-07, R-VD-10).

Each required check is CHECKED, FAILED, UNCHECKED or NOT_APPLICABLE, and says by what. A check that nobody could make is
never passed in silence: where the depth demands every check, success is impossible without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ledger.catalogue.rules.depth import CheckEvidence, CheckRequirement
from reviews.reconciliation.rules.discrepancies import Discrepancy, indicated_discrepancies
from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.predicates import PredicateOrigin, PredicateOutcome, PredicateResult
from reviews.reconciliation.rules.reading import Reading
from reviews.reconciliation.rules.verdict import CheckResult, CheckStatus, EffectFinding, EffectStatus
from reviews.verification.rules.trust import missing_bindings


@dataclass(frozen=True, kw_only=True)
class RunEvidence:
    """The evidence of a run: the deciding readings and their findings."""

    inputs: RunInputs
    readings: tuple[Reading, ...]
    found: tuple[EffectFinding, ...]
    results: tuple[PredicateResult, ...]


Told = tuple[CheckStatus, str]


def required_checks(evidence: RunEvidence) -> tuple[CheckResult, ...]:
    """Every check that the action's depth requires, as far as this run made it."""
    required = evidence.inputs.facts.depth.requirements if evidence.inputs.facts.depth else ()
    return tuple(_judge_check(one, evidence) for one in required)


def missing_checks(inputs: RunInputs, checks: tuple[CheckResult, ...]) -> tuple[CheckResult, ...]:
    """Return the checks without which there is no success: those not made, if every check is required."""
    if inputs.facts.depth is None or not inputs.facts.depth.demanding:
        return ()
    return tuple(one for one in checks if one.made in (CheckStatus.UNCHECKED, CheckStatus.FAILED))


def _judge_check(required: CheckRequirement, evidence: RunEvidence) -> CheckResult:
    made, told = _BY[required.by](required, evidence)
    return CheckResult(check=required.check, made=made, by=told)


def _predicates(required: CheckRequirement, evidence: RunEvidence) -> Told:
    about = [one for one in evidence.results if one.origin is PredicateOrigin.CONTRACT and one.text in required.texts]
    return _judge_predicates(about, "; ".join(required.texts))


def _scope(required: CheckRequirement, evidence: RunEvidence) -> Told:
    kind = required.texts[0]
    ending = f".{kind} is within the authorised scope"
    about = [one for one in evidence.results if one.origin is PredicateOrigin.SCOPE and one.text.endswith(ending)]
    telling = [one for one in about if one.holds is not PredicateOutcome.NOT_APPLICABLE]
    return _judge_predicates(telling, f"the {kind} of everything that was found")


def _judge_predicates(results: list[PredicateResult], told: str) -> Told:
    if any(one.holds is PredicateOutcome.FALSE for one in results):
        return CheckStatus.FAILED, told
    if results and all(one.holds is PredicateOutcome.TRUE for one in results):
        return CheckStatus.CHECKED, told
    undecided = next((one.reason for one in results if one.holds is PredicateOutcome.UNDECIDABLE), "")
    return CheckStatus.UNCHECKED, undecided or f"Nothing was found to compare: {told}"


def _strong_read(required: CheckRequirement, evidence: RunEvidence) -> Told:
    weak = [reading.source for reading in evidence.readings if not reading.is_strong]
    read = ", ".join(f"{reading.source} as {reading.trusted_as}" for reading in evidence.readings)
    return (CheckStatus.UNCHECKED if weak or not read else CheckStatus.CHECKED), read


def _effects(required: CheckRequirement, evidence: RunEvidence) -> Told:
    told = ", ".join(f"{one.name} {one.found.lower()}" for one in evidence.found)
    if any(one.found in (EffectStatus.UNTOLD, EffectStatus.PENDING) for one in evidence.found):
        return CheckStatus.UNCHECKED, told
    good = all(one.found is EffectStatus.PRESENT for one in evidence.found)
    return (CheckStatus.CHECKED if good else CheckStatus.FAILED), told or "no effect is declared"


def _integrity(required: CheckRequirement, evidence: RunEvidence) -> Told:
    fired = sorted({key for reading in evidence.readings for key in reading.indicators})
    return (CheckStatus.FAILED, ", ".join(fired)) if fired else (CheckStatus.CHECKED, "no failure indicator fired")


def _judge_baseline(required: CheckRequirement, evidence: RunEvidence) -> Told:
    before = evidence.inputs.baseline
    if before is None or not before.is_strong:
        return CheckStatus.UNCHECKED, "The state before was not read."
    return CheckStatus.CHECKED, f"{before.source} before execution, {before.freshness}"


def _judge_delivery(required: CheckRequirement, evidence: RunEvidence) -> Told:
    pointed = indicated_discrepancies({key for reading in evidence.readings for key in reading.indicators})
    lags = [one.name for one in evidence.found if one.found is EffectStatus.PENDING]
    if lags or Discrepancy.PROPAGATION_DELAY in pointed:
        return CheckStatus.UNCHECKED, f"still on its way: {', '.join(lags)}"
    return CheckStatus.CHECKED, "nothing is on its way any more"


def _sources(required: CheckRequirement, evidence: RunEvidence) -> Told:
    told = ", ".join(reading.name or reading.source for reading in evidence.readings)
    if len(evidence.readings) < 2:
        return CheckStatus.UNCHECKED, f"only one source was read: {told}"
    agreed = all(one.found is EffectStatus.PRESENT for one in evidence.found)
    agreed = agreed and not any(one.holds is PredicateOutcome.FALSE for one in evidence.results)
    return (CheckStatus.CHECKED if agreed else CheckStatus.FAILED), told


def _judge_binding(name: str) -> Callable[[CheckRequirement, RunEvidence], Told]:
    def made(required: CheckRequirement, evidence: RunEvidence) -> Told:
        missing = missing_bindings(evidence.inputs.entry, sealed=True)
        return (CheckStatus.UNCHECKED, f"Missing: {name}.") if name in missing else (CheckStatus.CHECKED, name)

    return made


def _judge_approval(required: CheckRequirement, evidence: RunEvidence) -> Told:
    approval = evidence.inputs.entry.get("approval") or {}
    if not approval.get("approval_id"):
        return CheckStatus.UNCHECKED, "No approval is on record."
    return _judge_binding("approval records")(required, evidence)


def _not_applicable(required: CheckRequirement, evidence: RunEvidence) -> Told:
    return CheckStatus.NOT_APPLICABLE, required.note


def _nothing(required: CheckRequirement, evidence: RunEvidence) -> Told:
    return CheckStatus.UNCHECKED, required.note


_BY: dict[CheckEvidence, Callable[[CheckRequirement, RunEvidence], Told]] = {
    CheckEvidence.PREDICATES: _predicates,
    CheckEvidence.SCOPE: _scope,
    CheckEvidence.STRONG_READ: _strong_read,
    CheckEvidence.EFFECTS: _effects,
    CheckEvidence.INTEGRITY: _integrity,
    CheckEvidence.BEFORE: _judge_baseline,
    CheckEvidence.SETTLED: _judge_delivery,
    CheckEvidence.SOURCES: _sources,
    CheckEvidence.APPROVAL: _judge_approval,
    CheckEvidence.POLICIES: _judge_binding("policy version"),
    CheckEvidence.ENTRY: _judge_binding("idempotency record"),
    CheckEvidence.NOT_APPLICABLE: _not_applicable,
    CheckEvidence.NOTHING: _nothing,
}
