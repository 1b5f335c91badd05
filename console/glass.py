"""Broken glass: what its review, or the want of one, means for those who keep the systems safe."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.operations import emergencies
from approvals.queries import approvers
from approvals.rules.emergency import Finding
from ledger.operations import record as ledger
from ledger.queries import acting
from ledger.rules.effects import SideEffectClass
from reviews.operations import incidents
from reviews.rules.incidents import Kind, severity_of

_TITLES = {
    "overdue": "A use of break-glass was not reviewed in time",
    "not_justified": "A use of break-glass was found not justified",
}


def review(
    *, tenant_id: UUID, emergency_id: UUID, finding: Finding, reason: str, by: ledger.Actor, at: datetime
) -> str:
    """One person's review; what was not justified becomes a security incident with it. The state after."""
    state = emergencies.review(
        tenant_id=tenant_id, emergency_id=emergency_id, finding=finding, reason=reason, by=by, at=at
    )
    if finding is Finding.NOT_JUSTIFIED:
        used = approvers.emergency(tenant_id, emergency_id)
        _alarm(used, "not_justified", by=by, at=at)
    return state


def overdue(used: Any, at: datetime) -> None:
    """Nobody looked in time: whoever keeps the systems safe is called (B24)."""
    _alarm(used, "overdue", by=ledger.SYSTEM, at=at)


def _alarm(used: Any, what: str, *, by: ledger.Actor, at: datetime) -> None:
    action = acting.action(used.tenant_id, used.action_id)
    assert action is not None
    incidents.open_about(
        tenant_id=used.tenant_id,
        title=_TITLES[what],
        kind=Kind.SECURITY,
        severity=severity_of(Kind.SECURITY, SideEffectClass(action.side_effect_class)),
        about=f"emergency:{used.id}",
        actions=[action.id],
        note=f"{_TITLES[what]}; the reason given for using it was: {used.reason}"[:4000],
        by=by,
        at=at,
    )
