"""Verdicts: the result of a verification run, in one of a few forms (R-RC-07)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from reviews.observations.rules import observe
from reviews.reconciliation.rules.discrepancies import (
    OBSERVATION_AUTHORITY_MISMATCH,
    PENDING_TIMEOUT,
    VERIFICATION_TIMEOUT,
    Discrepancy,
    rank_discrepancies,
    recovery_triggers,
)
from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.independence import SourceIndependence
from reviews.reconciliation.rules.predicates import PredicateResult
from reviews.reconciliation.rules.reading import Consistency

MAX_ATTEMPTS = 500
"""Readings of one action, however its polling is set (R-VD-14)."""


class VerificationResult(StrEnum):
    """The result of a verification run (R-RC-07)."""

    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    MISMATCH = "MISMATCH"
    PENDING = "PENDING"
    DUPLICATE = "DUPLICATE"
    ABSENT = "ABSENT"
    UNKNOWN = "UNKNOWN"


class EffectStatus(StrEnum):
    """The status of one effect by the readings."""

    PRESENT = "PRESENT"
    PENDING = "PENDING"
    DUPLICATE = "DUPLICATE"
    DIVERGENT = "DIVERGENT"  # one source has it, another has not
    ABSENT = "ABSENT"
    UNTOLD = "UNTOLD"


GRAVE = frozenset({Discrepancy.WRONG_TARGET_MODIFIED, Discrepancy.DUPLICATE_SIDE_EFFECT})
SEEN = frozenset({EffectStatus.PRESENT, EffectStatus.PENDING, EffectStatus.DUPLICATE, EffectStatus.DIVERGENT})
LACKING = frozenset({EffectStatus.ABSENT, EffectStatus.DIVERGENT})


@dataclass(frozen=True)
class EffectFinding:
    """The finding for one wanted effect over all readings."""

    name: str
    found: EffectStatus
    count: int


class CheckStatus(StrEnum):
    """The status of a required check."""

    CHECKED = "CHECKED"
    FAILED = "FAILED"
    UNCHECKED = "UNCHECKED"
    NOT_APPLICABLE = "NOT_APPLICABLE"


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check that the action's class requires, whether it was made, and its source."""

    check: str
    made: CheckStatus
    by: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of one run, with the triggers by which it is looked up in the recovery table.

    `decisive` says that it settles the action, else the action stays open; `timed_out` that it can stay open no longer.
    `doubt`: a source answered and does not support the claim. `equivalent`: the repeated effect is one that was
    replayed. `independence`: the number of independent sources, if several were read.
    """

    result: VerificationResult
    decisive: bool
    reason: str
    discrepancy: Discrepancy | None = None
    secondary: tuple[Discrepancy, ...] = ()
    triggers: frozenset[str] = frozenset()
    effects: tuple[EffectFinding, ...] = ()
    predicates: tuple[PredicateResult, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    consistency: Consistency | None = None
    awaits_horizon: bool = False
    timed_out: bool = False
    doubt: bool = False
    equivalent: bool = False
    independence: SourceIndependence | None = None

    @property
    def effect_seen(self) -> bool:
        """True if any wanted effect was found."""
        return any(effect.found in SEEN for effect in self.effects)

    @property
    def done(self) -> tuple[str, ...]:
        """The wanted effects that exist, for a report in parts (R-RI-06)."""
        return tuple(one.name for one in self.effects if one.found is EffectStatus.PRESENT)

    @property
    def open(self) -> tuple[str, ...]:
        """The wanted effects that do not exist, do not exist yet, or exist more than once."""
        return tuple(one.name for one in self.effects if one.found is not EffectStatus.PRESENT)


def waiting_deadline(inputs: RunInputs) -> datetime:
    """The end of waiting: the SLA, but never before absence could be established."""
    return max(inputs.sla_at, inputs.horizon_at)


def unverifiable_verdict(reason: str) -> Verdict:
    """The verdict for an action that cannot be verified."""
    return Verdict(
        result=VerificationResult.UNKNOWN,
        decisive=False,
        reason=reason,
        discrepancy=Discrepancy.UNVERIFIABLE_STATE,
        triggers=recovery_triggers(Discrepancy.UNVERIFIABLE_STATE, claimed=False),
    )


def pending_verdict(
    inputs: RunInputs,
    reason: str,
    discrepancy: Discrepancy,
    words: frozenset[str] | None = None,
    *,
    awaits_horizon: bool = False,
) -> Verdict:
    """Return a verdict that leaves the action open, or a timed-out one after the deadline."""
    lag = discrepancy is Discrepancy.PROPAGATION_DELAY
    if inputs.at >= waiting_deadline(inputs) or inputs.attempts >= MAX_ATTEMPTS:
        late = {str(discrepancy)} if lag else {VERIFICATION_TIMEOUT}
        return Verdict(
            result=VerificationResult.PENDING if lag else VerificationResult.UNKNOWN,
            decisive=False,
            reason=f"No verdict came in time. {reason}",
            discrepancy=discrepancy,
            triggers=frozenset(late),
            timed_out=True,
        )
    return Verdict(
        result=VerificationResult.PENDING,
        decisive=False,
        reason=reason,
        discrepancy=discrepancy,
        triggers=pending_triggers(inputs) if words is None else words,
        awaits_horizon=awaits_horizon,
    )


def pending_triggers(inputs: RunInputs) -> frozenset[str]:
    """Return the reason why there is no conclusion yet: an unsupported claim, silence, or an answer without a claim."""
    if inputs.claimed_success:
        return frozenset({OBSERVATION_AUTHORITY_MISMATCH})
    silent = inputs.observation is None or inputs.observation.status is observe.ReportedStatus.TIMEOUT
    return frozenset({PENDING_TIMEOUT}) if silent else frozenset()


def mismatch_verdict(inputs: RunInputs, classes: set[Discrepancy], findings: tuple[EffectFinding, ...]) -> Verdict:
    """A decisive verdict against the action: the first class decides, the others are kept (R-DC-14)."""
    first, *others = rank_discrepancies(classes)
    result = {
        Discrepancy.DUPLICATE_SIDE_EFFECT: VerificationResult.DUPLICATE,
        Discrepancy.PARTIAL_APPLICATION: VerificationResult.PARTIAL,
    }.get(first, VerificationResult.MISMATCH)
    return Verdict(
        result=result,
        decisive=True,
        reason=_describe(first, findings),
        discrepancy=first,
        secondary=tuple(others),
        triggers=recovery_triggers(first, claimed=inputs.claimed_success),
    )


def _describe(discrepancy: Discrepancy, findings: tuple[EffectFinding, ...]) -> str:
    listed = ", ".join(f"{one.name} {one.found.lower()} ({one.count})" for one in findings)
    shown = "only a part of what was wanted" if discrepancy is Discrepancy.PARTIAL_APPLICATION else discrepancy
    return f"A strong read shows {shown}: {listed or 'no effect is declared'}."
