"""Assignment of cases: claim, assign, release, snooze, comment.

None of this settles anything; each step is an event of the case.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from ledger.record import operations as ledger
from ledger.record.rules.refusals import ReasonMissing, Refused
from reviews.cases.operations import threads
from reviews.cases.operations.cases import lock_case, lock_open_case
from reviews.models import Case, Comment

LONGEST_SNOOZE = timedelta(days=30)


class AlreadyClaimed(Refused):
    """Somebody else has claimed this case."""

    code = "ALREADY_CLAIMED"


class NoOperator(Refused):
    """Only an operator of this tenant can own a case."""

    code = "NOT_AN_OPERATOR"
    status = 422


class BadSnooze(Refused):
    """A case can be snoozed for at most thirty days."""

    code = "BAD_SNOOZE"
    status = 422


class NotSnoozed(Refused):
    """This case is not snoozed."""

    code = "NOT_SNOOZED"


def claim(*, tenant_id: UUID, case_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Claim a case; a claim does not bind, but shows who works on it."""
    head, case = lock_case(tenant_id, case_id)
    if case.claimed_by not in (None, by.id):
        raise AlreadyClaimed
    _set_owner(case, by.id, at=at)
    ledger.append(head, ledger.NewEvent(kind="case_claimed"), actor=by, at=at)


def assign(
    *, tenant_id: UUID, case_id: UUID, to: UUID, among: Collection[UUID], by: ledger.Actor, at: datetime
) -> None:
    """Assign an open case to one of the tenant's operators, whom the caller has already read."""
    head, case = lock_open_case(tenant_id, case_id)
    if to not in among:
        raise NoOperator
    _set_owner(case, to, at=at)
    detail = {"to": str(to), "from": str(case.claimed_by) if case.claimed_by else None}
    ledger.append(head, ledger.NewEvent(kind="case_assigned", detail=detail), actor=by, at=at)


def release(*, tenant_id: UUID, case_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Release a case to the queue."""
    head, case = lock_case(tenant_id, case_id)
    if case.claimed_by != by.id:
        raise AlreadyClaimed("Only who has claimed a case can release it.")
    _set_owner(case, None, at=at)
    ledger.append(head, ledger.NewEvent(kind="case_released"), actor=by, at=at)


def snooze(*, tenant_id: UUID, case_id: UUID, until: datetime, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Take an open case out of the queue until a time; it then returns automatically."""
    head, case = lock_open_case(tenant_id, case_id)
    if not reason.strip():
        raise ReasonMissing
    if not at < until <= at + LONGEST_SNOOZE:
        raise BadSnooze
    _rows(case).update(snoozed_until=until, snooze_reason=reason)
    detail = {"until": until.isoformat(), "reason": reason}
    ledger.append(head, ledger.NewEvent(kind="case_snoozed", detail=detail), actor=by, at=at)


def wake(*, tenant_id: UUID, case_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """Return a snoozed case to the queue early."""
    head, case = lock_open_case(tenant_id, case_id)
    if case.snoozed_until is None or case.snoozed_until <= at:
        raise NotSnoozed
    _rows(case).update(snoozed_until=None, snooze_reason="")
    ledger.append(head, ledger.NewEvent(kind="case_woken"), actor=by, at=at)


def comment(*, tenant_id: UUID, case_id: UUID, text: str, by: ledger.Actor, at: datetime) -> Comment:
    """Add a comment to a case's thread."""
    head, _ = lock_case(tenant_id, case_id)
    return threads.add_comment(head, text, by, at=at)


def _set_owner(case: Case, owner: UUID | None, *, at: datetime) -> None:
    _rows(case).update(claimed_by=owner, claimed_at=at if owner else None)


def _rows(case: Case) -> QuerySet[Case]:
    return Case.objects.filter(tenant_id=case.tenant_id, id=case.id)
