"""Reconciliation: intended, requested, observed and authoritative state become one verdict (R-RC-01, R-RC-07).

What is asked, in this order; the first that applies decides:

1. Is there a way to look at all? Without one, or when looking can never work: UNVERIFIABLE_STATE.
2. Did the system answer, from every source that the class asks for (R-RC-13), and was the answer fresh?
   An outage, a missing source and a weak source settle nothing: look again. A weak source never counts
   for success, nor for absence (R-VD-09).
3. Did the effect land outside the authorised scope, or twice? That is decisive at once.
4. Is an effect that was wanted absent? Before the late-effect horizon, and while the target says that
   it is still working, it may yet arrive. After it: all absent is "nothing happened" (a NO_OP_FAILURE
   where the tool had claimed success), some absent is PARTIAL_APPLICATION.
5. Do systems fed by the authority lag? PROPAGATION_DELAY: wait.
6. Did an indicator fire, or a predicate fail? No success even if all else holds (R-CP-16). Is one
   undecidable? Then nobody can tell: never success (R-RC-04).
7. Did the wanted state hold before? NO_OP_SUCCESS. Otherwise: success.

Waiting ends at the SLA, but not before the horizon: then the verdict is that no verdict came in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from reviews.rules import observe, predicates
from reviews.rules.discrepancies import (
    OBSERVATION_AUTHORITY_MISMATCH,
    PENDING_TIMEOUT,
    PROVIDER_OUTAGE,
    VERIFICATION_TIMEOUT,
    Discrepancy,
    pointed_to,
    ranked,
    triggers,
)
from reviews.rules.facts import Inputs
from reviews.rules.predicates import Holds, Origin, PredicateResult
from reviews.rules.reading import Consistency, Effect, Reading, shown

MAX_ATTEMPTS = 500
"""Readings of one action, however its polling is set (R-VD-14)."""


class Result(StrEnum):
    """What a verification run found (R-RC-07)."""

    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    MISMATCH = "MISMATCH"
    PENDING = "PENDING"
    DUPLICATE = "DUPLICATE"
    ABSENT = "ABSENT"
    UNKNOWN = "UNKNOWN"


class Found(StrEnum):
    """What the readings say of one effect."""

    PRESENT = "PRESENT"
    PENDING = "PENDING"
    DUPLICATE = "DUPLICATE"
    DIVERGENT = "DIVERGENT"  # one source has it, another has not
    ABSENT = "ABSENT"
    UNTOLD = "UNTOLD"


SEEN = frozenset({Found.PRESENT, Found.PENDING, Found.DUPLICATE, Found.DIVERGENT})
LACKING = frozenset({Found.ABSENT, Found.DIVERGENT})


@dataclass(frozen=True)
class EffectFinding:
    """One wanted effect, as found over all readings."""

    name: str
    found: Found
    count: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one run found, and in which words it asks the recovery table.

    `decisive` says that the finding settles the action; a verdict that is not leaves it open. `timed_out`
    says that it can stay open no longer.
    """

    result: Result
    decisive: bool
    reason: str
    discrepancy: Discrepancy | None = None
    secondary: tuple[Discrepancy, ...] = ()
    triggers: frozenset[str] = frozenset()
    effects: tuple[EffectFinding, ...] = ()
    predicates: tuple[PredicateResult, ...] = ()
    consistency: Consistency | None = None
    awaits_horizon: bool = False
    timed_out: bool = False

    @property
    def effect_seen(self) -> bool:
        """Whether anything that was wanted was found."""
        return any(effect.found in SEEN for effect in self.effects)

    @property
    def done(self) -> tuple[str, ...]:
        """The wanted effects that are there, for a report in parts (R-RI-06)."""
        return tuple(one.name for one in self.effects if one.found is Found.PRESENT)

    @property
    def open(self) -> tuple[str, ...]:
        """The wanted effects that are not, or not yet, or not once."""
        return tuple(one.name for one in self.effects if one.found is not Found.PRESENT)


def deadline(inputs: Inputs) -> datetime:
    """When waiting ends: the SLA, but never before absence could have been told."""
    return max(inputs.sla_at, inputs.horizon_at)


def reconcile(inputs: Inputs) -> Verdict:
    """The verdict over what is known now."""
    unread = _unread(inputs)
    if unread is not None:
        return unread
    weak = next((reading for reading in inputs.readings if not reading.is_strong), None)
    if weak is not None:
        return _weak(inputs, weak)
    found = tuple(_finding(inputs, name) for name in inputs.facts.required_effects)
    results = tuple(result for reading in inputs.readings for result in _predicates(inputs, reading))
    verdict = _judged(inputs, found, results)
    strongest = inputs.readings[0].consistency
    return replace(verdict, effects=found, predicates=results, consistency=strongest)


def bindings(inputs: Inputs, reading: Reading | None) -> dict[str, Mapping[str, Any]]:
    """What expressions see of one run."""
    required = inputs.facts.required_effects
    return {
        "si": inputs.si,
        "sr": inputs.sr,
        "so": observe.bindings(inputs.observation),
        "sa": shown(reading, required),
        "scope": inputs.scope,
        "pre": shown(inputs.baseline, required),
    }


def contradicts(verdict: Verdict, *, succeeded: bool) -> bool:
    """Whether a later decisive reading disagrees with how an action was settled (Late truth)."""
    if not verdict.decisive:
        return False
    if succeeded:
        return verdict.result is not Result.SUCCESS
    return verdict.effect_seen or verdict.discrepancy is Discrepancy.WRONG_TARGET_MODIFIED


# Layers 1 and 2: can it be looked at, and was it?


def _unread(inputs: Inputs) -> Verdict | None:
    failure = inputs.failure
    if not inputs.facts.verifiable:
        return _unverifiable("The contract declares no way to look at the effect.")
    if failure is not None and not failure.retryable:
        return _unverifiable(failure.reason)
    if failure is not None:
        words = frozenset({PROVIDER_OUTAGE})
        return _waiting(inputs, failure.reason, Discrepancy.UNKNOWN_STATE, words)
    if not inputs.readings:
        return _waiting(inputs, "Nothing has been read yet.", Discrepancy.UNKNOWN_STATE)
    sources = {reading.source for reading in inputs.readings}
    if len(sources) < inputs.facts.sources_needed:
        detail = f"{len(sources)} of {inputs.facts.sources_needed} sources have answered."
        return _waiting(inputs, detail, Discrepancy.UNKNOWN_STATE)
    return None


def _weak(inputs: Inputs, reading: Reading) -> Verdict:
    reason = f"{reading.source} answered as {reading.trusted_as}, which settles nothing."
    words = frozenset({OBSERVATION_AUTHORITY_MISMATCH})
    verdict = _waiting(inputs, reason, Discrepancy.UNVERIFIABLE_STATE, words)
    return replace(verdict, consistency=reading.trusted_as)


def _unverifiable(reason: str) -> Verdict:
    return Verdict(
        result=Result.UNKNOWN,
        decisive=False,
        reason=reason,
        discrepancy=Discrepancy.UNVERIFIABLE_STATE,
        triggers=triggers(Discrepancy.UNVERIFIABLE_STATE, claimed=False),
    )


def _waiting(
    inputs: Inputs,
    reason: str,
    discrepancy: Discrepancy,
    words: frozenset[str] | None = None,
    *,
    awaits_horizon: bool = False,
) -> Verdict:
    """A verdict that leaves the action open, or says that the time for that is over."""
    lag = discrepancy is Discrepancy.PROPAGATION_DELAY
    if inputs.at >= deadline(inputs) or inputs.attempts >= MAX_ATTEMPTS:
        late = {str(discrepancy)} if lag else {VERIFICATION_TIMEOUT}
        return Verdict(
            result=Result.PENDING if lag else Result.UNKNOWN,
            decisive=False,
            reason=f"No verdict came in time. {reason}",
            discrepancy=discrepancy,
            triggers=frozenset(late),
            timed_out=True,
        )
    return Verdict(
        result=Result.PENDING,
        decisive=False,
        reason=reason,
        discrepancy=discrepancy,
        triggers=_words(inputs) if words is None else words,
        awaits_horizon=awaits_horizon,
    )


def _words(inputs: Inputs) -> frozenset[str]:
    """Why nothing can be said yet: a claim not yet borne out, silence, or an answer that is no claim."""
    if inputs.claimed_success:
        return frozenset({OBSERVATION_AUTHORITY_MISMATCH})
    silent = inputs.observation is None or inputs.observation.status is observe.Status.TIMEOUT
    return frozenset({PENDING_TIMEOUT}) if silent else frozenset()


# Layers 3 to 7: what strong readings say


def _finding(inputs: Inputs, name: str) -> EffectFinding:
    seen = [reading.effect(name) for reading in inputs.readings]
    found = {_found(effect, mutating=inputs.facts.mutating) for effect in seen}
    count = max(effect.count for effect in seen)
    if len(found) == 1:
        return EffectFinding(name, found.pop(), count)
    for one in (Found.DUPLICATE, Found.UNTOLD):
        if one in found:
            return EffectFinding(name, one, count)
    both = Found.ABSENT in found
    return EffectFinding(name, Found.DIVERGENT if both else Found.PENDING, count)


def _found(effect: Effect, *, mutating: bool) -> Found:
    if effect.present is None:
        return Found.UNTOLD
    if not effect.present:
        return Found.ABSENT
    # What is only looked up may well be there more than once.
    if effect.count > 1 and mutating:
        return Found.DUPLICATE
    return Found.PENDING if effect.pending else Found.PRESENT


def _predicates(inputs: Inputs, reading: Reading) -> tuple[PredicateResult, ...]:
    return predicates.evaluate(
        reading,
        bindings=bindings(inputs, reading),
        contract=inputs.facts.predicates,
        added=inputs.added_predicates,
        target_resource=inputs.target_resource,
    )


def _judged(inputs: Inputs, found: tuple[EffectFinding, ...], results: tuple[PredicateResult, ...]) -> Verdict:
    pointed = pointed_to({key for reading in inputs.readings for key in reading.indicators})
    if not inputs.facts.mutating:
        pointed = pointed - {Discrepancy.DUPLICATE_SIDE_EFFECT}
    grave = pointed | _grave(found, results)
    if grave & {Discrepancy.WRONG_TARGET_MODIFIED, Discrepancy.DUPLICATE_SIDE_EFFECT}:
        return _mismatch(inputs, grave | _false(results), found)
    if not inputs.facts.mutating and not inputs.claimed_success:
        return _unanswered(inputs)
    if Discrepancy.UNVERIFIABLE_STATE in pointed:
        return _unverifiable("The source says that it cannot be relied on here.")
    untold = [one.name for one in found if one.found is Found.UNTOLD]
    if untold or Discrepancy.UNKNOWN_STATE in pointed:
        reason = f"The source could not tell about {', '.join(untold) or 'the effect'}."
        return _waiting(inputs, reason, Discrepancy.UNKNOWN_STATE)
    if any(one.found in LACKING for one in found):
        return _lacking(inputs, found, pointed)
    lags = [one.name for one in found if one.found is Found.PENDING]
    if lags or Discrepancy.PROPAGATION_DELAY in pointed:
        return _lagging(inputs, lags, pointed)
    return _complete(inputs, found, results, pointed)


def _grave(found: tuple[EffectFinding, ...], results: tuple[PredicateResult, ...]) -> set[Discrepancy]:
    grave = set()
    if any(one.origin is Origin.SCOPE and one.holds is Holds.FALSE for one in results):
        grave.add(Discrepancy.WRONG_TARGET_MODIFIED)
    if any(one.found is Found.DUPLICATE for one in found):
        grave.add(Discrepancy.DUPLICATE_SIDE_EFFECT)
    return grave


def _false(results: tuple[PredicateResult, ...]) -> set[Discrepancy]:
    wrong = any(one.holds is Holds.FALSE and one.origin is not Origin.SCOPE for one in results)
    return {Discrepancy.VALUE_MISMATCH} if wrong else set()


def _lacking(inputs: Inputs, found: tuple[EffectFinding, ...], pointed: set[Discrepancy]) -> Verdict:
    """Some of what was wanted is not there (layer 4)."""
    names = ", ".join(one.name for one in found if one.found in LACKING)
    working = inputs.observation is not None and inputs.observation.status in observe.STILL_WORKING
    if working:
        reason = f"The target says that it is still working; not found so far: {names}."
        return _waiting(inputs, reason, Discrepancy.UNKNOWN_STATE)
    # Each source must have been asked after the horizon: a late effect may reach one before another.
    if min(reading.observed_at for reading in inputs.readings) < inputs.horizon_at:
        reason = f"Not found so far: {names}. It may still arrive until the late-effect horizon."
        return _waiting(inputs, reason, Discrepancy.UNKNOWN_STATE, awaits_horizon=True)
    if any(one.found in SEEN for one in found):
        return _mismatch(inputs, pointed | {Discrepancy.PARTIAL_APPLICATION}, found)
    stale = _is_stale(inputs, pointed)
    gone = _is_gone(inputs, pointed)
    if inputs.claimed_success:
        nothing = {Discrepancy.NO_OP_FAILURE} | ({Discrepancy.TARGET_MISSING} if gone else set())
        return _mismatch(inputs, nothing, found)
    if gone or stale:
        cause = Discrepancy.TARGET_MISSING if gone else Discrepancy.STALE_STATE
        return _agreed(f"A strong read shows no effect, and why: {cause}.", cause)
    return _agreed("A strong read after the late-effect horizon shows no effect.", None)


def _is_stale(inputs: Inputs, pointed: set[Discrepancy]) -> bool:
    code = inputs.observation.error_code if inputs.observation else None
    refused = code in STALE_ERRORS or code in inputs.facts.stale_errors
    return (code is not None and refused) or Discrepancy.STALE_STATE in pointed


STALE_ERRORS = frozenset({"STALE_STATE", "STALE_STATE_ERROR", "VERSION_CONFLICT", "ETAG_MISMATCH"})
"""Error codes that mean "the target had moved on" in every contract; a contract may name more."""


def _is_gone(inputs: Inputs, pointed: set[Discrepancy]) -> bool:
    targets = [reading.target for reading in inputs.readings if reading.target is not None]
    absent = any(target.get("exists") is False for target in targets)
    return absent or Discrepancy.TARGET_MISSING in pointed


def _agreed(reason: str, discrepancy: Discrepancy | None) -> Verdict:
    """Nothing happened, and nobody had said that it did."""
    words = triggers(discrepancy, claimed=False) if discrepancy else frozenset()
    return Verdict(
        result=Result.ABSENT,
        decisive=True,
        reason=reason,
        discrepancy=discrepancy,
        triggers=words,
    )


def _unanswered(inputs: Inputs) -> Verdict:
    """A read-only action that brought no answer: it changed nothing, and RT-45 may ask again."""
    verdict = _agreed("The reading did not succeed, and it changes nothing.", None)
    return replace(verdict, triggers=_words(inputs))


def _lagging(inputs: Inputs, lags: list[str], pointed: set[Discrepancy]) -> Verdict:
    delay = Discrepancy.PROPAGATION_DELAY
    reason = f"Committed, but what is fed by it has not caught up: {', '.join(lags) or 'a system'}."
    verdict = _waiting(inputs, reason, delay, triggers(delay, claimed=inputs.claimed_success))
    others = ranked(pointed - {delay})
    return replace(verdict, secondary=others)


def _complete(
    inputs: Inputs,
    found: tuple[EffectFinding, ...],
    results: tuple[PredicateResult, ...],
    pointed: set[Discrepancy],
) -> Verdict:
    """Everything that was wanted is there; is it right (layers 6 and 7)?"""
    gone = {Discrepancy.TARGET_MISSING} if _is_gone(inputs, pointed) else set()
    wrong = pointed | _false(results) | gone
    if wrong:
        return _mismatch(inputs, wrong, found)
    undecidable = next((one for one in results if one.holds is Holds.UNDECIDABLE), None)
    if undecidable is not None:
        return _unverifiable(f"Cannot be decided: {undecidable.text} ({undecidable.reason})")
    if _held_before(inputs):
        return Verdict(
            result=Result.SUCCESS if inputs.facts.no_op_success_allowed else Result.MISMATCH,
            decisive=True,
            reason="The wanted state held before the action ran.",
            discrepancy=Discrepancy.NO_OP_SUCCESS,
            triggers=triggers(Discrepancy.NO_OP_SUCCESS, claimed=False),
        )
    return Verdict(result=Result.SUCCESS, decisive=True, reason="Every predicate holds.")


def _held_before(inputs: Inputs) -> bool:
    before, required = inputs.baseline, inputs.facts.required_effects
    if before is None or not before.is_strong or not required or not inputs.facts.mutating:
        return False
    if not all(before.effect(name).present for name in required):
        return False
    held = (one.holds for one in _predicates(inputs, before))
    return all(one in {Holds.TRUE, Holds.NOT_APPLICABLE} for one in held)


def _mismatch(inputs: Inputs, classes: set[Discrepancy], found: tuple[EffectFinding, ...]) -> Verdict:
    first, *others = ranked(classes)
    result = {
        Discrepancy.DUPLICATE_SIDE_EFFECT: Result.DUPLICATE,
        Discrepancy.PARTIAL_APPLICATION: Result.PARTIAL,
    }.get(first, Result.MISMATCH)
    return Verdict(
        result=result,
        decisive=True,
        reason=_account(first, found),
        discrepancy=first,
        secondary=tuple(others),
        triggers=triggers(first, claimed=inputs.claimed_success),
    )


def _account(discrepancy: Discrepancy, found: tuple[EffectFinding, ...]) -> str:
    listed = ", ".join(f"{one.name} {one.found.lower()} ({one.count})" for one in found)
    return f"A strong read shows {discrepancy}: {listed or 'no effect is declared'}."
