"""Reconciliation: intended, requested, observed and authoritative state become one verdict (R-RC-01, R-RC-07).

What is asked, in this order; the first that applies decides:

1. Is there a way to look at all? Without one, or when looking can never work: UNVERIFIABLE_STATE.
2. Did the system answer, from every source that the class asks for (`sources`, R-RC-13), and was the answer
   fresh? An outage, a missing source and a weak source settle nothing: look again. A weak source never
   counts for success, nor for absence (R-VD-09).
3. Did the effect land outside the authorised scope, or twice? That is decisive at once.
4. Is an effect that was wanted absent? Before the late-effect horizon, and while the target says that
   it is still working, it may yet arrive. After it: all absent is "nothing happened" (a NO_OP_FAILURE
   where the tool had claimed success), some absent is PARTIAL_APPLICATION.
5. Do systems fed by the authority lag? PROPAGATION_DELAY: wait.
6. Did an indicator fire, or a predicate fail? No success even if all else holds (R-CP-16). Is one
   undecidable? Then nobody can tell: never success (R-RC-04).
7. Did the wanted state hold before? NO_OP_SUCCESS. Does the tool itself report more than was wanted (`reported`)?
   DUPLICATE_SIDE_EFFECT, or nobody can tell. Otherwise: success.
8. Was every check made that the class demands (`depth`)? Else nobody can tell.
9. Does a source that only testifies see it otherwise? Then neither success nor absence: look again, and in the
   end nobody can tell.

Waiting ends at the SLA, but not before the horizon: then the verdict is that no verdict came in time.

A difference that a verified correction has made good (`RunInputs.corrected`) counts as success where exactly that
difference is still shown, and no other; of a CRITICAL_MUTATION it is for a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from reviews.observations.rules import observe
from reviews.reconciliation.rules import depth, findings, freshness, witnesses
from reviews.reconciliation.rules.difference import find_difference
from reviews.reconciliation.rules.discrepancies import (
    OBSERVATION_AUTHORITY_MISMATCH,
    PROVIDER_OUTAGE,
    Discrepancy,
    indicated_discrepancies,
    rank_discrepancies,
    recovery_triggers,
)
from reviews.reconciliation.rules.facts import ReadFailure, RunInputs
from reviews.reconciliation.rules.independence import SourceIndependence, source_independence
from reviews.reconciliation.rules.predicates import PredicateOutcome, PredicateResult
from reviews.reconciliation.rules.reading import Reading
from reviews.reconciliation.rules.verdict import (
    GRAVE,
    LACKING,
    SEEN,
    EffectFinding,
    EffectStatus,
    Verdict,
    VerificationResult,
    mismatch_verdict,
    pending_triggers,
    pending_verdict,
    unverifiable_verdict,
)
from reviews.recovery.rules import retries


def deciding_readings(inputs: RunInputs) -> tuple[Reading, ...]:
    """The readings that decide the verdict (R-RC-13, R-VD-06, C-25).

    1. A CRITICAL_MUTATION is decided by all sources that its contract declares; each must answer strongly. With one
       declared source, or several names of one (`independence`), neither success nor absence can be told.
    2. A READ_ONLY action is decided by the first source, in the declared order, that answers strongly; the others are
       the alternates of the class's fallback (RT-43).
    3. Every other class is decided by the primary source.
    """
    if inputs.facts.critical:
        return inputs.readings
    primary = tuple(reading for reading in inputs.readings if not reading.name)
    if inputs.facts.mutating or any(reading.is_strong for reading in primary):
        return primary
    alternate = next((reading for reading in inputs.readings if reading.is_strong), None)
    return primary if alternate is None else (alternate,)


def witness_readings(inputs: RunInputs) -> tuple[Reading, ...]:
    """Return the further readings that can contradict the deciding ones but decide nothing.

    Where one that answers strongly disagrees, nothing is reported as done or as not done; where it is silent or weak,
    the primary source stands alone.
    """
    if inputs.facts.critical or not inputs.facts.mutating:
        return ()
    return tuple(reading for reading in inputs.readings if reading.name and reading.is_strong)


def unanswered_sources(inputs: RunInputs) -> tuple[tuple[str, ReadFailure | None], ...]:
    """Return the sources that must answer and have not, each with the reason if it is known; the primary one has no
    name.
    """
    answered = {reading.name for reading in inputs.readings}
    failures = {failure.source: failure for failure in (inputs.failure, *inputs.silent) if failure is not None}
    wanted = ["", *(source.name for source in inputs.facts.further)] if inputs.facts.critical else [""]
    if not inputs.facts.mutating and deciding_readings(inputs):
        return ()
    return tuple((name, failures.get(name)) for name in wanted if name not in answered)


def lacks_second_source(inputs: RunInputs) -> bool:
    """Return whether the class requires several sources and the contract declares only one."""
    return inputs.facts.critical and not inputs.facts.further


_LONGEST = 80


@dataclass(frozen=True)
class ExtraEffects:
    """The effects that a tool reports beyond the wanted ones (R-TC-20).

    A wanted effect that is reported more than once is a DUPLICATE_SIDE_EFFECT even if the source shows one: the other
    may be where nobody looked. A reported effect that was not wanted was not looked for, so nobody can tell. Reported
    effects only ever prevent success; they never count as evidence for it (R-OB-03).
    """

    repeated: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


def extra_effects(inputs: RunInputs, *, replayed: Collection[str] = ()) -> ExtraEffects:
    """Compare the effects that the tool reports in `side_effects` with the wanted ones; count an effect replayed under
    the same key once.
    """
    wanted = inputs.facts.required_effects
    if inputs.observation is None or not wanted or not inputs.facts.mutating:
        return ExtraEffects()
    counted = Counter(_name(one) for one in inputs.observation.side_effects)
    return ExtraEffects(
        tuple(name for name in wanted if counted[name] > 1 and name not in replayed),
        tuple(sorted(name for name in counted if name not in wanted)),
    )


def _name(effect: Any) -> str:
    named = effect.get("effect") if isinstance(effect, Mapping) else effect
    text = str(named if isinstance(named, str) else effect)
    return "".join(one if one.isprintable() else "?" for one in text)[:_LONGEST]


def reconcile(inputs: RunInputs) -> Verdict:
    """Return the verdict over everything known now."""
    inputs = _with_readings(inputs, freshness.mark_stale(inputs))
    unread = _unread_verdict(inputs)
    if unread is not None:
        return unread
    deciding, testifying = deciding_readings(inputs), witness_readings(inputs)
    weak = next((reading for reading in deciding if not reading.is_strong), None)
    if weak is not None:
        return _weak_verdict(inputs, weak)
    found, results = findings.effect_findings(inputs, deciding), findings.evaluate_predicates(inputs, deciding)
    excused = retries.replayed_effects(inputs, deciding, found)
    found = retries.count_replays_once(found, excused)
    verdict = _mark_replayed(_judge_readings(_with_readings(inputs, deciding), found, results, excused), excused)
    if testifying:
        verdict = witnesses.apply_witnesses(inputs, verdict, found, testifying)
        results += findings.evaluate_predicates(inputs, testifying)
    independent = source_independence(inputs.readings)
    lacking = _lacks_sources(inputs, independent)
    if lacking and (witnesses.confirms_all(verdict) or witnesses.confirms_absence(verdict)):
        verdict = unverifiable_verdict(f"A critical mutation is told by several sources, and {lacking}")
    checks = depth.required_checks(depth.RunEvidence(inputs=inputs, readings=deciding, found=found, results=results))
    unmade = depth.missing_checks(inputs, checks) if witnesses.confirms_all(verdict) else ()
    if unmade:
        verdict = unverifiable_verdict(f"The class asks for more than was checked: {unmade[0].check}. {unmade[0].by}")
    verdict = replace(
        verdict,
        effects=found,
        predicates=results,
        checks=checks,
        consistency=deciding[0].consistency,
        independence=independent,
    )
    return _count_correction(inputs, verdict, deciding[0])


def _count_correction(inputs: RunInputs, verdict: Verdict, reading: Reading) -> Verdict:
    """The verdict where a verified correction has made good what is shown."""
    corrected = inputs.corrected
    if corrected is None or not corrected.may_stay or inputs.facts.critical:
        return verdict
    shown = {
        "layers": {"sr": inputs.sr},
        "readings": [asdict(reading)],
        "verdict": {**asdict(verdict), "discrepancy": verdict.discrepancy},
    }
    if find_difference(shown) != corrected:
        return verdict
    return replace(
        verdict,
        result=VerificationResult.SUCCESS,
        reason="It shows what it showed before, and a verified correction has made good the difference.",
        discrepancy=None,
        secondary=(),
        triggers=frozenset(),
    )


def _lacks_sources(inputs: RunInputs, independent: SourceIndependence | None) -> str:
    """Return the reason why a class that requires several sources had only one, as the end of a sentence; otherwise
    empty.
    """
    if lacks_second_source(inputs):
        return "its contract declares one."
    if inputs.facts.critical and independent is not None and independent.independent < 2:
        return f"this run had one: {independent.reason}"
    return ""


def _with_readings(inputs: RunInputs, readings: tuple[Reading, ...]) -> RunInputs:
    return inputs if readings == inputs.readings else replace(inputs, readings=readings)


def contradicts(verdict: Verdict, *, succeeded: bool) -> bool:
    """Return whether a later decisive reading disagrees with how an action was settled (Late truth)."""
    if not verdict.decisive:
        return False
    if succeeded:
        return verdict.result is not VerificationResult.SUCCESS
    return verdict.effect_seen or verdict.discrepancy is Discrepancy.WRONG_TARGET_MODIFIED


# Layers 1 and 2: can it be looked at, and was it?


def _unread_verdict(inputs: RunInputs) -> Verdict | None:
    if not inputs.facts.verifiable:
        return unverifiable_verdict("The contract declares no way to look at the effect.")
    missing = unanswered_sources(inputs)
    failures = [failure for _, failure in missing if failure is not None]
    final = next((failure for failure in failures if not failure.retryable), None)
    if final is not None:
        return unverifiable_verdict(_of_source(final))
    if failures:
        words = frozenset({PROVIDER_OUTAGE})
        return pending_verdict(inputs, _of_source(failures[0]), Discrepancy.UNKNOWN_STATE, words)
    if missing and not inputs.readings:
        return pending_verdict(inputs, "Nothing has been read yet.", Discrepancy.UNKNOWN_STATE)
    if missing:
        detail = f"Not answered yet: {', '.join(name or 'the primary source' for name, _ in missing)}."
        return pending_verdict(inputs, detail, Discrepancy.UNKNOWN_STATE)
    return None


def _of_source(failure: ReadFailure) -> str:
    return f"{failure.source}: {failure.reason}" if failure.source else failure.reason


def _weak_verdict(inputs: RunInputs, reading: Reading) -> Verdict:
    reason = f"{reading.source} answered as {reading.trusted_as}, which settles nothing."
    reason += f" {reading.caveat}" if reading.caveat else ""
    words = frozenset({OBSERVATION_AUTHORITY_MISMATCH})
    verdict = pending_verdict(inputs, reason, Discrepancy.UNVERIFIABLE_STATE, words)
    return replace(verdict, consistency=reading.trusted_as, doubt=True)


# Layers 3 to 7: what strong readings say


def _mark_replayed(verdict: Verdict, excused: frozenset[str]) -> Verdict:
    """Mark a success whose repeated effect was replayed as such (RT-13)."""
    if not excused or verdict.result is not VerificationResult.SUCCESS:
        return verdict
    duplicate = Discrepancy.DUPLICATE_SIDE_EFFECT
    reason = f"Every predicate holds; {', '.join(sorted(excused))} was replayed under the same key."
    return replace(
        verdict,
        reason=reason,
        discrepancy=duplicate,
        triggers=recovery_triggers(duplicate, claimed=False),
        equivalent=True,
    )


def _judge_readings(
    inputs: RunInputs,
    found: tuple[EffectFinding, ...],
    results: tuple[PredicateResult, ...],
    excused: frozenset[str],
) -> Verdict:
    indicated = indicated_discrepancies({key for reading in inputs.readings for key in reading.indicators})
    if not inputs.facts.mutating or excused:
        indicated = indicated - {Discrepancy.DUPLICATE_SIDE_EFFECT}
    grave = indicated | findings.decisive_discrepancies(found, results)
    if grave & GRAVE:
        return mismatch_verdict(inputs, grave | findings.predicate_discrepancies(results), found)
    if not inputs.facts.mutating and not inputs.claimed_success:
        return _unanswered_verdict(inputs)
    if Discrepancy.UNVERIFIABLE_STATE in indicated:
        return unverifiable_verdict("The source says that it cannot be relied on here.")
    untold = [one.name for one in found if one.found is EffectStatus.UNTOLD]
    if untold or Discrepancy.UNKNOWN_STATE in indicated:
        reason = f"The source could not tell about {', '.join(untold) or 'the effect'}."
        if untold and all(reading.effect(name).pending for reading in inputs.readings for name in untold):
            reason = f"Accepted by the source, and not carried out yet: {', '.join(untold)}."
        return pending_verdict(inputs, reason, Discrepancy.UNKNOWN_STATE)
    if any(one.found in LACKING for one in found):
        return _lacking_verdict(inputs, found, indicated)
    lags = [one.name for one in found if one.found is EffectStatus.PENDING]
    if lags or Discrepancy.PROPAGATION_DELAY in indicated:
        return _lagging_verdict(inputs, lags, indicated)
    return _reject_extra_effects(inputs, _judge_complete(inputs, found, results, indicated), excused)


def _reject_extra_effects(inputs: RunInputs, verdict: Verdict, excused: frozenset[str]) -> Verdict:
    """Allow no success over an answer that reports more than was wanted (layer 7, R-TC-20)."""
    more = extra_effects(inputs, replayed=excused)
    if verdict.result is not VerificationResult.SUCCESS or not (more.repeated or more.unwanted):
        return verdict
    if not more.repeated:
        return unverifiable_verdict(
            f"The tool reports what was not wanted, and nobody looked for: {', '.join(more.unwanted)}."
        )
    duplicate = Discrepancy.DUPLICATE_SIDE_EFFECT
    return Verdict(
        result=VerificationResult.DUPLICATE,
        decisive=True,
        reason=f"Read once, but the tool reports it more than once: {', '.join(more.repeated)}.",
        discrepancy=duplicate,
        triggers=recovery_triggers(duplicate, claimed=inputs.claimed_success),
    )


def _lacking_verdict(inputs: RunInputs, findings: tuple[EffectFinding, ...], indicated: set[Discrepancy]) -> Verdict:
    """Return the verdict if some wanted effects are missing (layer 4)."""
    names = ", ".join(one.name for one in findings if one.found in LACKING)
    working = inputs.observation is not None and inputs.observation.status in observe.STILL_WORKING
    if working:
        reason = f"The target says that it is still working; not found so far: {names}."
        return pending_verdict(inputs, reason, Discrepancy.UNKNOWN_STATE)
    # Each source must have been asked after the horizon: a late effect may reach one before another.
    if min(reading.observed_at for reading in inputs.readings) < inputs.horizon_at:
        reason = f"Not found so far: {names}. It may still arrive until the late-effect horizon."
        return pending_verdict(inputs, reason, Discrepancy.UNKNOWN_STATE, awaits_horizon=True)
    if any(one.found in SEEN for one in findings):
        return mismatch_verdict(inputs, indicated | {Discrepancy.PARTIAL_APPLICATION}, findings)
    stale = _is_stale(inputs, indicated)
    gone = _is_gone(inputs, indicated)
    if inputs.claimed_success:
        nothing = {Discrepancy.NO_OP_FAILURE} | ({Discrepancy.TARGET_MISSING} if gone else set())
        return mismatch_verdict(inputs, nothing, findings)
    if gone:
        return _absent_verdict("A strong read shows no effect, and no target.", Discrepancy.TARGET_MISSING)
    if stale:
        return _absent_verdict(f"A strong read shows no effect. {_stale_ground(inputs)}", Discrepancy.STALE_STATE)
    return _absent_verdict("A strong read after the late-effect horizon shows no effect.", None)


def _is_stale(inputs: RunInputs, indicated: set[Discrepancy]) -> bool:
    return bool(_stale_error(inputs)) or Discrepancy.STALE_STATE in indicated


def _stale_error(inputs: RunInputs) -> str:
    """The tool's error code, if it means that the target had moved on."""
    code = (inputs.observation.error_code if inputs.observation else None) or ""
    return code if code in STALE_ERRORS or code in inputs.facts.stale_errors else ""


def _stale_ground(inputs: RunInputs) -> str:
    """The sentence that names the witness of a changed target: the tool by its answer, or the reading."""
    code = _stale_error(inputs)
    return f"The tool refused it, because the target had changed ({code})." if code else "The target had changed."


STALE_ERRORS = frozenset({"STALE_STATE", "STALE_STATE_ERROR", "VERSION_CONFLICT", "ETAG_MISMATCH"})
"""Error codes that mean "the target had moved on" in every contract; a contract may name more."""


def _is_gone(inputs: RunInputs, indicated: set[Discrepancy]) -> bool:
    targets = [reading.target for reading in inputs.readings if reading.target is not None]
    absent = any(target.get("exists") is False for target in targets)
    return absent or Discrepancy.TARGET_MISSING in indicated


def _absent_verdict(reason: str, discrepancy: Discrepancy | None) -> Verdict:
    """The verdict that no effect occurred and none was claimed."""
    words = recovery_triggers(discrepancy, claimed=False) if discrepancy else frozenset()
    return Verdict(
        result=VerificationResult.ABSENT,
        decisive=True,
        reason=reason,
        discrepancy=discrepancy,
        triggers=words,
    )


def _unanswered_verdict(inputs: RunInputs) -> Verdict:
    """Return the verdict on a read-only action without an answer: it changed nothing, and may be repeated (RT-45)."""
    verdict = _absent_verdict("The reading did not succeed, and it changes nothing.", None)
    return replace(verdict, triggers=pending_triggers(inputs))


def _lagging_verdict(inputs: RunInputs, lags: list[str], indicated: set[Discrepancy]) -> Verdict:
    delay = Discrepancy.PROPAGATION_DELAY
    reason = f"Committed, but what is fed by it has not caught up: {', '.join(lags) or 'a system'}."
    verdict = pending_verdict(inputs, reason, delay, recovery_triggers(delay, claimed=inputs.claimed_success))
    others = rank_discrepancies(indicated - {delay})
    return replace(verdict, secondary=others)


def _judge_complete(
    inputs: RunInputs,
    found: tuple[EffectFinding, ...],
    results: tuple[PredicateResult, ...],
    indicated: set[Discrepancy],
) -> Verdict:
    """Return the verdict if every wanted effect exists: whether each is right (layers 6 and 7)."""
    gone = {Discrepancy.TARGET_MISSING} if _is_gone(inputs, indicated) else set()
    wrong = indicated | findings.predicate_discrepancies(results) | gone
    if wrong:
        return mismatch_verdict(inputs, wrong, found)
    undecidable = next((one for one in results if one.holds is PredicateOutcome.UNDECIDABLE), None)
    if undecidable is not None:
        return unverifiable_verdict(f"Cannot be decided: {undecidable.text} ({undecidable.reason})")
    if _held_before(inputs):
        return Verdict(
            result=VerificationResult.SUCCESS if inputs.facts.no_op_success_allowed else VerificationResult.MISMATCH,
            decisive=True,
            reason="The wanted state held before the action ran.",
            discrepancy=Discrepancy.NO_OP_SUCCESS,
            triggers=recovery_triggers(Discrepancy.NO_OP_SUCCESS, claimed=False),
        )
    return Verdict(result=VerificationResult.SUCCESS, decisive=True, reason="Every predicate holds.")


def _held_before(inputs: RunInputs) -> bool:
    before, required = inputs.baseline, inputs.facts.required_effects
    if before is None or not before.is_strong or not required or not inputs.facts.mutating:
        return False
    if not all(before.effect(name).present for name in required):
        return False
    held = (one.holds for one in findings.evaluate_on_source(inputs, before))
    return all(one in {PredicateOutcome.TRUE, PredicateOutcome.NOT_APPLICABLE} for one in held)
