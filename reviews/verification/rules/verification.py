"""Judges one verification run, from its inputs to the events to write (R-CX-02, R-SM-25, R-RC-08).

`run` composes reconciliation, classification and recovery. It returns every step to append, in order,
each with its kind, reason, grounds and the entry's changes; whether a case, an incident and a freeze
follow; and when to look again. It decides nothing that `reconcile` and `recovery` have not decided.

1. Verification happens in PENDING. An ACCEPTED action goes there first, and an UNKNOWN one as well, unless
   the idempotency record's row says that a person must look (RT-07, RT-08, RT-45 to RT-49).
2. A decisive verdict is walked to its end in one go, each hop an event (C-05, C-09).
3. A waiting verdict moves nothing; it is written down when its class or decision is a new one, and so are an
   action's first reading and a doubt that counts (`recorded_steps`): the rest would fill the ledger with polling.
   Whatever is written down is an event.
4. The entry keeps the last recovery decision when the action ends well: it says how one got there.
5. After a forward recovery the action's own predicates are read again, and after a rollback its target: only
   what they show ends it (R-RP-31, R-RP-33). What they do not show in time is for a person.
6. A tool that only reads and names no check has no effect to read back: its answer is checked instead, and each step
   says so by a kind and a ground of its own (`answer_checks`).
7. A tool that says it has rolled its local transaction back is read at once, still EXECUTING (C-02, R-RP-36). It stays
   so while a reading shows no effect and absence cannot be believed yet: from PENDING no way leads to ROLLED_BACK.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from ledger.catalogue.rules.effects import Boundary
from ledger.record.rules.lifecycle import NEEDS, Ground, State
from reviews.cases.rules import review_triggers as attention
from reviews.readback.rules import schedule
from reviews.reconciliation.rules import answer_checks, predicates
from reviews.reconciliation.rules.discrepancies import PENDING_TIMEOUT, Discrepancy, recovery_triggers
from reviews.reconciliation.rules.facts import RunInputs
from reviews.reconciliation.rules.findings import run_bindings
from reviews.reconciliation.rules.reading import DECISIVE
from reviews.reconciliation.rules.reconcile import reconcile
from reviews.reconciliation.rules.verdict import (
    LACKING,
    MAX_ATTEMPTS,
    SEEN,
    Verdict,
    VerificationResult,
    waiting_deadline,
)
from reviews.recovery.rules import recovery, retries
from reviews.recovery.rules.recovery import RecoveryDecision, RecoveryOptions
from reviews.recovery.rules.recovery_table import RecoverySituation
from reviews.recovery.rules.remedies import RELATIONS, PlanBasis, RecoveryOrder, plan_recovery
from reviews.verification.rules.steps import KINDS, WAITING, Changes, Entry, LifecycleStep, apply_changes, entry_changes

VERIFIABLE_IN = frozenset({State.PENDING, State.ACCEPTED, State.UNKNOWN})
READ_AFTER_RECOVERY = frozenset({State.FORWARD_RECOVERY, State.RECONCILIATION_FAILED})
"""Where a recovery action has ended and the action's own reading decides (rule 5)."""

PRESERVED = "PRESERVE_UNKNOWN_AND_BLOCK"
_NOT_DECIDED = RecoveryDecision(row=None, action=None, next_read=True)
_FINAL_FAILURES = frozenset({Discrepancy.STALE_STATE, Discrepancy.TARGET_MISSING})
_WITHOUT_FINDING = frozenset({State.PENDING, State.COMMITTED})
_NEED_A_VERDICT = frozenset({State.COMMITTED, State.RECONCILIATION_FAILED, State.FAILED})


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """The outcome of one run.

    `settled` says that automation is through with the action: nothing more is polled (C-62). `freeze`
    lists the targets to freeze, the intended one first. `attention` names the review triggers that fired:
    they open a case beside whatever else follows (R-RP-50).
    """

    verdict: Verdict
    decision: RecoveryDecision
    steps: tuple[LifecycleStep, ...]
    state: State
    next_read_at: datetime | None
    retry_at: datetime | None
    settled: bool
    case: bool
    attention: tuple[str, ...]
    incident: str | None
    freeze: tuple[str, ...]

    @property
    def is_plain_success(self) -> bool:
        """Return True if the action ends verified and nothing else follows, for it or for any other action."""
        follows = self.decision.orders or self.freeze or self.attention or self.case or self.incident is not None
        is_over = self.settled and self.next_read_at is None and self.retry_at is None
        return self.state is State.RECONCILED_SUCCESS and is_over and bool(self.steps) and not follows


def judge_run(inputs: RunInputs) -> RunOutcome:
    """The outcome of one verification run."""
    return _judge_answer(inputs) if inputs.facts.answer_only else _read_back(inputs)


def recorded_steps(inputs: RunInputs, outcome: RunOutcome) -> tuple[LifecycleStep, ...]:
    """Return the events of a run to record, at least one; empty if it adds nothing new (rule 3)."""
    is_first = inputs.pacing.asked and inputs.attempts == 0
    counts_as_doubt = outcome.verdict.doubt and inputs.doubts < inputs.facts.repeat_limit
    if outcome.steps or not (is_first or counts_as_doubt):
        return outcome.steps
    return (LifecycleStep(state=inputs.state, kind=WAITING, reason=outcome.verdict.reason, moves=False),)


def _read_back(inputs: RunInputs) -> RunOutcome:
    """The outcome of a run that read the system of record, or tried to."""
    if inputs.state in READ_AFTER_RECOVERY:
        return _read_after(inputs)
    if inputs.state is State.EXECUTING:
        undone = _read_undone(inputs)
        if undone is not None:
            return undone
    elif inputs.state not in VERIFIABLE_IN:
        raise ValueError(f"an action in {inputs.state} is not verified this way")
    opening = _opening(inputs)
    if opening is not None and State.REVIEW_REQUIRED in opening.path:
        verdict = replace(reconcile(inputs), triggers=frozenset({PENDING_TIMEOUT}))
        return _outcome(inputs, verdict, opening, list(_walk_path(inputs, verdict, opening)))
    if opening is not None and opening.action == PRESERVED:
        return _preserve_unknown(inputs, opening)
    steps = list(_first_step(inputs, opening))
    started = _inputs_after(inputs, steps)
    verdict = retries.retry_verdict(started, _require_reversal(started, reconcile(started)))
    decision = _decide(started, verdict)
    if decision.path:
        steps += _walk_path(started, verdict, decision)
    else:
        steps += _note_waiting(started, verdict, decision)
    return _outcome(started, verdict, decision, steps)


def _judge_answer(inputs: RunInputs) -> RunOutcome:
    """Return the outcome of a read whose answer is all that can be judged (rule 6)."""
    steps = []
    if inputs.state is not State.PENDING:
        changes = entry_changes(State.PENDING, inputs.entry, at=inputs.at)
        reason = "No answer is there yet; a read changes nothing meanwhile."
        kind = answer_checks.ANSWER_KINDS[State.PENDING]
        steps.append(LifecycleStep(state=State.PENDING, kind=kind, reason=reason, entry=changes))
    started = _inputs_after(inputs, steps)
    verdict = answer_checks.judge_answer(started)
    path = answer_checks.PATHS[verdict.result]
    decision = RecoveryDecision(row=None, action=None, path=path, next_read=not verdict.decisive)
    return _outcome(started, verdict, decision, [*steps, *_walk_path(started, verdict, decision)])


def _preserve_unknown(inputs: RunInputs, opening: RecoveryDecision) -> RunOutcome:
    """Preserve the unknown outcome, block a repeat and hand it to a person: the idempotency record is about something
    else.
    """
    reason = f"The idempotency record says {inputs.idempotency_status}, which does not tell what came of this attempt."
    kept = Verdict(
        result=VerificationResult.UNKNOWN,
        decisive=False,
        reason=reason,
        discrepancy=Discrepancy.UNKNOWN_STATE,
        triggers=recovery_triggers(Discrepancy.UNKNOWN_STATE, claimed=False),
    )
    finding = {"reconciliation": _finding(kept, opening)}
    step = LifecycleStep(state=State.UNKNOWN, kind=WAITING, reason=reason, moves=False, entry=finding)
    return _outcome(inputs, kept, replace(opening, case=True), [step])


def _read_after(inputs: RunInputs) -> RunOutcome:
    """A reading after a forward recovery or a rollback has run (rule 5)."""
    verdict = _with_what_was_brought(inputs, reconcile(inputs))
    shown = lifecycle_grounds(inputs, verdict)
    end = State.RECONCILED_SUCCESS if inputs.state is State.FORWARD_RECOVERY else State.ROLLED_BACK
    # What decided stands: a row of the policy then in force, or a person, who names none.
    row, _, action = str(inputs.entry["reconciliation"]["recovery_decision"] or "").partition(" ")
    decision = RecoveryDecision(row=row, action=action, next_read=True) if action else _NOT_DECIDED
    if NEEDS[inputs.state, end] <= shown:
        decision = replace(decision, path=(end,))
    elif verdict.decisive or verdict.timed_out:
        held = f"After the recovery: {verdict.reason}"
        decision = replace(decision, path=(State.REVIEW_REQUIRED,), case=True, held_because=held)
    return _outcome(inputs, verdict, decision, list(_walk_path(inputs, verdict, decision)))


def _with_what_was_brought(inputs: RunInputs, verdict: Verdict) -> Verdict:
    """Return the verdict if verified forward recoveries produced some effects under keys of their own.

    Their own predicates have been judged; here only the rest is asked for.
    """
    if not inputs.brought or verdict.result is VerificationResult.SUCCESS:
        return verdict
    facts = inputs.facts
    rest = replace(
        facts,
        required_effects=tuple(name for name in facts.required_effects if name not in inputs.brought),
        predicates=tuple(text for text in facts.predicates if not predicates.mentions_effect(text, inputs.brought)),
    )
    found = reconcile(replace(inputs, facts=rest))
    if found.result is not VerificationResult.SUCCESS:
        return found
    brought = ", ".join(sorted(inputs.brought))
    return replace(found, reason=f"{found.reason} A verified recovery action brought {brought}.")


def _read_undone(inputs: RunInputs) -> RunOutcome | None:
    """Return the verdict for a transaction that its tool reports as rolled back; None if a reading excludes that (rule
    7).
    """
    verdict = reconcile(inputs)
    if Ground.LOCAL_UNCHANGED in lifecycle_grounds(inputs, verdict):
        decision = RecoveryDecision(row=None, action=None, path=(State.ROLLED_BACK,))
        return _outcome(inputs, verdict, decision, list(_walk_path(inputs, verdict, decision)))
    may_be_shown_later = verdict.result is VerificationResult.PENDING and not verdict.timed_out
    if verdict.effect_seen or not may_be_shown_later:
        return None
    return _outcome(inputs, verdict, _NOT_DECIDED, list(_note_waiting(inputs, verdict, _NOT_DECIDED)))


def recovery_situation(inputs: RunInputs, verdict: Verdict) -> RecoverySituation:
    """The recovery table's inputs for a verdict (R-RP-22, R-RP-24)."""
    facts = inputs.facts
    safe = retries.is_retry_safe(inputs, verdict)
    fresh = verdict.consistency is None or verdict.consistency in DECISIVE
    return RecoverySituation(
        triggers=verdict.triggers,
        side_effect_class=facts.side_effect_class,
        reversibility=facts.reversibility,
        transaction_boundary=facts.boundary,
        read_consistency=verdict.consistency,
        # What is proven absent has failed, and the record will say so at the end of this run.
        idempotency_status="FAILED_RETRYABLE" if safe else inputs.idempotency_status,
        execution_phase="PENDING",
        effect_domain=facts.effect_domain,
        within_consistency_window=fresh and not verdict.decisive and not verdict.timed_out,
        within_sla=not verdict.timed_out,
        pivot_committed=inputs.pivot_committed or (facts.pivot and verdict.effect_seen),
        mutating=facts.mutating,
        externally_visible=facts.externally_visible,
        no_op_success_allowed=facts.no_op_success_allowed,
        equivalent_and_allowed=verdict.equivalent,
        retry_safe=safe,
        effect_committed=inputs.claimed_success or verdict.effect_seen,
        compensation_available=Discrepancy.COMPENSATION_REQUIRED in verdict.triggers
        and not isinstance(_remedies(inputs, verdict, State.COMPENSATING), str),
    )


def recovery_options(inputs: RunInputs, verdict: Verdict) -> RecoveryOptions:
    """The recovery possible here without a person."""
    facts = inputs.facts
    return RecoveryOptions(
        plan=partial(_remedies, inputs, verdict),
        high_impact=facts.high_impact,
        local=facts.boundary is Boundary.LOCAL_TRANSACTION,
        effect_seen=verdict.effect_seen,
        absent=verdict.decisive and not _has_happened(inputs, verdict),
        safe_without_effect=facts.recovery.safe_without_effect,
        is_remedy=inputs.is_remedy,
    )


def _remedies(inputs: RunInputs, verdict: Verdict, wanted: State) -> tuple[RecoveryOrder, ...] | str:
    """Return the orders that lead to a wanted recovery state, or the reason why there are none."""
    lacking = wanted is State.FORWARD_RECOVERY
    concerned = tuple(one.name for one in verdict.effects if one.found in (LACKING if lacking else SEEN))
    reading = inputs.readings[0] if inputs.readings else None
    footing = PlanBasis(
        recovery=inputs.facts.recovery, tools=inputs.recovery_tools, layers=run_bindings(inputs, reading)
    )
    return plan_recovery(footing, RELATIONS[wanted], concerned=concerned)


def _has_happened(inputs: RunInputs, verdict: Verdict) -> bool:
    elsewhere = verdict.discrepancy is Discrepancy.WRONG_TARGET_MODIFIED
    return inputs.facts.mutating and (verdict.effect_seen or elsewhere)


def lifecycle_grounds(inputs: RunInputs, verdict: Verdict) -> frozenset[Ground]:
    """Return the grounds that a verdict gives the lifecycle; only what was read is claimed."""
    happened = _has_happened(inputs, verdict)
    nothing = verdict.decisive and not happened
    shown = {
        Ground.DECISIVE_READ: verdict.decisive and not inputs.facts.answer_only,
        Ground.CHANGES_NOTHING: verdict.decisive and inputs.facts.answer_only,
        Ground.EFFECT_OR_CLAIM: happened or inputs.claimed_success,
        Ground.NO_EFFECT_NO_CLAIM: nothing and not inputs.claimed_success,
        Ground.NO_EFFECT_REMAINS: nothing,
        Ground.LOCAL_UNCHANGED: nothing and inputs.facts.boundary is Boundary.LOCAL_TRANSACTION,
        Ground.PREDICATES_HOLD: verdict.decisive and verdict.result is VerificationResult.SUCCESS,
        Ground.SPLIT_EFFECTS: verdict.result is VerificationResult.PARTIAL,
        Ground.RETRY_ALLOWED: retries.is_retry_safe(inputs, verdict),
    }
    return frozenset(ground for ground, is_shown in shown.items() if is_shown)


def _opening(inputs: RunInputs) -> RecoveryDecision | None:
    """Decide on an UNKNOWN action by its idempotency record (RT-07, RT-08, RT-45 to RT-49, RT-53)."""
    if inputs.state is not State.UNKNOWN:
        return None
    unknown = Verdict(
        result=VerificationResult.UNKNOWN,
        decisive=False,
        reason="No answer came while the lease ran.",
        discrepancy=Discrepancy.UNKNOWN_STATE,
        triggers=recovery_triggers(Discrepancy.UNKNOWN_STATE, claimed=False),
    )
    asked = recovery_situation(inputs, unknown)
    return recovery.decide_recovery(
        asked, state=State.UNKNOWN, means=recovery_options(inputs, unknown), policy=inputs.policy
    )


def _first_step(inputs: RunInputs, opening: RecoveryDecision | None) -> Iterator[LifecycleStep]:
    if inputs.state is State.PENDING:
        return
    changes = entry_changes(State.PENDING, inputs.entry, at=inputs.at)
    reason = "The target accepted the work; what it did is read back."
    if inputs.state is State.EXECUTING:
        reason = "The tool says that it rolled back; no reading shows that."
    if opening is not None:
        changes["reconciliation"]["recovery_decision"] = opening.text
        reason = "No answer came; the system of record is asked instead, and nothing is sent again."
    yield LifecycleStep(state=State.PENDING, kind=KINDS[State.PENDING], reason=reason, entry=changes)


def _require_reversal(inputs: RunInputs, verdict: Verdict) -> Verdict:
    """Require the reversal of a success whose run is being taken back (R-DC-11, RT-51, RT-52)."""
    if not (inputs.unwinding and inputs.facts.mutating and verdict.effect_seen):
        return verdict
    if not verdict.decisive or verdict.result is not VerificationResult.SUCCESS or inputs.is_remedy:
        return verdict
    required = Discrepancy.COMPENSATION_REQUIRED
    return replace(
        verdict,
        result=VerificationResult.MISMATCH,
        reason="It took effect, and its run is being taken back.",
        discrepancy=required,
        triggers=recovery_triggers(required, claimed=False),
    )


def _inputs_after(inputs: RunInputs, steps: list[LifecycleStep]) -> RunInputs:
    if not steps:
        return inputs
    entry: Entry = inputs.entry
    for step in steps:
        entry = apply_changes(entry, step.entry)
    return replace(inputs, state=State.PENDING, entry=entry)


def _decide(inputs: RunInputs, verdict: Verdict) -> RecoveryDecision:
    """Decide the consequence of a verdict; use the table only if there is something to recover."""
    if verdict.triggers:
        asked = recovery_situation(inputs, verdict)
        decision = recovery.decide_recovery(
            asked, state=State.PENDING, means=recovery_options(inputs, verdict), policy=inputs.policy
        )
        early = not verdict.decisive and _NEED_A_VERDICT & set(decision.path)
        # RT-45, RT-47 and RT-48 end in FAILED "after a strong read shows no effect": there is none yet.
        return (
            RecoveryDecision(row=decision.row, action=decision.action, next_read=True)
            if early
            else _legal(inputs, decision)
        )
    if not verdict.decisive:
        return RecoveryDecision(row=None, action=None, next_read=True)
    end = {
        VerificationResult.SUCCESS: (State.COMMITTED, State.RECONCILED_SUCCESS),
        VerificationResult.ABSENT: (State.FAILED,),
    }[verdict.result]
    return RecoveryDecision(row=None, action=None, path=end)


def _legal(inputs: RunInputs, decision: RecoveryDecision) -> RecoveryDecision:
    """Lead an action whose tool had claimed success to FAILED by way of the finding (C-09)."""
    if not inputs.claimed_success or decision.path[:1] != (State.FAILED,):
        return decision
    return replace(decision, path=(State.COMMITTED, State.RECONCILIATION_FAILED, *decision.path))


def _walk_path(inputs: RunInputs, verdict: Verdict, decision: RecoveryDecision) -> Iterator[LifecycleStep]:
    """A step per state of the decision's path (rule 2)."""
    here, entry, shown = inputs.state, inputs.entry, lifecycle_grounds(inputs, verdict)
    kinds = answer_checks.ANSWER_KINDS if inputs.facts.answer_only else KINDS
    for state in decision.path:
        changes = _changes(inputs, verdict, decision, state, entry)
        yield LifecycleStep(
            state=state,
            kind=kinds[state],
            reason=_why(verdict, decision, state),
            grounds=(NEEDS.get((here, state), frozenset()) | {Ground.CHANGES_NOTHING}) & shown,
            entry=changes,
        )
        here, entry = state, apply_changes(entry, changes)


def _changes(inputs: RunInputs, verdict: Verdict, decision: RecoveryDecision, state: State, entry: Entry) -> Changes:
    changes = entry_changes(state, entry, at=inputs.at)
    unverifiable = verdict.discrepancy is Discrepancy.UNVERIFIABLE_STATE and not verdict.timed_out
    if state is State.UNKNOWN and unverifiable:
        changes["verification"] = {"status": "UNVERIFIABLE"}
    if inputs.readings:
        changes.setdefault("verification", {}).update(_evidence(inputs))
    if inputs.facts.answer_only:
        changes = answer_checks.answer_changes(state, changes, verdict)
    if state not in _WITHOUT_FINDING:
        changes.setdefault("reconciliation", {}).update(_finding(verdict, decision))
    if state is State.FAILED and "idempotency" in entry and verdict.discrepancy not in _FINAL_FAILURES:
        changes["idempotency"] = {"status": "FAILED_RETRYABLE"}
    return changes


def _evidence(inputs: RunInputs) -> dict[str, Any]:
    """The pointers to the reading's evidence (R-VD-17)."""
    return {
        "source": inputs.readings[0].source,
        "query_pointer": inputs.query_pointer,
        "verified_state_pointer": inputs.state_pointer,
    }


def _finding(verdict: Verdict, decision: RecoveryDecision) -> dict[str, Any]:
    found: dict[str, Any] = {"discrepancy_class": None if verdict.discrepancy is None else str(verdict.discrepancy)}
    if decision.text is not None:
        found["recovery_decision"] = decision.text
    return found


def _why(verdict: Verdict, decision: RecoveryDecision, state: State) -> str:
    if state is State.REVIEW_REQUIRED:
        return decision.held_because or f"{decision.text}: a person must decide. {verdict.reason}"
    if state is State.COMMITTED and not verdict.effect_seen and verdict.effects:
        return f"The tool claimed success and was read back. {verdict.reason}"
    return verdict.reason


def _note_waiting(inputs: RunInputs, verdict: Verdict, decision: RecoveryDecision) -> Iterator[LifecycleStep]:
    """Return the event of a run that moves nothing, if it adds something new (rule 3)."""
    found = _finding(verdict, decision)
    before = inputs.entry["reconciliation"]
    if all(before[name] == value for name, value in found.items()):
        return
    yield LifecycleStep(
        state=inputs.state,
        kind=WAITING,
        reason=verdict.reason,
        moves=False,
        entry={"reconciliation": found},
    )


def _outcome(inputs: RunInputs, verdict: Verdict, decision: RecoveryDecision, steps: list[LifecycleStep]) -> RunOutcome:
    end = steps[-1].state if steps else inputs.state
    again = end is State.PENDING or (decision.next_read and end in (State.EXECUTING, *READ_AFTER_RECOVERY))
    noticed = attention.fired_triggers(inputs, verdict)
    return RunOutcome(
        verdict=verdict,
        decision=decision,
        steps=tuple(steps),
        state=end,
        next_read_at=_next(inputs, verdict) if again else None,
        retry_at=_retry_at(inputs) if end is State.VALIDATED else None,
        # What may be tried again is automation's once more.
        settled=not again and end is not State.VALIDATED,
        case=decision.case or bool(noticed),
        attention=noticed,
        incident=decision.incident,
        freeze=_targets_to_freeze(inputs, decision),
    )


def _retry_at(inputs: RunInputs) -> datetime:
    made = int(inputs.entry["execution"]["attempt_count"])
    spread = f"{inputs.seed}/retry"
    return schedule.next_read_at(inputs.facts.polling, attempts=made, at=inputs.at, until=inputs.at, seed=spread)


def _next(inputs: RunInputs, verdict: Verdict) -> datetime:
    ends_at = waiting_deadline(inputs)
    until = inputs.horizon_at if inputs.at < inputs.horizon_at and verdict.awaits_horizon else ends_at
    return schedule.next_read_at(
        inputs.facts.polling,
        attempts=min(inputs.attempts, MAX_ATTEMPTS),
        at=inputs.at,
        until=until,
        seed=inputs.seed,
        stretch=inputs.pacing.stretch,
        not_before=inputs.pacing.not_before,
    )


def _targets_to_freeze(inputs: RunInputs, decision: RecoveryDecision) -> tuple[str, ...]:
    """The intended target, and every other that the action reached (R-RP-48)."""
    if not decision.freeze:
        return ()
    kind = inputs.target_resource.partition("/")[0]
    reached = {
        f"{kind}/{one}"
        for reading in inputs.readings
        for effect in reading.effects
        for one in effect.scope.get("target", ())
        if one is not None
    }
    return (inputs.target_resource, *sorted(reached - {inputs.target_resource}))
