"""Consequences of a break-glass review, or of a missed one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.voting.operations import break_glass
from approvals.voting.queries import approvers
from approvals.voting.rules.break_glass import Finding
from ledger.actions.queries import actions
from ledger.catalogue.rules.effects import SideEffectClass
from ledger.record import operations as ledger
from reviews.incidents import operations as incidents_operations
from reviews.incidents.rules.incidents import IncidentKind, severity_of

if TYPE_CHECKING:
    from approvals.models import BreakGlassUse

_TITLES = {
    "overdue": "A use of break-glass was not reviewed in time",
    "not_justified": "A use of break-glass was found not justified",
}


def record_review(
    *, tenant_id: UUID, emergency_id: UUID, finding: Finding, reason: str, by: ledger.Actor, at: datetime
) -> str:
    """One person's review; what was not justified becomes a security incident with it. The state after."""
    state = break_glass.review_use(
        tenant_id=tenant_id, use_id=emergency_id, finding=finding, reason=reason, by=by, at=at
    )
    if finding is Finding.NOT_JUSTIFIED:
        used = approvers.break_glass_use(tenant_id, emergency_id)
        _alarm(used, "not_justified", by=by, at=at)
    return state


def raise_overdue_alarm(used: BreakGlassUse, at: datetime) -> None:
    """Raise an alarm because a use was not reviewed in time (B24)."""
    _alarm(used, "overdue", by=ledger.SYSTEM, at=at)


def _alarm(used: Any, what: str, *, by: ledger.Actor, at: datetime) -> None:
    action = actions.action(used.tenant_id, used.action_id)
    assert action is not None
    incidents_operations.open_for_cause(
        tenant_id=used.tenant_id,
        title=_TITLES[what],
        kind=IncidentKind.SECURITY,
        severity=severity_of(IncidentKind.SECURITY, SideEffectClass(action.side_effect_class)),
        about=f"emergency:{used.id}",
        actions=[action.id],
        note=f"{_TITLES[what]}; the reason given for using it was: {used.reason}"[:4000],
        by=by,
        at=at,
    )
