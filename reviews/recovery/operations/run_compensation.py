"""Rolls back a run: compensates its completed steps in reverse order, each with a verified action.

One step at a time: the next is ordered only when the reversal of the one after it was verified. A step that is still
open is waited for; one that cannot be reversed without a person stops the run there, with a case.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions as actions_queries
from ledger.actions.queries import runs
from ledger.catalogue.rules.policies import DecidingPolicy
from ledger.catalogue.rules.remedies import Relation
from ledger.catalogue.rules.targets import target_text
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.queries.work import Work, tenants_with
from ledger.record.rules.envelope import instant
from ledger.record.rules.lifecycle import State
from reviews import queries
from reviews.cases.operations import cases
from reviews.readback.operations.plans import contract_of
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.reconciliation.rules.facts import ContractFacts
from reviews.recovery.operations import recovery
from reviews.recovery.rules import recovery as rules
from reviews.recovery.rules import recovery_table, sagas
from reviews.recovery.rules.recovery import RecoveryDecision, RecoveryOptions
from reviews.recovery.rules.sagas import SagaStep

if TYPE_CHECKING:
    from ledger.models import Action


def open_compensations() -> list[tuple[UUID, UUID]]:
    """(tenant, unwinding) of every run that is being taken back."""
    found: list[tuple[UUID, UUID]] = []
    for tenant_id in tenants_with(Work.ROLLBACKS):
        with tenancy(tenant_id):
            found += [(tenant_id, each.id) for each in runs.open_unwindings(tenant_id, "OPEN", "STUCK")]
    return found


_ERASED: dict[str, Any] = {"timestamps": {"reconciled_at": None}}


def steps_of(tenant_id: UUID, run_id: str) -> list[SagaStep]:
    """Return the steps of a run for the rules, oldest first, without recovery actions."""
    return saga_steps(tenant_id, runs.steps_of(tenant_id, run_id))


def saga_steps(tenant_id: UUID, found: Sequence[Action]) -> list[SagaStep]:
    """Return those of these actions of one run that are steps."""
    actions = [each for each in found if not each.relation]
    pivots = {digest: runs.is_pivot(tenant_id, digest) for digest in {each.contract_digest for each in actions}}
    entries = events.entries(tenant_id, [(each.id, each.seq) for each in actions])
    links = runs.proposal_links(tenant_id, [each.id for each in actions])
    return [
        SagaStep(
            id=str(each.id),
            state=State(each.state),
            mutating=each.mutating,
            pivot=pivots[each.contract_digest],
            proposed_at=each.proposed_at,
            # Of a step that was erased, its present view still says when it ended.
            ended_at=entries.get(each.id, _ERASED)["timestamps"]["reconciled_at"] or instant(each.changed_at),
            settled=each.settled,
            contradicted=each.contradicted,
            reversed=each.reversed,
            left=each.recovery_decision == "ABANDON",
            depends_on=tuple(links.get(each.id, {}).get("depends_on", ())),
            acknowledges=tuple(links.get(each.id, {}).get("acknowledges", ())),
        )
        for each in actions
    ]


def compensate_next(*, tenant_id: UUID, unwinding_id: UUID, at: datetime) -> bool:
    """Start the next step of the rollback, if one can start now; return True if anything was written."""
    ledger.lock_subject(tenant_id=tenant_id, subject_id=unwinding_id, kind="unwinding")
    row = next((each for each in runs.open_unwindings(tenant_id, "OPEN", "STUCK") if each.id == unwinding_id), None)
    if row is None:
        return False
    steps = steps_of(tenant_id, row.run_id)
    if sagas.unresolved_steps(steps):
        return False
    step = sagas.next_to_compensate(steps)
    if step is None:
        return _end_unwinding(row, at=at)
    if runs.has_open_order(tenant_id, UUID(step.id)):
        return False
    action = actions_queries.action(tenant_id, UUID(step.id))
    assert action is not None
    case = queries.case_of(tenant_id, action.id)
    if case is not None and case.state != "RESOLVED":
        return _awaiting(row, action, at=at)
    policy = recovery.deciding_policy(action)
    decision, concerned = _decision(action, policy)
    if decision.held_because is not None or decision.row is None or not decision.orders:
        return _stuck(row, action, decision, at=at)
    return _order(row, action, decision, policy, concerned, at=at)


def _decision(action: Action, policy: DecidingPolicy) -> tuple[RecoveryDecision, tuple[str, ...]]:
    """Decide by the policy on a committed effect that must be reversed (RT-51, RT-52)."""
    facts = ContractFacts.of(contract_of(action.tenant_id, action))
    orders_wanted, concerned = recovery.manual_orders(action)[Relation.COMPENSATION]
    asked = facts.situation(
        str(Discrepancy.COMPENSATION_REQUIRED), compensation_available=not isinstance(orders_wanted, str)
    )
    means = RecoveryOptions(plan=lambda _wanted: orders_wanted, high_impact=facts.high_impact)
    table = recovery_table.parse_policy(bytes(policy.document))
    return rules.decide_recovery(asked, state=State.RECONCILIATION_FAILED, means=means, policy=table), concerned


def _order(
    row: Any,
    action: Action,
    decision: RecoveryDecision,
    policy: DecidingPolicy,
    concerned: tuple[str, ...],
    *,
    at: datetime,
) -> bool:
    head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=action.id, kind="action")
    recovery.order_recovery(
        head,
        decision.orders,
        concerned=concerned,
        because=decision.text or "",
        requester=ledger.SYSTEM.id,
        actor=ledger.SYSTEM,
        at=at,
        decided_by=ledger_orders.DecisionSource(policy=policy, row=decision.row or "", table=decision.table),
    )
    if row.state == "STUCK":
        _move(row, "OPEN", "unwinding_went_on", "A person has settled what it waited for.", at=at)
    return True


def _stuck(row: Any, action: Action, decision: RecoveryDecision, *, at: datetime) -> bool:
    reason = decision.held_because or "Its contract names nothing that could reverse it."
    ledger.lock_subject(tenant_id=row.tenant_id, subject_id=action.id, kind="action")
    cases.open_case(
        tenant_id=row.tenant_id,
        action_id=action.id,
        reason=decision.text or "HELD",
        discrepancy=str(Discrepancy.COMPENSATION_REQUIRED),
        at=at,
    )
    if row.state == "OPEN":
        _move(row, "STUCK", "unwinding_stuck", f"{action.tool} on {target_text(action.target)}: {reason}", at=at)
    return True


def _awaiting(row: Any, action: Action, *, at: datetime) -> bool:
    """Return True if the step has an open case, as after a failed reversal: the run waits for a person."""
    if row.state == "STUCK":
        return False
    _move(
        row,
        "STUCK",
        "unwinding_stuck",
        f"{action.tool} on {target_text(action.target)}: its case is not settled.",
        at=at,
    )
    return True


def _end_unwinding(row: Any, *, at: datetime) -> bool:
    if row.state == "STUCK":
        _move(row, "OPEN", "unwinding_went_on", "A person has settled what it waited for.", at=at)
    _move(row, "DONE", "unwinding_ended", "Nothing is left to reverse.", at=at)
    return True


def _move(row: Any, to: str, kind: str, reason: str, *, at: datetime) -> None:
    ledger_orders.move_unwinding(
        tenant_id=row.tenant_id, unwinding_id=row.id, to=to, kind=kind, reason=reason, actor=ledger.SYSTEM, at=at
    )
