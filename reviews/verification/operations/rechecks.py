"""Re-verifies settled actions after an hour, a day and a week, as their contract asks.

A contradiction changes no state. It is an event beside the state: it opens a case, turns the report into
FINAL_STATE_UNKNOWN and blocks repeats, until a person has settled it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from ledger.actions.queries import actions
from ledger.catalogue.rules.policies import policy_context
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.rules.lifecycle import State
from ledger.record.rules.outcomes import Outcome, outcome_of
from reviews import queries
from reviews.cases.operations import cases
from reviews.cases.rules.resolutions import RECHECKED
from reviews.readback.operations import schedules
from reviews.readback.operations.plans import ReadPlan, plan_for
from reviews.readback.operations.readings import SourceReadings, read_sources
from reviews.reconciliation.rules import reconcile
from reviews.reconciliation.rules.verdict import Verdict
from reviews.recovery.rules.recovery import RecoveryDecision
from reviews.replay.rules.replay import run_circumstances
from reviews.verification.operations.verification import plan_recheck, run_inputs, store_run_evidence

if TYPE_CHECKING:
    from ledger.models import Action

TRY_AGAIN = timedelta(minutes=10)
MOST_TRIES = 6
RESTING_ON_A_REMEDY = frozenset({State.COMPENSATED, State.ROLLED_BACK, State.RECONCILED_SUCCESS})
_NOTHING = RecoveryDecision(row=None, action=None)


def recheck_action(*, tenant_id: UUID, action_id: UUID, clock: Callable[[], datetime]) -> bool | None:
    """Read a settled action again; return True if the reading contradicts it, None if it is inconclusive."""
    with tenancy(tenant_id):
        action = actions.action(tenant_id, action_id)
        plan = plan_for(tenant_id, action_id) if action is not None and can_be_rechecked(action) else None
    if plan is None:
        schedules.end_schedule(tenant_id=tenant_id, action_id=action_id)
        return None
    at = clock()
    taken = read_sources(plan, at=at, clock=clock)
    with tenancy(tenant_id):
        return judge_recheck(plan, taken, at=at)


def can_be_rechecked(action: Action) -> bool:
    """Return True if a reading can test how an action was settled; a reversed success can no longer be tested."""
    return action.state in RECHECKED and not action.reversed


def judge_recheck(plan: ReadPlan, taken: SourceReadings, *, at: datetime) -> bool | None:
    """Return True if a reading contradicts the settlement of the action; None if it is inconclusive."""
    head = ledger.lock_subject(tenant_id=plan.tenant_id, subject_id=plan.action_id, kind="action")
    action = actions.action(plan.tenant_id, plan.action_id)
    row = queries.schedule_of(plan.tenant_id, plan.action_id)
    if action is None or row is None or row.recheck is None or not can_be_rechecked(action):
        return None
    pointer = uuid4()
    inputs = run_inputs(plan, action, head, row, taken, pointer, at=at)
    verdict = reconcile.reconcile(inputs)
    if not verdict.decisive:
        _later(plan, taken, head, row, verdict, at=at)
        return None
    judged_by = [plan.verification_policy]
    circumstances = run_circumstances(
        inputs, seq=head.seq, contract=plan.contract.digest, lookup=plan.lookup_digest, policies=judged_by
    )
    entry = head.entry or {}
    is_accepted = outcome_of(action) is Outcome.ACCEPTED_AS_IT_IS
    before = queries.last_reading(action, entry).exact if is_accepted else ""
    asked = taken.count_asked(plan, unlisted=row.unlisted)
    kept, listed = store_run_evidence(plan, inputs, verdict, _NOTHING, (), judged_by, circumstances, asked, at=at)
    contradicted = reconcile.contradicts(verdict, succeeded=head.state == State.RECONCILED_SUCCESS)
    if contradicted and is_accepted:
        # What a person accepted is still there, and nothing else.
        contradicted = queries.last_reading(action, entry).exact != before
    _write(plan, head, action, verdict, kept, listed, contradicted=contradicted, at=at)
    schedules.end_schedule(tenant_id=plan.tenant_id, action_id=plan.action_id)
    plan_recheck(plan, State(head.state), number=row.recheck + 1, at=at)
    return contradicted


def _later(
    plan: ReadPlan, taken: SourceReadings, head: ledger.SubjectHead, row: Any, verdict: Verdict, *, at: datetime
) -> None:
    """Retry an inconclusive recheck for a while, then record that and leave it to the next recheck."""
    if row.readings + 1 < MOST_TRIES:
        unlisted = int(bool(taken.asked))
        schedules.reschedule(
            plan.tenant_id,
            schedules.NextReading(action_id=plan.action_id, due_at=at + TRY_AGAIN, began_at=at, unlisted=unlisted),
        )
        return
    happening = ledger.NewEvent(kind="recheck_missed", detail={"reason": verdict.reason})
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    schedules.end_schedule(tenant_id=plan.tenant_id, action_id=plan.action_id)
    plan_recheck(plan, State(head.state), number=row.recheck + 1, at=at)


def _write(
    plan: ReadPlan,
    head: ledger.SubjectHead,
    action: Action,
    verdict: Verdict,
    kept: ledger.SealedEvidence,
    listed: dict[str, Any],
    *,
    contradicted: bool,
    at: datetime,
) -> None:
    kind = "contradicted" if contradicted else "contradiction_withdrawn" if action.contradicted else "rechecked"
    discrepancy = str(verdict.discrepancy or "")
    ledger.append(
        head,
        ledger.NewEvent(
            kind=kind,
            changes={"policy_context": policy_context([plan.verification_policy])},
            digests={"verification": plan.verification_policy.digest},
            detail={"reason": verdict.reason, "discrepancy": discrepancy, "run": str(kept.pointer), "listed": listed},
            evidence=(kept,),
            view={"contradicted": contradicted},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
    if contradicted:
        cases.open_case(
            tenant_id=head.tenant_id, action_id=head.id, reason="CONTRADICTED", discrepancy=discrepancy, at=at
        )
    if action.parent_id is not None and kind != "rechecked":
        _carry_over(action, verdict, contradicted=contradicted, at=at)


def _carry_over(child: Any, verdict: Verdict, *, contradicted: bool, at: datetime) -> None:
    """Mark the action that a recovery action had repaired as contradicted, or no longer, as its recovery action is."""
    head = ledger.lock_subject(tenant_id=child.tenant_id, subject_id=child.parent_id, kind="action")
    parent = actions.action(child.tenant_id, child.parent_id)
    assert parent is not None
    if parent.contradicted == contradicted or not (parent.reversed or head.state in RESTING_ON_A_REMEDY):
        return
    happening = ledger.NewEvent(
        kind="contradicted" if contradicted else "contradiction_withdrawn",
        detail={"reason": f"Its {child.relation} with {child.tool}: {verdict.reason}", "action_id": str(child.id)},
        view={"contradicted": contradicted},
    )
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    if contradicted:
        cases.open_case(
            tenant_id=child.tenant_id,
            action_id=child.parent_id,
            reason="CONTRADICTED",
            discrepancy=str(verdict.discrepancy or ""),
            at=at,
        )
