"""Carries the outcome of a recovery action over to the action it was ordered for.

A recovery action is proposed, approved, executed and verified like any other. If we crash before this commit, the order
still stands and the next tick carries its end over. A recovery counts only by its own verification (R-RP-47), and its
failure is for a person (R-RP-43).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions, runs
from ledger.catalogue.rules.policies import DecidingPolicy, policy_context
from ledger.catalogue.rules.remedies import Relation
from ledger.catalogue.rules.targets import target_text
from ledger.record import operations as ledger
from ledger.record.rules.lifecycle import NEEDS, Ground, State
from ledger.record.rules.outcomes import ATTESTED_REVERSAL, WORDS, Outcome, outcome_of
from reviews.cases.operations import cases
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import IncidentKind
from reviews.readback.operations import schedules
from reviews.readback.operations.plans import contract_of
from reviews.reconciliation.rules.facts import ContractFacts
from reviews.recovery.operations.recovery import current_action, deciding_policy
from reviews.recovery.rules import recovery as rules
from reviews.recovery.rules import recovery_table, remedies
from reviews.recovery.rules.recovery import RecoveryDecision, RecoveryOptions
from reviews.recovery.rules.remedies import RemedyOutcome
from reviews.verification.rules.steps import KINDS, entry_changes

COMPENSATION_FAILURE = "COMPENSATION_FAILURE"
_READ_AGAIN = {
    Relation.FORWARD: "forward_recovery_done",
    Relation.ROLLBACK: "rollback_done",
    Relation.CORRECTION: "correction_done",
}


def carry_over_outcome(*, tenant_id: UUID, action_id: UUID, event_id: UUID, at: datetime) -> bool:
    """Carry the end of an ordered recovery action over to the action behind it; return True if it had ended."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    detail = runs.order_details(tenant_id, action_id).get(event_id)
    if detail is None:
        ledger_orders.end_order(tenant_id=tenant_id, event_id=event_id)
        return True
    how, reason = _remedy_outcome(tenant_id, event_id, detail)
    if how is RemedyOutcome.OPEN:
        return False
    ledger_orders.end_order(tenant_id=tenant_id, event_id=event_id)
    done = how is RemedyOutcome.DONE
    if head.state == State.COMPENSATING:
        _end_compensation(head, detail, at=at) if done else _compensation_failed(head, reason, at=at)
    elif head.state in (State.FORWARD_RECOVERY, State.RECONCILIATION_FAILED):
        _continue_recovery(head, detail, at=at) if done else _hold(head, detail, reason, at=at)
    elif head.state == State.RECONCILED_SUCCESS:
        _record_reversal(head, detail, at=at) if done else _not_reversed(head, reason, at=at)
    return True


def _remedy_outcome(tenant_id: UUID, event_id: UUID, detail: dict[str, Any]) -> tuple[RemedyOutcome, str]:
    if detail["refused"]:
        return RemedyOutcome.FAILED, f"The gate refused {detail['tool']}: {detail['refused']['reason']}"
    child = actions.child_of(tenant_id, event_id)
    if child is None:
        return RemedyOutcome.OPEN, ""
    how = remedies.remedy_outcome(State(child.state), settled=child.settled, contradicted=child.contradicted)
    found = f" ({child.discrepancy})" if child.discrepancy else ""
    return how, f"The {detail['relation']} with {child.tool} ended as: {WORDS[outcome_of(child)]}{found}."


def _end_compensation(head: ledger.SubjectHead, detail: dict[str, Any], *, at: datetime) -> None:
    if ledger_orders.order_next_step(head, detail, actor=ledger.SYSTEM, at=at) is not None:
        return
    kind, reason = _how_reversed(head)
    _step(head, State.COMPENSATED, reason, frozenset({Ground.COMPENSATION_VERIFIED}), at=at, kind=kind)
    ledger_orders.unwind_after_failure(current_action(head), "COMPENSATED", at=at)


def _continue_recovery(head: ledger.SubjectHead, detail: dict[str, Any], *, at: datetime) -> None:
    """The recovery action was verified: the next one, or a reading of the action itself, which alone can end it."""
    if ledger_orders.order_next_step(head, detail, actor=ledger.SYSTEM, at=at) is not None:
        return
    happening = ledger.NewEvent(kind=_READ_AGAIN[Relation(detail["relation"])], view={"settled": False})
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    schedules.restart_schedule(tenant_id=head.tenant_id, action_id=head.id, priority=_rank(head), at=at)


def _how_reversed(head: ledger.SubjectHead) -> tuple[str, str]:
    """Return the event that ends a reversal, and its reason: verified only if the recovery actions behind it are."""
    children = actions.children_of(head.tenant_id, head.id)
    if any(outcome_of(each) in (Outcome.ATTESTED, Outcome.ACCEPTED_AS_IT_IS) for each in children):
        return ATTESTED_REVERSAL, "A person has attested a recovery action; not every one was verified."
    return KINDS[State.COMPENSATED], "Every recovery action was verified."


def _compensation_failed(head: ledger.SubjectHead, reason: str, *, at: datetime) -> None:
    decision, policy = _failure(head)
    for state in decision.path:
        head = _step(head, state, reason, frozenset(), at=at, decision=decision, policy=policy)
    _tell(head, decision, at=at)


def _hold(head: ledger.SubjectHead, detail: dict[str, Any], reason: str, *, at: datetime) -> None:
    text = str((head.entry or {})["reconciliation"]["recovery_decision"] or "HELD")
    _step(head, State.REVIEW_REQUIRED, reason, frozenset(), at=at)
    if detail["relation"] == Relation.CORRECTION:
        cases.end_correction(tenant_id=head.tenant_id, action_id=head.id, is_verified=False, reason=reason, at=at)
    cases.open_case(tenant_id=head.tenant_id, action_id=head.id, reason=text, at=at)


def _record_reversal(head: ledger.SubjectHead, detail: dict[str, Any], *, at: datetime) -> None:
    """Record that a success was reversed later; both stay on record, and in the report (R-RP-44)."""
    if ledger_orders.order_next_step(head, detail, actor=ledger.SYSTEM, at=at) is not None:
        return
    kind, reason = _how_reversed(head)
    happening = ledger.NewEvent(
        kind=kind,
        changes={
            "reconciliation": {"status": "COMPENSATED", "recovery_decision": detail["because"][:48]},
            "idempotency": {"status": "COMPENSATED"},
        },
        detail={"reason": reason},
        view={"reversed": True},
    )
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)


def _not_reversed(head: ledger.SubjectHead, reason: str, *, at: datetime) -> None:
    decision, policy = _failure(head)
    happening = ledger.NewEvent(
        kind="compensation_failed",
        detail={"reason": reason, "recovery_row": decision.row, "recovery_table": decision.table},
        changes={"policy_context": policy_context([policy])},
        digests={policy.kind: policy.digest},
    )
    _tell(ledger.append(head, happening, actor=ledger.SYSTEM, at=at), decision, at=at)


def _failure(head: ledger.SubjectHead) -> tuple[RecoveryDecision, DecidingPolicy]:
    """Decide by the policy in force on a failed compensation (RT-17, RT-50); also return the policy's version."""
    action = current_action(head)
    policy = deciding_policy(action)
    facts = ContractFacts.of(contract_of(head.tenant_id, action))
    asked = facts.situation(COMPENSATION_FAILURE)
    table = recovery_table.parse_policy(bytes(policy.document))
    return rules.decide_recovery(asked, state=State.COMPENSATING, means=RecoveryOptions(), policy=table), policy


def _tell(head: ledger.SubjectHead, decision: RecoveryDecision, *, at: datetime) -> None:
    action = current_action(head)
    if decision.incident is not None:
        title = f"Compensation failed: {action.tool} on {target_text(action.target)}"
        incidents_operations.open_for_action(action=action, kind=IncidentKind(decision.incident), title=title, at=at)
    cases.open_case(
        tenant_id=head.tenant_id,
        action_id=head.id,
        reason=decision.text or "HELD",
        discrepancy=action.discrepancy or "COMPENSATION_REQUIRED",
        at=at,
    )


def _step(
    head: ledger.SubjectHead,
    state: State,
    reason: str,
    grounds: frozenset[Ground],
    *,
    at: datetime,
    decision: RecoveryDecision | None = None,
    kind: str = "",
    policy: DecidingPolicy | None = None,
) -> ledger.SubjectHead:
    assert head.entry is not None
    changes = entry_changes(state, head.entry, at=at)
    view: dict[str, Any] = {"settled": True}
    detail: dict[str, Any] = {"reason": reason}
    if decision is not None and policy is not None:
        changes.setdefault("reconciliation", {})["recovery_decision"] = decision.text
        changes["policy_context"] = policy_context([policy])
        detail |= {"recovery_row": decision.row, "recovery_table": decision.table}
        view["recovery_row"] = decision.row
    happening = ledger.NewEvent(
        kind=kind or KINDS[state],
        to=str(state),
        grounds=grounds & NEEDS.get((State(head.state), state), frozenset()),
        changes=changes,
        detail=detail,
        digests={policy.kind: policy.digest} if policy is not None else {},
        view=view,
    )
    return ledger.append(head, happening, actor=ledger.SYSTEM, at=at)


def _rank(head: ledger.SubjectHead) -> int:
    return contract_of(head.tenant_id, current_action(head)).side_effect_class.rank
