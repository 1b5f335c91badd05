"""Orders recovery actions and unwinds runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.actions.queries import runs
from ledger.catalogue.rules.policies import DecidingPolicy, policy_context
from ledger.models import Action, RecoveryOrder, RunRollback
from ledger.record.operations import (
    SYSTEM,
    Actor,
    NewEvent,
    SealedEvidence,
    SubjectHead,
    append,
    lock_subject,
    new_id,
    store_evidence,
)
from ledger.record.rules.refusals import NotFound, Refused


class AlreadyUnwinding(Refused):
    """This run is already being rolled back."""

    code = "ALREADY_UNWINDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSource:
    """The recovery policy behind a decision, its row, and the digest of its table of rows."""

    policy: DecidingPolicy
    row: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPlan:
    """The recovery actions of one decision, in order, and the reason for them.

    Each step is `{relation, tool, arguments, effect}`; `concerned` names the effects that the plan is about;
    `requester` is who ordered it: a person, or the system by its policy. `decided_by` is recorded with the first order
    where no event before it names the decision. `difference` is what a correction makes good, as JSON.
    """

    steps: Sequence[dict[str, Any]]
    concerned: Sequence[str]
    because: str
    requester: UUID
    decided_by: DecisionSource | None = None
    difference: dict[str, Any] | None = None


def place_order(head: SubjectHead, plan: OrderPlan, *, actor: Actor, at: datetime) -> SubjectHead:
    """Order the first step of a plan; the plan itself is encrypted, since arguments may be personal."""
    document = {
        "steps": list(plan.steps),
        "concerned": list(plan.concerned),
        "because": plan.because,
        "requester": str(plan.requester),
        **({"difference": plan.difference} if plan.difference else {}),
    }
    sealed_plan = store_evidence(
        tenant_id=head.tenant_id,
        subject_id=head.id,
        purpose="order",
        data=json.dumps(document).encode(),
        media_type="application/json",
        source="recovery",
        at=at,
    )
    return _order_step(
        head, document, 0, sealed_plan.pointer, evidence=(sealed_plan,), decided_by=plan.decided_by, actor=actor, at=at
    )


def order_next_step(head: SubjectHead, before: dict[str, Any], *, actor: Actor, at: datetime) -> SubjectHead | None:
    """Order the step after the one in the detail `before`; return None if that was the last."""
    document, number = runs.order_plan(head.tenant_id, before), before["number"] + 1
    if number == len(document["steps"]):
        return None
    return _order_step(head, document, number, UUID(before["plan"]), evidence=(), actor=actor, at=at)


def _order_step(
    head: SubjectHead,
    plan: dict[str, Any],
    number: int,
    pointer: UUID,
    *,
    evidence: tuple[SealedEvidence, ...],
    actor: Actor,
    at: datetime,
    decided_by: DecisionSource | None = None,
) -> SubjectHead:
    step = plan["steps"][number]
    event = NewEvent(
        kind="ordered",
        detail={
            "relation": step["relation"],
            "tool": step["tool"],
            "effect": step["effect"],
            "number": number,
            "of": len(plan["steps"]),
            "plan": str(pointer),
            "because": plan["because"],
            "requester": plan["requester"],
            "reason": f"{plan['because']}: {step['relation']} with {step['tool']}",
            **({"recovery_row": decided_by.row, "recovery_table": decided_by.table} if decided_by else {}),
        },
        evidence=evidence,
        **_decision_fields(decided_by),
    )
    head = append(head, event, actor=actor, at=at)
    assert head.event_id is not None
    RecoveryOrder.objects.create(
        tenant_id=head.tenant_id, event_id=head.event_id, action_id=head.id, placed_at=at, due_at=at
    )
    return head


def _decision_fields(by: DecisionSource | None) -> dict[str, Any]:
    # The entry has a recovery block from now on, before there is an action to name in it.
    changes: dict[str, Any] = {"recovery": {}}
    if by is None:
        return {"changes": changes}
    changes["policy_context"] = policy_context([by.policy])
    return {"changes": changes, "digests": {by.policy.kind: by.policy.digest}}


ORDER_PATIENCE = timedelta(seconds=30)


def mark_order_proposed(*, tenant_id: UUID, event_id: UUID, at: datetime) -> None:
    """Mark an order as proposed or refused: from now on its end is awaited."""
    RecoveryOrder.objects.filter(tenant_id=tenant_id, event_id=event_id).update(proposed=True, due_at=at)


def postpone_order(order: RecoveryOrder, *, at: datetime) -> None:
    """Postpone an order that cannot proceed now; the longer it has waited, the later the next check."""
    wait = min(timedelta(seconds=1) + (at - order.placed_at) / 10, ORDER_PATIENCE)
    RecoveryOrder.objects.filter(tenant_id=order.tenant_id, event_id=order.event_id).update(due_at=at + wait)


def wake_order(*, tenant_id: UUID, event_id: UUID, at: datetime) -> None:
    """Make an order due at once, after its recovery action has changed."""
    RecoveryOrder.objects.filter(tenant_id=tenant_id, event_id=event_id).update(due_at=at)


def end_order(*, tenant_id: UUID, event_id: UUID) -> None:
    """Delete an order that has ended; its outcome is on the action's record."""
    RecoveryOrder.objects.filter(tenant_id=tenant_id, event_id=event_id).delete()


def unwind_run(*, tenant_id: UUID, run_id: str, reason: str, actor: Actor, at: datetime) -> RunRollback:
    """Begin to unwind a run: after the commit nothing new starts in it."""
    if runs.is_unwinding(tenant_id, run_id):
        raise AlreadyUnwinding
    if not runs.steps_of(tenant_id, run_id, limit=1):
        raise NotFound("Run")
    row = RunRollback.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        run_id=run_id,
        state="OPEN",
        reason=reason[:1000],
        opened_at=at,
        changed_at=at,
    )
    event = NewEvent(kind="unwinding_began", to="OPEN", detail={"run_id": run_id, "reason": reason})
    append(SubjectHead(tenant_id=tenant_id, id=row.id, kind="unwinding"), event, actor=actor, at=at)
    return row


ENDED_BADLY = frozenset({"FAILED", "ROLLED_BACK", "COMPENSATING", "COMPENSATED", "ABANDONED"})


def unwind_after_failure(action: Action, state: str, *, at: datetime) -> RunRollback | None:
    """Start rolling back the run of a failed step, if its session requested that (R-RP-32).

    After the pivot nothing is unwound (R-RP-39): the remaining steps are completed, or a person decides.
    """
    if not action.unwinds or state not in ENDED_BADLY or runs.is_unwinding(action.tenant_id, action.run_id):
        return None
    if runs.has_passed_pivot(action.tenant_id, action.run_id):
        return None
    reason = f"The step {action.tool} on {action.target} ended {state}."
    return unwind_run(tenant_id=action.tenant_id, run_id=action.run_id, reason=reason, actor=SYSTEM, at=at)


def move_unwinding(
    *, tenant_id: UUID, unwinding_id: UUID, to: str, kind: str, reason: str, actor: Actor, at: datetime
) -> None:
    """Move the unwinding of a run to OPEN, STUCK (a person must act) or DONE."""
    head = lock_subject(tenant_id=tenant_id, subject_id=unwinding_id, kind="unwinding")
    append(head, NewEvent(kind=kind, to=to, detail={"reason": reason}), actor=actor, at=at)
    RunRollback.objects.filter(tenant_id=tenant_id, id=unwinding_id).update(
        state=to, reason=reason[:1000], changed_at=at
    )
