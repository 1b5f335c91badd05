"""Reports on actions: built from the record alone, and stored once given (R-RI-14, R-RI-15)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.actions.queries import runs
from ledger.catalogue.rules.remedies import Relation
from ledger.log.queries import log
from ledger.record import operations as ledger
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.lifecycle import State
from reviews import queries
from reviews.reconciliation.rules.discrepancies import Discrepancy
from reviews.recovery.rules.remedies import CORRECT
from reviews.reporting.queries import facts_of
from reviews.reporting.rules import report as rules
from reviews.reporting.rules.facts import Facts
from reviews.reporting.rules.recovery_report import (
    RECOVERY_ACTIONS,
    RELATIONS,
    OngoingRecovery,
    Part,
    RecoveryStage,
    parts_of,
)
from reviews.reporting.rules.report import StatusReport
from reviews.verification.rules.trust import RECONCILED, TrustLadder, trust_ladder

if TYPE_CHECKING:
    from ledger.models import Action


def trust_of(action: Action, entry: dict[str, Any]) -> TrustLadder:
    """Return the action's position on the trust ladder; read whether it is sealed only if that would raise it."""
    ladder = trust_ladder(entry, sealed=False, contradicted=action.contradicted)
    if ladder.level < RECONCILED or not log.is_sealed(action.tenant_id, action.id):
        return ladder
    return trust_ladder(entry, sealed=True, contradicted=action.contradicted)


def report_on(
    action: Action, entry: dict[str, Any], *, facts: Facts | None = None, ladder: TrustLadder | None = None
) -> StatusReport:
    """The current report on an action; pass its `facts` and its trust ladder where they are known already."""
    ladder = ladder or trust_of(action, entry)
    return rules.build_report(
        facts or facts_of(action, entry),
        entry,
        trust_level=ladder.level,
        completes_critical=ladder.completes_critical,
        recovery=recovery_of(action, entry),
        parts=_parts(action, entry),
    )


def report_on_new(state: State, entry: dict[str, Any]) -> StatusReport:
    """The report on an action that was just created and has no result yet."""
    facts = Facts(state=state, side_effect_class=entry["side_effect_class"])
    return rules.build_report(facts, entry, trust_level=trust_ladder(entry, sealed=False).level)


def recovery_of(action: Action, entry: dict[str, Any]) -> OngoingRecovery | None:
    """Return the recovery under way for an action, from its own record; None if there is none."""
    state, recovery = State(action.state), entry.get("recovery") or {}
    if state is State.RECONCILED_SUCCESS:
        reversing = bool(recovery.get(RECOVERY_ACTIONS[Relation.COMPENSATION])) and not action.reversed
        under_way = reversing and runs.has_open_order(action.tenant_id, action.id)
        return OngoingRecovery(Relation.COMPENSATION, RecoveryStage.RUNNING) if under_way else None
    relation = RELATIONS.get(state)
    if relation is None:
        return None
    if state is State.FORWARD_RECOVERY and action.recovery_decision == CORRECT:
        relation = Relation.CORRECTION
    if not action.settled:
        return OngoingRecovery(relation, RecoveryStage.VERIFIED)
    if recovery.get(RECOVERY_ACTIONS[relation]):
        return OngoingRecovery(relation, RecoveryStage.RUNNING)
    # Only a rollback has no state of its own.
    ordered = relation is not Relation.ROLLBACK or runs.has_open_order(action.tenant_id, action.id)
    return OngoingRecovery(relation, RecoveryStage.ORDERED) if ordered else None


def _parts(action: Action, entry: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of an action that a reading found done in part, from the newest such reading."""
    if action.discrepancy != Discrepancy.PARTIAL_APPLICATION and not entry.get("recovery"):
        return ()
    run = queries.last_partial_run(action.tenant_id, action.id)
    try:
        return parts_of(queries.run_findings(run).get("verdict", {})) if run else ()
    except CannotOpen:
        return ()


def record_false_success(
    *, tenant_id: UUID, action_id: UUID, told: str, reason: str, by: ledger.Actor, at: datetime
) -> None:
    """Record that a person was told of a success that did not happen; `told` holds where and in which words (R-MT-08).

    It changes neither the action's state nor its report: it says that a report elsewhere was wrong.
    """
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    happening = ledger.NewEvent(kind="false_success_filed", detail={"told": told, "reason": reason})
    ledger.append(head, happening, actor=by, at=at)
