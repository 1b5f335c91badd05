"""A standing approval that must not go on is paused, and a case is opened about it: the one write that needs both."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from approvals.standing import queries
from approvals.standing.operations import passing
from ledger.db import tenancy
from ledger.record import operations as ledger
from reviews import queries as after
from reviews.cases.operations import cases

if TYPE_CHECKING:
    from approvals.models import StandingApproval

REASON = "STANDING_APPROVAL_PAUSED"


def watch_standing_approvals(tenant_id: UUID, *, at: datetime) -> int:
    """Pause standing approvals that must stop, end expired ones, and open cases; return the number of cases.

    A pause and its case are two transactions, each under its own locks: a pause never waits for a case, and if we crash
    between them, the next tick finds the pause without its case.
    """
    opened = 0
    with tenancy(tenant_id):
        found = queries.standing_approvals_to_check(tenant_id, at=at)
    for standing_id in found:
        with tenancy(tenant_id):
            paused = passing.check_standing(
                tenant_id=tenant_id, standing_id=standing_id, open_incident=_open_incident, at=at
            )
        if paused is not None:
            with tenancy(tenant_id):
                _open_case(paused, at=at)
            opened += 1
    return opened


def _open_case(row: StandingApproval, *, at: datetime) -> None:
    """The case of the action behind a pause: the open one, or a new one. A pause without an action concerns the newest
    that passed, or the newest by which the standing approval was earned.
    """
    passed = queries.passes(row.tenant_id, row.id)
    action_id = row.pause_action or (passed[0].action_id if passed else UUID(row.evidence[0]))
    ledger.lock_subject(tenant_id=row.tenant_id, subject_id=action_id, kind="action")
    case = cases.open_case(tenant_id=row.tenant_id, action_id=action_id, reason=REASON, at=at)
    case = case or after.case_of(row.tenant_id, action_id)
    assert case is not None
    passing.note_case(row=row, case_id=case.id, at=at)


def _open_incident(tenant_id: UUID, action_ids: Collection[UUID]) -> UUID | None:
    """The first of these actions that an open incident is about."""
    return next(
        (each for each in action_ids if any(found.state == "OPEN" for found in after.incidents_of(tenant_id, each))),
        None,
    )
