"""Verification: reads the system of record, judges the readings, and records the result.

The reading happens outside any transaction: a slow system holds no lock. What it found is judged again under the
action's lock, against the action as it then is, so a reading that comes too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

import orjson

from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions
from ledger.catalogue.rules.policies import DecidingPolicy, policy_context
from ledger.db import defer, insert, insert_call, insert_each, tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events as events_queries
from ledger.record.queries import evidence
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import TRANSITIONS, State
from ledger.record.rules.refusals import Refused
from reviews import queries
from reviews.cases.operations import cases
from reviews.cases.rules import resolutions
from reviews.models import VerificationRun
from reviews.observations.rules.observe import ReportedStatus
from reviews.readback.operations import schedules
from reviews.readback.operations.plans import ReadPlan, action_snapshot, plan_for
from reviews.readback.operations.readings import SourceReadings, mask_idempotency_key, read_sources
from reviews.reconciliation.rules import findings
from reviews.reconciliation.rules.facts import (
    AnswerFacts,
    ContractFacts,
    NamedOrigin,
    ReadPacing,
    RunInputs,
    added_predicates,
)
from reviews.reconciliation.rules.reading import Reading, serialize_readings, to_json_default
from reviews.reconciliation.rules.verdict import LACKING, SEEN, Verdict
from reviews.recovery.operations import recovery
from reviews.recovery.rules.recovery import RecoveryDecision
from reviews.recovery.rules.remedies import CORRECT
from reviews.replay.rules.replay import run_circumstances
from reviews.reporting.rules.evidence_summary import summarize_evidence
from reviews.verification.rules import verification as rules
from reviews.verification.rules.steps import KINDS, LifecycleStep, entry_changes

if TYPE_CHECKING:
    from ledger.models import Action
    from reviews.models import Schedule
    from reviews.readback.operations.claimed_batches import DueReading

AT_ONCE = ReadPacing()


def verify_action(*, tenant_id: UUID, action_id: UUID, clock: Callable[[], datetime]) -> str | None:
    """Make one verification run of one action; return the state after, or None if there was nothing to verify.

    If we crash during the reading, the claim on the schedule row runs out and the action is read again. If we crash
    after the commit, the row has already moved on.
    """
    with tenancy(tenant_id):
        plan = _plan(tenant_id, action_id)
    if plan is None:
        schedules.end_schedule(tenant_id=tenant_id, action_id=action_id)
        return None
    at = clock()
    taken = read_sources(plan, at=at, clock=clock)
    with tenancy(tenant_id):
        return conclude_run(plan, taken, at=at)


@dataclass(frozen=True, kw_only=True)
class AnswerSource:
    """The executor that answered, the violations of the contract's answer schema (empty if none), and the tenant and
    source that the answer names if the contract has fields for them.
    """

    executor_id: str
    tenant_id: UUID
    tools: tuple[str, ...]
    schema_fault: str
    origin: Mapping[str, NamedOrigin]


def check_answer(*, tenant_id: UUID, action_id: UUID, by: AnswerSource, at: datetime) -> str | None:
    """Judge a read by its answer, in the transaction that stores it; return the state after, or None if nothing is
    open.

    Nothing is read back, so nobody has to wait for a worker.
    """
    plan = plan_for(tenant_id, action_id)
    known = plan.known
    facts = AnswerFacts(
        tenant=str(tenant_id),
        tool=plan.contract.name,
        request_hash=known.request_hash,
        answer_digest=known.answer_digest,
        executor_id=by.executor_id,
        executor_tenant=str(by.tenant_id),
        executor_tools=by.tools,
        has_schema=bool(plan.contract.result_schema),
        schema_fault=by.schema_fault,
        origin=by.origin,
    )
    return conclude_run(plan, SourceReadings(), answer=facts, at=at)


def _plan(tenant_id: UUID, action_id: UUID) -> ReadPlan | None:
    action = actions.action(tenant_id, action_id)
    return plan_for(tenant_id, action_id) if action is not None and is_open(action) else None


def is_open(action: Action) -> bool:
    """True if there is something to verify, also after a recovery action or a rollback that the tool reported."""
    state = State(action.state)
    if action.settled:
        return False
    if state is State.EXECUTING:
        last = queries.last_observation(action.tenant_id, action.id)
        return last is not None and last.status == ReportedStatus.FAILED and last.attempt == action.attempt_count
    return state in rules.VERIFIABLE_IN or state in rules.READ_AFTER_RECOVERY


def hold_unreadable(*, tenant_id: UUID, action_id: UUID, at: datetime) -> None:
    """Hold an action whose payload or answers cannot be opened, since no reading can be compared with them, and open
    its case. Once the key is back a person can have it read again.
    """
    schedules.end_schedule(tenant_id=tenant_id, action_id=action_id)
    if actions.action(tenant_id, action_id) is None:
        return
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    action = actions.action(tenant_id, action_id)
    if action is None or head.entry is None or not is_open(action):
        return
    direct = (State(head.state), State.REVIEW_REQUIRED) in TRANSITIONS
    for state in (State.REVIEW_REQUIRED,) if direct else (State.UNKNOWN, State.REVIEW_REQUIRED):
        assert head.entry is not None
        event = ledger.NewEvent(
            kind=KINDS[state],
            to=str(state),
            changes=entry_changes(state, head.entry, at=at),
            detail={
                "reason": "The payload or the answers cannot be opened: the key is gone, or their bytes were altered."
            },
            view={"settled": True},
        )
        head = ledger.append(head, event, actor=ledger.SYSTEM, at=at)
    cases.open_case(tenant_id=tenant_id, action_id=action_id, reason=cases.UNREADABLE, at=at)
    ledger_orders.unwind_after_failure(action, head.state, at=at)
    if action.ordered_by is not None:
        ledger_orders.wake_order(tenant_id=tenant_id, event_id=action.ordered_by, at=at)


class NothingToVerify(Refused):
    """This action is not waiting for a reading."""

    code = "NOTHING_TO_VERIFY"


def order_reading(action: Action, *, by: ledger.Actor, at: datetime) -> None:
    """Have an action read now; one that no reading can take further is refused, with the way that is left.

    The refusal is recorded (R-SM-22).
    """
    if not is_open(action):
        waits = resolutions.waits_for_a_person(State(action.state), settled=action.settled)
        event = ledger.NewEvent(kind="verify_refused", detail={"code": NothingToVerify.code, "state": action.state})
        refused = ledger.RefusedEvent(subject_kind="action", subject_id=action.id, event=event, actor=by, at=at)
        way = "No reading is planned for this action. It is verified again from its case; open one."
        raise NothingToVerify(way if waits else None, records=(refused,))
    schedules.schedule(tenant_id=action.tenant_id, action_id=action.id, due_at=at, priority=5, at=at)


def conclude_run(
    plan: ReadPlan,
    taken: SourceReadings,
    *,
    pacing: ReadPacing = AT_ONCE,
    context: recovery.TenantDecisionContext | None = None,
    answer: AnswerFacts | None = None,
    at: datetime,
) -> str | None:
    """Judge the readings under the action's lock, and record the result; return the state after."""
    context = context or recovery.TenantDecisionContext(plan.tenant_id)
    head, [rows] = ledger.lock_and_read(
        queries.run_facts_call(plan.tenant_id, plan.action_id),
        tenant_id=plan.tenant_id,
        subject_id=plan.action_id,
        kind="action",
    )
    action, row, last_number, key_id = queries.read_run_facts(rows[0])
    if head.entry is None or not is_open(action):
        schedules.end_schedule(tenant_id=plan.tenant_id, action_id=plan.action_id)
        return None
    pointer = uuid4()
    inputs = run_inputs(plan, action, head, row, taken, pointer, pacing=pacing, context=context, at=at)
    inputs = replace(inputs, answer=answer)
    outcome = rules.judge_run(inputs)
    if rules.recorded_steps(inputs, outcome):
        asked = taken.count_asked(plan, unlisted=row.unlisted if row is not None else 0)
        place = _RunPlace(last_number + 1, key_id, asked)
        new, drafts = _write_run(plan, action, head, inputs, outcome, place, context, at=at)
        defer(insert_call(*new), ledger.events_call(*drafts))
        head = drafts[-1].head
        head = _order_recovery(head, outcome, at=at)
    _follow(plan, action, outcome, asked=pacing.asked, at=at)
    return head.state


@dataclass(frozen=True, kw_only=True)
class FinishedReading:
    """A finished reading for a plan."""

    plan: ReadPlan
    taken: SourceReadings
    pacing: ReadPacing
    at: datetime


def conclude_successes(
    tenant_id: UUID, read: Sequence[FinishedReading], *, context: recovery.TenantDecisionContext
) -> frozenset[UUID]:
    """Conclude, of these readings of one tenant, those that end verified and have no other consequence, all of them in
    this transaction; return their actions.

    Each is judged as `conclude_run` judges it, under its own lock. What would change how another one of them is
    decided (a pivot, a failure, an order, a case) is left to `conclude_run`, and so is all that comes unexpected.
    """
    by_action = {each.plan.action_id: each for each in read if not each.plan.contract.pivot}
    locks = [events_queries.lock_call(action_id, "action") for action_id in sorted(by_action)]
    heads, _ = ledger.lock_subjects(tenant_id=tenant_id, locks=locks)
    ids = [head.id for head in heads]
    found, due = actions.actions_by_id(tenant_id, ids), queries.schedules_of(tenant_id, ids)
    numbers, keys = queries.last_run_numbers(tenant_id, ids), evidence.key_ids(tenant_id, ids)
    rows: list[Any] = []
    drafts: list[ledger.EventDraft] = []
    ended: list[FinishedReading] = []
    for head in heads:
        each, action = by_action[head.id], found.get(head.id)
        if action is None or head.entry is None or action.ordered_by is not None or not is_open(action):
            continue
        inputs = run_inputs(
            each.plan,
            action,
            head,
            due.get(head.id),
            each.taken,
            uuid4(),
            pacing=each.pacing,
            context=context,
            at=each.at,
        )
        outcome = rules.judge_run(inputs)
        if not outcome.is_plain_success:
            continue
        waiting = due.get(head.id)
        asked = each.taken.count_asked(each.plan, unlisted=waiting.unlisted if waiting is not None else 0)
        place = _RunPlace(numbers.get(head.id, 0) + 1, keys.get(head.id), asked)
        more, events = _write_run(each.plan, action, head, inputs, outcome, place, context, at=each.at)
        rows += more
        drafts += events
        ended.append(each)
    if ended:
        insert_each(rows)
        ledger.write_events(*drafts)
        schedules.end_schedules(tenant_id, [each.plan.action_id for each in ended])
    for each in ended:
        plan_recheck(each.plan, State.RECONCILED_SUCCESS, number=0, at=each.at)
    return frozenset(each.plan.action_id for each in ended)


def run_inputs(
    plan: ReadPlan,
    action: Action,
    head: ledger.SubjectHead,
    row: Schedule | DueReading | None,
    taken: SourceReadings,
    pointer: UUID,
    *,
    pacing: ReadPacing = AT_ONCE,
    context: recovery.TenantDecisionContext | None = None,
    at: datetime,
) -> RunInputs:
    assert head.entry is not None
    facts = ContractFacts.of(plan.contract, plan.numbers)
    opened_at = row.opened_at if row is not None else at
    # Whatever came since the plan was made has moved the action's last event.
    unmoved = plan.known.action.seq == head.seq
    known = plan.known if unmoved else action_snapshot(plan.tenant_id, action.id)
    return RunInputs(
        state=State(head.state),
        facts=facts,
        entry=head.entry,
        target_resource=action.target,
        horizon_at=action.horizon_at or at,
        sla_at=opened_at + timedelta(seconds=facts.polling.sla_s),
        at=at,
        attempts=row.readings if row is not None else 0,
        seed=str(plan.action_id),
        si=plan.bindings["si"],
        sr=plan.bindings["sr"],
        scope=plan.bindings["scope"],
        observation=known.observation,
        baseline=known.baseline,
        readings=taken.readings,
        failure=taken.failure,
        silent=taken.silent,
        doubts=known.doubts,
        added_predicates=added_predicates(plan.contract, head.entry),
        idempotency_status=head.entry.get("idempotency", {}).get("status") if known.idempotency else None,
        query_pointer=f"{pointer}#query",
        state_pointer=str(pointer),
        pacing=pacing,
        **recovery.decision_inputs(action, facts, head, known.idempotency, context),
    )


def store_run_evidence(
    plan: ReadPlan,
    inputs: RunInputs,
    verdict: Verdict,
    decision: RecoveryDecision,
    steps: tuple[LifecycleStep, ...],
    decided_under: Sequence[DecidingPolicy],
    circumstances: Mapping[str, Any],
    asked: Mapping[str, int],
    *,
    at: datetime,
) -> tuple[ledger.SealedEvidence, dict[str, Any]]:
    """Store the run's evidence: the readings, the layers, the result of each predicate, the decision and its basis, and
    the circumstances needed to judge it again.

    With it, what the first event of the run says of the row that the run is listed as.
    """
    tenant_id, action_id = plan.tenant_id, plan.action_id
    number = queries.last_run_number(tenant_id, action_id) + 1
    place = _RunPlace(number, evidence.key_id(tenant_id, action_id), asked)
    sealed, listed, rows = _sealed_run(
        plan, inputs, verdict, decision, steps, decided_under, circumstances, place, at=at
    )
    insert(*rows)
    return sealed, listed


class _RunPlace(NamedTuple):
    """The number of a run within its action, the key that seals its evidence, if there is one, and the readings of each
    system that it tells of.
    """

    number: int
    key_id: UUID | None
    asked: Mapping[str, int]


def _sealed_run(
    plan: ReadPlan,
    inputs: RunInputs,
    verdict: Verdict,
    decision: RecoveryDecision,
    steps: tuple[LifecycleStep, ...],
    decided_under: Sequence[DecidingPolicy],
    circumstances: Mapping[str, Any],
    place: _RunPlace,
    *,
    at: datetime,
) -> tuple[ledger.SealedEvidence, dict[str, Any], list[Any]]:
    """The same, with the rows that are still to be inserted."""
    assert inputs.state_pointer is not None
    pointer = UUID(inputs.state_pointer)
    readings, unfit = serialize_readings(inputs.readings)
    context = dict(inputs.entry["policy_context"]) | policy_context(decided_under)
    reading = inputs.readings[0] if inputs.readings else None
    document = {
        "account": summarize_evidence(inputs, verdict, contract_digest=plan.contract.digest, policies=context),
        "layers": _plain_layers(plan, findings.run_bindings(inputs, reading)),
        "readings": orjson.Fragment(readings),
        "failure": inputs.failure,
        "silent": inputs.silent,
        "verdict": verdict,
        "decision": decision,
        "decided_under": {each.kind: {"version": each.version, "digest": each.digest} for each in decided_under},
        "steps": [{"state": str(step.state), "kind": step.kind, "reason": step.reason} for step in steps],
        "horizon_at": inputs.horizon_at,
        "sla_at": inputs.sla_at,
        "circumstances": {**circumstances, "unfit": unfit},
        **({"lookup": {"version": plan.lookup.version, "digest": plan.lookup.digest}} if plan.lookup else {}),
    }
    sealed, rows = ledger.seal_evidence(
        tenant_id=plan.tenant_id,
        subject_id=plan.action_id,
        purpose="answer_checks" if inputs.facts.answer_only else "readback",
        data=mask_idempotency_key(orjson.dumps(document, default=to_json_default), plan),
        media_type="application/json",
        source=reading.source if reading else "none",
        at=at,
        pointer=pointer,
        key_id=place.key_id,
    )
    row, listed = _list_run(plan, reading, verdict, decision, pointer, place, at=at)
    return sealed, listed, [*rows, row]


def _list_run(
    plan: ReadPlan,
    reading: Reading | None,
    verdict: Verdict,
    decision: RecoveryDecision,
    pointer: UUID,
    place: _RunPlace,
    *,
    at: datetime,
) -> tuple[VerificationRun, dict[str, Any]]:
    """Store the run as codes, for lists; its content is behind the pointer."""
    row = VerificationRun(
        tenant_id=plan.tenant_id,
        id=ledger.new_id(at),
        action_id=plan.action_id,
        number=place.number,
        source=(reading.source if reading else "")[:200],
        consistency=str(reading.consistency) if reading else "",
        freshness=(reading.freshness if reading else "")[:200],
        result=str(verdict.result),
        discrepancy=str(verdict.discrepancy or ""),
        recovery_row=decision.row or "",
        recovery_decision=(decision.text or "")[:48],
        pointer=pointer,
        at=at,
        asked=dict(place.asked),
    )
    names = ("number", "source", "consistency", "freshness", "result", "discrepancy", "recovery_row")
    told = {name: getattr(row, name) for name in (*names, "recovery_decision", "asked")}
    told |= {"id": str(row.id), "pointer": str(pointer)}
    # Without the values, which stay sealed.
    return row, told | {
        "trusted_as": str(reading.trusted_as) if reading else "",
        "decisive": verdict.decisive,
        "timed_out": verdict.timed_out,
        "effects": [[each.name, str(each.found), each.count] for each in verdict.effects],
    }


def _plain_layers(plan: ReadPlan, layers: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(values) for name, values in layers.items()}


def _write_run(
    plan: ReadPlan,
    action: Action,
    head: ledger.SubjectHead,
    inputs: RunInputs,
    outcome: rules.RunOutcome,
    place: _RunPlace,
    context: recovery.TenantDecisionContext,
    *,
    at: datetime,
) -> tuple[list[Any], list[ledger.EventDraft]]:
    """Return the rows of a run and its events, for the caller to write: rows first, since events point to them."""
    decided_under = [plan.verification_policy, *([context.policy(action)] if outcome.decision.table else [])]
    judged_by = [plan.verification_policy, context.policy(action)]
    circumstances = run_circumstances(
        inputs,
        seq=head.seq,
        contract=plan.contract.digest,
        lookup=plan.lookup_digest,
        policies=judged_by,
    )
    kept, listed, rows = _sealed_run(
        plan, inputs, outcome.verdict, outcome.decision, outcome.steps, decided_under, circumstances, place, at=at
    )
    drafts = []
    for number, step in enumerate(rules.recorded_steps(inputs, outcome)):
        happening = _happening(step, None if number else listed, outcome, kept, decided_under)
        drafts.append(ledger.draft_event(head, happening, actor=ledger.SYSTEM, at=at))
        head = drafts[-1].head
    return rows, drafts


def _order_recovery(head: ledger.SubjectHead, outcome: rules.RunOutcome, *, at: datetime) -> ledger.SubjectHead:
    """Order the recovery that the decision asks for; an approvals task proposes it (R-RP-45)."""
    decision = outcome.decision
    if not decision.orders:
        return head
    wanted = LACKING if decision.wanted is State.FORWARD_RECOVERY else SEEN
    concerned = [one.name for one in outcome.verdict.effects if one.found in wanted]
    return recovery.order_recovery(
        head,
        decision.orders,
        concerned=concerned,
        because=decision.text or "",
        requester=ledger.SYSTEM.id,
        actor=ledger.SYSTEM,
        at=at,
    )


def _happening(
    step: LifecycleStep,
    listed: dict[str, Any] | None,
    outcome: rules.RunOutcome,
    kept: ledger.SealedEvidence,
    decided_under: Sequence[DecidingPolicy],
) -> ledger.NewEvent:
    decision = outcome.decision
    view: dict[str, Any] = {"settled": outcome.settled}
    if decision.row is not None:
        view["recovery_row"] = decision.row
    if step.state is State.VALIDATED and outcome.retry_at is not None:
        view["blocks_until"] = instant(outcome.retry_at)
    return ledger.NewEvent(
        kind=step.kind,
        to=str(step.state) if step.moves else None,
        grounds=step.grounds,
        changes={**step.entry, "policy_context": policy_context(decided_under)},
        detail={
            "reason": step.reason,
            "recovery_row": decision.row,
            "run": str(kept.pointer),
            **({"recovery_table": decision.table} if decision.table else {}),
            **({"listed": listed} if listed else {}),
        },
        digests={each.kind: each.digest for each in decided_under},
        # The bytes are committed to once; later events of the same run point to them.
        evidence=(kept,) if listed else (),
        view=view,
    )


def _follow(plan: ReadPlan, action: Action, outcome: rules.RunOutcome, *, asked: bool, at: datetime) -> None:
    tenant_id, action_id = plan.tenant_id, plan.action_id
    if outcome.next_read_at is not None:
        schedules.reschedule(
            tenant_id, schedules.NextReading(action_id=action_id, due_at=outcome.next_read_at, began_at=at, asked=asked)
        )
    else:
        schedules.end_schedule(tenant_id=tenant_id, action_id=action_id)
        plan_recheck(plan, outcome.state, number=0, at=at)
    for target in outcome.freeze:
        cases.freeze_target(tenant_id=tenant_id, target=target, action=action, outcome=outcome, at=at)
    if outcome.incident is not None:
        cases.open_incident(tenant_id=tenant_id, action=action, kind=outcome.incident, outcome=outcome, at=at)
    ledger_orders.unwind_after_failure(action, str(outcome.state), at=at)
    if action.ordered_by is not None and outcome.settled:
        ledger_orders.wake_order(tenant_id=tenant_id, event_id=action.ordered_by, at=at)
    if action.recovery_decision == CORRECT and action.state == State.FORWARD_RECOVERY != outcome.state:
        cases.end_correction(
            tenant_id=tenant_id,
            action_id=action_id,
            is_verified=outcome.state is State.RECONCILED_SUCCESS,
            reason=outcome.verdict.reason,
            at=at,
        )
    if outcome.case:
        cases.open_case(tenant_id=tenant_id, action_id=action_id, reason=_case_reason(outcome), at=at)


def _case_reason(outcome: rules.RunOutcome) -> str:
    """The reason of the case: the decision that waits for a person, or the review trigger that fired."""
    held = outcome.decision.text or "HELD"
    return held if outcome.decision.case or not outcome.attention else outcome.attention[0].upper()


def plan_recheck(plan: ReadPlan, state: State, *, number: int, at: datetime) -> None:
    """Schedule the contract's recheck of that number, counted from zero, if there is one for a settled action."""
    delays = plan.contract.verification.recheck_after if plan.contract.verification else ()
    if state in resolutions.RECHECKED and number < len(delays):
        before = delays[number - 1] if number else timedelta(0)
        due_at = at + delays[number] - before
        schedules.schedule_recheck(
            tenant_id=plan.tenant_id, action_id=plan.action_id, due_at=due_at, number=number, at=at
        )
