"""The gates of a release that need no stored action: RG-04, RG-05, RG-07, RG-08 and the pure part of RG-06.

Each walks its scenarios through the real rules under the draft, and answers with one line for each: what was tried,
what had to come of it, what came. A gate passes when every line does.

1. RG-04: in each class of side effect, a stale read settles nothing; a timeout is read again before the deadline and is
   no end after it; a duplicate, another tenant's answer and a partial commit never succeed and never go on alone.
2. RG-05: rollback, compensation and forward recovery are ordered, or held for a person because the policy says so; what
   no row recovers escalates.
3. RG-07: in no state but RECONCILED_SUCCESS a completion is told, and the guard takes it out of a message; no run comes
   to that state without a decisive reading that bears every predicate out. For an agent that reports success on a
   failed action, and for each part of the taxonomy, people have a runbook with steps and a structural fix (R-RB-01).
4. RG-08: an unknown state is in the set that blocks a repeat, and no run of it leads to another attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ledger.catalogue.rules.effects import Boundary, Reversibility, SideEffectClass
from ledger.record.rules.entry import add_state_blocks, amend, check_entry
from ledger.record.rules.lifecycle import BLOCKS_REPEAT, State, next_state
from ledger.record.rules.refusals import Refused
from reviews.cases.rules import runbooks
from reviews.guarding.rules import verdict as guard
from reviews.guarding.rules.codes import TAGS, ViolationCode
from reviews.guarding.rules.records import Ground, Record, Tool
from reviews.readback.rules.schedule import next_read_at
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.facts import ContractFacts, ReadFailure, RunInputs
from reviews.reconciliation.rules.reading import Consistency, ReadEffect
from reviews.recovery.rules import recovery
from reviews.recovery.rules.recovery import RecoveryOptions
from reviews.recovery.rules.recovery_table import RecoverySituation
from reviews.recovery.rules.remedies import RELATIONS, RecoveryOrder
from reviews.release_gates.rules.scenarios import (
    START,
    Draft,
    absent_effect,
    overdue_run,
    refund,
    refund_facts,
    refund_run,
    shop_reading,
)
from reviews.reporting.rules import report
from reviews.reporting.rules.facts import Facts
from reviews.verification.rules import verification
from reviews.verification.rules.verification import RunOutcome

FEWEST_READINGS = 2
"""An outage shorter than the deadline must not end a verification: it is read at least twice before."""
_SILENT = ReadFailure(reason="The shop gave no answer.", retryable=True)
_GOES_ON_ALONE = frozenset({State.VALIDATED, State.EXECUTING, State.RECONCILED_SUCCESS, State.FAILED})
_ENDS = frozenset({State.RECONCILED_SUCCESS, State.FAILED, State.VALIDATED})


@dataclass(frozen=True, kw_only=True)
class GateLine:
    """One trial of a gate: the expected result, the actual one, and whether they agree."""

    tried: str
    wanted: str
    found: str
    passed: bool


def _line(tried: str, wanted: str, found: object, *, passed: bool) -> GateLine:
    return GateLine(tried=tried, wanted=wanted, found=str(found), passed=passed)


def _describe_outcome(outcome: RunOutcome) -> str:
    decided = outcome.decision.text or "no row of the table"
    return f"{outcome.state} by {decided}: {outcome.verdict.reason}"


def inject_failures(draft: Draft) -> list[GateLine]:
    """RG-04: the five failures, in each class of side effect (rule 1)."""
    return [line for each in draft.classes for line in _fault_lines(draft, each)]


def _fault_lines(draft: Draft, side_effect_class: SideEffectClass) -> Iterator[GateLine]:
    facts = refund_facts(draft, side_effect_class)
    replica = refund_run(draft, facts, shop_reading(refund(), consistency=Consistency.REPLICA))
    for words, run in (("shows the effect", replica), ("shows it after the deadline", overdue_run(replica))):
        outcome = verification.judge_run(run)
        wanted = "nothing is settled by it"
        name = f"STALE_READ, {side_effect_class}: a replica {words}"
        yield _line(name, wanted, _describe_outcome(outcome), passed=outcome.state not in _ENDS)
    yield from _timeouts(draft, facts)
    wider = replace(facts, required_effects=("refund", "note"))
    for name, run in (
        ("DUPLICATE_ACTION: the effect is there twice", refund_run(draft, facts, shop_reading(refund(count=2)))),
        (
            "PARTIAL_COMMIT: one of two effects is there",
            refund_run(draft, wider, shop_reading(refund(), absent_effect("note"))),
        ),
    ):
        outcome = verification.judge_run(run)
        known = outcome.state not in _GOES_ON_ALONE and outcome.next_read_at is None
        wanted = "it is recovered, or waits for a person"
        yield _line(f"{name}, {side_effect_class}", wanted, _describe_outcome(outcome), passed=known)
    strange = refund(scope={"tenant": ("umbrella",), "target": ("o-17",)})
    outcome = verification.judge_run(refund_run(draft, facts, shop_reading(strange)))
    stopped = bool(outcome.freeze) and outcome.state is State.REVIEW_REQUIRED and outcome.incident == "security"
    name = f"WRONG_TENANT_RESULT, {side_effect_class}: the effect is another tenant's"
    yield _line(
        name, "the target is frozen, a security incident waits for a person", _describe_outcome(outcome), passed=stopped
    )


def _timeouts(draft: Draft, facts: ContractFacts) -> Iterator[GateLine]:
    name = f"TIMEOUT, {facts.side_effect_class}"
    run = refund_run(draft, facts, failure=_SILENT)
    ended = verification.judge_run(overdue_run(run))
    wanted = "it is no success and no failure"
    yield _line(
        f"{name}: no answer until the deadline", wanted, _describe_outcome(ended), passed=ended.state not in _ENDS
    )
    made = _readings_before_deadline(facts)
    wanted = f"it is read at least {FEWEST_READINGS} times before the deadline"
    found = f"{made} times in {facts.polling.sla_s} s"
    yield _line(f"{name}: the shop is away for a moment", wanted, found, passed=made >= FEWEST_READINGS)


def _readings_before_deadline(facts: ContractFacts) -> int:
    """The number of readings that begin before the deadline, without the one at the deadline itself."""
    at, until, made = START, START + timedelta(seconds=facts.polling.sla_s), 0
    while made < FEWEST_READINGS:
        at = next_read_at(facts.polling, attempts=made, at=at, until=until, seed="release")
        if at >= until:
            break
        made += 1
    return made


def drill_recovery(draft: Draft) -> list[GateLine]:
    """RG-05: the four ways of recovery (rule 2)."""
    usual: dict[str, Any] = {
        "side_effect_class": SideEffectClass.MEDIUM_RISK_WRITE,
        "reversibility": Reversibility.COMPENSABLE,
        "transaction_boundary": Boundary.COMPENSABLE_PRE_PIVOT,
        "read_consistency": Consistency.PRIMARY,
        "effect_committed": True,
    }
    mismatch, partial = frozenset({"VALUE_MISMATCH"}), frozenset({"PARTIAL_SUCCESS"})
    lines = []
    for path, wanted, given, local in (
        (
            "ROLLBACK: wrong values in a local transaction",
            State.ROLLED_BACK,
            {
                "triggers": mismatch,
                "reversibility": Reversibility.REVERSIBLE,
                "transaction_boundary": Boundary.LOCAL_TRANSACTION,
            },
            True,
        ),
        ("COMPENSATION: one of two effects, before the pivot", State.COMPENSATING, {"triggers": partial}, False),
        (
            "FORWARD_RECOVERY: one of two effects, behind the pivot",
            State.FORWARD_RECOVERY,
            {"triggers": partial, "pivot_committed": True},
            False,
        ),
    ):
        means = RecoveryOptions(plan=lambda state: (_remedy(state),), local=local)
        decided = recovery.decide_recovery(
            RecoverySituation(**(usual | given)), state=State.PENDING, means=means, policy=draft.recovery
        )
        ordered = bool(decided.orders) and decided.orders[0].relation is RELATIONS[wanted]
        held = decided.wanted is wanted and decided.held
        said = decided.text or "no row"
        found = (
            f"{said}, held: {decided.held_because}" if held else f"{said}, {[order.tool for order in decided.orders]}"
        )
        lines.append(_line(path, "it is ordered, or held by the policy", found, passed=ordered or held))
    unknown = RecoverySituation(**(usual | {"triggers": frozenset({"APPROVAL_TOKEN_MISMATCH"})}))
    decided = recovery.decide_recovery(unknown, state=State.PENDING, means=RecoveryOptions(), policy=draft.recovery)
    escalated = decided.case and decided.path[-1:] == (State.REVIEW_REQUIRED,)
    name = "REVIEW_ESCALATION: a token that does not fit its payload"
    return [*lines, _line(name, "a person must settle it", decided.text, passed=escalated)]


def _remedy(state: State) -> RecoveryOrder:
    relation = RELATIONS[state]
    return RecoveryOrder(relation=relation, tool=f"{relation}_refund".lower(), arguments={"order_id": "o-17"})


def check_new_entries(draft: Draft) -> list[GateLine]:
    """RG-06, for entries that would be written: each step of each scenario gives an entry that fits the schema."""
    lines = []
    for each in draft.classes:
        facts = refund_facts(draft, each)
        for name, run in (
            ("a success", refund_run(draft, facts, shop_reading(refund()))),
            ("a duplicate", refund_run(draft, facts, shop_reading(refund(count=2)))),
            ("no answer until the deadline", overdue_run(refund_run(draft, facts, failure=_SILENT))),
        ):
            fault = _entry_fault(run)
            lines.append(_line(f"{name}, {each}", "every entry fits the schema", fault or "it does", passed=not fault))
    return lines


def _entry_fault(run: RunInputs) -> str:
    state, entry = run.state, dict(run.entry)
    try:
        check_entry(entry)
        for step in verification.judge_run(run).steps:
            target = str(step.state) if step.moves else None
            next_state("action", str(state), target, by="system", grounds=step.grounds)
            changes = add_state_blocks(entry, step.entry, step.state) if step.moves else step.entry
            entry, state = dict(amend(entry, changes)), step.state
            check_entry(entry)
    except Refused as fault:
        return f"{state}: {fault.detail}"
    return ""


_TOOL = Tool("issue_refund", "Refund an order.", done=("refunded",), object=("order",))
_CLAIM = "I have refunded order o-17."


def check_reports_before_verdict(draft: Draft) -> list[GateLine]:
    """RG-07: the permitted reports and messages before reconciliation (rule 3)."""
    lines = []
    for state in State:
        if state is State.RECONCILED_SUCCESS:
            continue
        run = refund_run(draft, refund_facts(draft, SideEffectClass.HIGH_RISK_EXTERNAL))
        told = report.build_report(Facts(state=state), run.entry, trust_level=2)
        record = Record("a-1", "issue_refund", "order/o-17", {}, str(state), told.completed, str(told.code), told.text)
        judged = guard.judge(_CLAIM, Ground((_TOOL,), (record,)))
        blocked = judged.verdict == "BLOCK" and not told.completed
        found = f"report {told.code}, message {judged.verdict}"
        lines.append(_line(f"{state}: “{_CLAIM}”", "no completion is told", found, passed=blocked))
    facts = refund_facts(draft, SideEffectClass.HIGH_RISK_EXTERNAL)
    wrong = refund(fields={"amount": 999, "currency": "EUR"})
    for name, runs in (
        ("the tool claims success, nothing was read", (refund_run(draft, facts, failure=_SILENT),)),
        ("the tool claims success, the shop shows nothing", (refund_run(draft, facts, shop_reading(absent_effect())),)),
        ("the tool claims success, the shop shows another amount", (refund_run(draft, facts, shop_reading(wrong)),)),
    ):
        for run in (*runs, *map(overdue_run, runs)):
            outcome = verification.judge_run(run)
            reached = State.RECONCILED_SUCCESS in {step.state for step in outcome.steps}
            lines.append(_line(name, "it is not reconciled", _describe_outcome(outcome), passed=not reached))
    return lines


def check_runbooks() -> list[GateLine]:
    """RG-07: the runbook of the case of a false success, and one for each part of the taxonomy (rule 3)."""
    of_case = runbooks.for_case(reason="HELD", discrepancy=Discrepancy.NO_OP_FAILURE)
    false_success = TAGS[ViolationCode.MISREAD]
    wanted = f"the runbook of its case is about {false_success}"
    name = "an agent reports success on a failed action"
    lines = [_line(name, wanted, of_case.title, passed=of_case.taxonomy == false_success)]
    for tag in dict.fromkeys(TAGS.values()):
        books = [each for each in runbooks.RUNBOOKS.values() if each.taxonomy == tag]
        whole = [each.title for each in books if each.steps and each.structural_fix]
        found = ", ".join(whole) or "none"
        lines.append(_line(tag, "a runbook with steps and a structural fix", found, passed=bool(whole)))
    return lines


def repeat_unknown(draft: Draft) -> list[GateLine]:
    """RG-08: an unknown end stays blocked (rule 4)."""
    blocks = State.UNKNOWN in BLOCKS_REPEAT
    lines = [_line("UNKNOWN in the set that blocks a repeat", "it is there", blocks, passed=blocks)]
    for each in draft.classes:
        facts = refund_facts(draft, each, recovery=replace(refund_facts(draft, each).recovery, idempotent=True))
        for status in ("PENDING", "UNKNOWN", None):
            run = refund_run(
                draft, facts, state=State.UNKNOWN, observation=None, failure=_SILENT, idempotency_status=status
            )
            for when, tried in (("before", replace(run, retry_safe=True)), ("after", overdue_run(run))):
                outcome = verification.judge_run(tried)
                repeats = outcome.state is State.VALIDATED or outcome.retry_at is not None
                name = f"no answer {when} the deadline, record {status}, {each}"
                lines.append(_line(name, "nothing is sent again", _describe_outcome(outcome), passed=not repeats))
    return lines


def plant_differences(run: RunInputs) -> Iterator[tuple[str, RunInputs]]:
    """Return the run with one thing changed in its readings: an effect that is missing, present against the contract,
    duplicated, or different in value; each with a description.
    """
    for place, reading in enumerate(run.readings):
        for number, effect in enumerate(reading.effects):
            for words, other in _other_effects(effect):
                effects = (*reading.effects[:number], other, *reading.effects[number + 1 :])
                changed = replace(reading, effects=effects)
                yield (
                    f"{effect.name} in {reading.source}: {words}",
                    replace(run, readings=(*run.readings[:place], changed, *run.readings[place + 1 :])),
                )


def _other_effects(effect: ReadEffect) -> Iterator[tuple[str, ReadEffect]]:
    if not effect.present:
        yield "it is there", replace(effect, present=True, count=1)
        return
    yield "it is not there", replace(effect, present=False, count=0, fields={}, instances=())
    yield "it is there twice", replace(effect, count=2, instances=effect.instances * 2)
    for name, value in effect.fields.items():
        fields = {**effect.fields, name: _other_value(value)}
        instances = tuple({**each, name: fields[name]} for each in effect.instances)
        yield f"`{name}` is another", replace(effect, fields=fields, instances=instances)


def _other_value(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return f"{value} of another" if isinstance(value, str) else None


def summary_of(lines: list[GateLine]) -> tuple[bool, str]:
    """Return whether every line passed, and describe the first that did not."""
    red = [line for line in lines if not line.passed]
    if not red:
        return True, f"{len(lines)} of {len(lines)} passed."
    first = red[0]
    return False, f"{len(red)} of {len(lines)} failed. {first.tried}: wanted that {first.wanted}, found {first.found}."


def as_document(lines: list[GateLine]) -> list[Mapping[str, Any]]:
    """The lines as evidence keeps them."""
    return [{"tried": e.tried, "wanted": e.wanted, "found": e.found, "passed": e.passed} for e in lines]
