"""What a class requires, check by check, over one run (R-VD-01 to R-VD-07, R-VD-10).

Each required check is CHECKED, FAILED, UNCHECKED or NOT_APPLICABLE, and says by what. A check that nobody could make is
never passed in silence: where the depth demands every check, success is impossible without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ledger.catalogue.rules.depth import By, Requirement
from reviews.reconciliation.rules.discrepancies import Discrepancy, pointed_to
from reviews.reconciliation.rules.facts import Inputs
from reviews.reconciliation.rules.predicates import Holds, Origin, PredicateResult
from reviews.reconciliation.rules.reading import Reading
from reviews.reconciliation.rules.verdict import CheckResult, EffectFinding, Found, Made
from reviews.verification.rules.trust import missing_bindings


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a run has to show: the deciding readings and what they say."""

    inputs: Inputs
    readings: tuple[Reading, ...]
    found: tuple[EffectFinding, ...]
    results: tuple[PredicateResult, ...]


Told = tuple[Made, str]


def checked(shown: Shown) -> tuple[CheckResult, ...]:
    """Every check that the action's depth requires, as far as this run made it."""
    required = shown.inputs.facts.depth.requirements if shown.inputs.facts.depth else ()
    return tuple(_checked(one, shown) for one in required)


def lacking(inputs: Inputs, checks: tuple[CheckResult, ...]) -> tuple[CheckResult, ...]:
    """The checks without which there is no success: those not made, where every check is demanded."""
    if inputs.facts.depth is None or not inputs.facts.depth.demanding:
        return ()
    return tuple(one for one in checks if one.made in (Made.UNCHECKED, Made.FAILED))


def _checked(required: Requirement, shown: Shown) -> CheckResult:
    made, told = _BY[required.by](required, shown)
    return CheckResult(check=required.check, made=made, by=told)


def _predicates(required: Requirement, shown: Shown) -> Told:
    about = [one for one in shown.results if one.origin is Origin.CONTRACT and one.text in required.texts]
    return _over(about, "; ".join(required.texts))


def _scope(required: Requirement, shown: Shown) -> Told:
    kind = required.texts[0]
    ending = f".{kind} is within the authorised scope"
    about = [one for one in shown.results if one.origin is Origin.SCOPE and one.text.endswith(ending)]
    telling = [one for one in about if one.holds is not Holds.NOT_APPLICABLE]
    return _over(telling, f"the {kind} of everything that was found")


def _over(results: list[PredicateResult], told: str) -> Told:
    if any(one.holds is Holds.FALSE for one in results):
        return Made.FAILED, told
    if results and all(one.holds is Holds.TRUE for one in results):
        return Made.CHECKED, told
    undecided = next((one.reason for one in results if one.holds is Holds.UNDECIDABLE), "")
    return Made.UNCHECKED, undecided or f"Nothing was found to compare: {told}"


def _strong_read(required: Requirement, shown: Shown) -> Told:
    weak = [reading.source for reading in shown.readings if not reading.is_strong]
    read = ", ".join(f"{reading.source} as {reading.trusted_as}" for reading in shown.readings)
    return (Made.UNCHECKED if weak or not read else Made.CHECKED), read


def _effects(required: Requirement, shown: Shown) -> Told:
    told = ", ".join(f"{one.name} {one.found.lower()}" for one in shown.found)
    if any(one.found in (Found.UNTOLD, Found.PENDING) for one in shown.found):
        return Made.UNCHECKED, told
    good = all(one.found is Found.PRESENT for one in shown.found)
    return (Made.CHECKED if good else Made.FAILED), told or "no effect is declared"


def _integrity(required: Requirement, shown: Shown) -> Told:
    fired = sorted({key for reading in shown.readings for key in reading.indicators})
    return (Made.FAILED, ", ".join(fired)) if fired else (Made.CHECKED, "no failure indicator fired")


def _before(required: Requirement, shown: Shown) -> Told:
    before = shown.inputs.baseline
    if before is None or not before.is_strong:
        return Made.UNCHECKED, "The state before was not read."
    return Made.CHECKED, f"{before.source} before execution, {before.freshness}"


def _settled(required: Requirement, shown: Shown) -> Told:
    pointed = pointed_to({key for reading in shown.readings for key in reading.indicators})
    lags = [one.name for one in shown.found if one.found is Found.PENDING]
    if lags or Discrepancy.PROPAGATION_DELAY in pointed:
        return Made.UNCHECKED, f"still on its way: {', '.join(lags)}"
    return Made.CHECKED, "nothing is on its way any more"


def _sources(required: Requirement, shown: Shown) -> Told:
    told = ", ".join(reading.name or reading.source for reading in shown.readings)
    if len(shown.readings) < 2:
        return Made.UNCHECKED, f"only one source was read: {told}"
    agreed = all(one.found is Found.PRESENT for one in shown.found)
    agreed = agreed and not any(one.holds is Holds.FALSE for one in shown.results)
    return (Made.CHECKED if agreed else Made.FAILED), told


def _bound(name: str) -> Callable[[Requirement, Shown], Told]:
    def made(required: Requirement, shown: Shown) -> Told:
        missing = missing_bindings(shown.inputs.entry, sealed=True)
        return (Made.UNCHECKED, f"Missing: {name}.") if name in missing else (Made.CHECKED, name)

    return made


def _approved(required: Requirement, shown: Shown) -> Told:
    approval = shown.inputs.entry.get("approval") or {}
    if not approval.get("approval_id"):
        return Made.UNCHECKED, "No approval is on record."
    return _bound("approval records")(required, shown)


def _not_applicable(required: Requirement, shown: Shown) -> Told:
    return Made.NOT_APPLICABLE, required.note


def _nothing(required: Requirement, shown: Shown) -> Told:
    return Made.UNCHECKED, required.note


_BY: dict[By, Callable[[Requirement, Shown], Told]] = {
    By.PREDICATES: _predicates,
    By.SCOPE: _scope,
    By.STRONG_READ: _strong_read,
    By.EFFECTS: _effects,
    By.INTEGRITY: _integrity,
    By.BEFORE: _before,
    By.SETTLED: _settled,
    By.SOURCES: _sources,
    By.APPROVAL: _approved,
    By.POLICIES: _bound("policy version"),
    By.ENTRY: _bound("idempotency record"),
    By.NOT_APPLICABLE: _not_applicable,
    By.NOTHING: _nothing,
}
