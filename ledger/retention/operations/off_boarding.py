"""Off-boarding of a tenant takes two: an operator of the installation asks, a person of the tenant confirms.

Both are events of the tenant's own subject. `console/installation/off_boarding.py` carries out what was confirmed.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ledger.people.rules import confirmation
from ledger.people.rules.confirmation import Answer
from ledger.record.operations import SYSTEM, Actor, NewEvent, append, lock_subject, new_id
from ledger.record.rules.canonical import digest
from ledger.record.rules.refusals import AlreadyDecided, NotFound
from ledger.retention import queries
from ledger.retention.queries import OffBoarding


def request_off_boarding(*, tenant_id: UUID, reason: str, at: datetime) -> OffBoarding:
    """Request the off-boarding of a tenant, unless one is under way or waits, and return it; nothing else is done."""
    head = lock_subject(tenant_id=tenant_id, subject_id=tenant_id, kind="tenant")
    found = queries.off_boarding(tenant_id)
    if (
        found is not None
        and found.is_open
        and not (found.state == "REQUESTED" and confirmation.has_expired("off_boarding", found.requested_at, at=at))
    ):
        return found
    off_boarding_id = new_id(at)
    append(head, _event("off_boarding_requested", off_boarding_id, reason), actor=SYSTEM, at=at)
    return OffBoarding(off_boarding_id, "REQUESTED", reason, at, head.seq + 1)


def answer_off_boarding(
    *,
    tenant_id: UUID,
    off_boarding_id: UUID,
    answer: Answer,
    reason: str = "",
    by: Actor,
    is_proven: bool = False,
    at: datetime,
) -> OffBoarding:
    """Confirm the request as a person of the tenant, or refuse it, even confirmed, until it begins."""
    head = lock_subject(tenant_id=tenant_id, subject_id=tenant_id, kind="tenant")
    found = queries.off_boarding(tenant_id)
    if found is None or found.id != off_boarding_id:
        raise NotFound
    confirms = answer is Answer.CONFIRM
    if found.state not in (("REQUESTED",) if confirms else ("REQUESTED", "CONFIRMED")):
        raise AlreadyDecided
    confirmation.check_answer(
        "off_boarding",
        answer,
        by_kind=by.kind,
        is_proposer=False,
        is_proven=is_proven,
        reason=reason,
        proposed_at=found.requested_at,
        at=at,
    )
    kind, state = ("off_boarding_confirmed", "CONFIRMED") if confirms else ("off_boarding_refused", "REFUSED")
    append(head, _event(kind, off_boarding_id, reason), actor=by, at=at)
    return found._replace(state=state)


def _event(kind: str, off_boarding_id: UUID, reason: str) -> NewEvent:
    detail = {"off_boarding_id": str(off_boarding_id)} | ({"reason": reason} if reason else {})
    return NewEvent(kind=kind, detail=detail, digests={"off_boarding": digest(off_boarding_id.bytes)})
