"""Integrity checks: start, pause, resume, cancel, and record the result.

Progress is stored with each step, so if a worker dies, the next one continues from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.log.operations import logs
from ledger.log.queries import log
from ledger.models import IntegrityCheck
from ledger.record.operations import SYSTEM, Actor, NewEvent, SubjectHead, append, lock_subject, new_id
from ledger.record.rules.refusals import Refused
from ledger.verification.queries import storage

FIRST = UUID(int=0)
ALARM = "RECORD_BROKEN"


class CheckUnderWay(Refused):
    """An integrity check is already running."""

    code = "CHECK_UNDER_WAY"


class NoSuchCheck(Refused):
    """Check not found."""

    code = "NOT_FOUND"
    status = 404


def start_check(*, tenant_id: UUID, by: Actor, at: datetime) -> IntegrityCheck:
    """Start a check of everything that is stored; a worker carries it out."""
    if any(each.state in storage.OPEN for each in storage.integrity_checks(tenant_id)):
        raise CheckUnderWay
    row = IntegrityCheck.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        state="RUNNING",
        phase="RECORD",
        place=FIRST,
        expected=sum(each.size for each in log.logs(tenant_id)),
        started_by=by.id,
        started_at=at,
    )
    begun = NewEvent(kind="integrity_check_started", to="RUNNING")
    append(SubjectHead(tenant_id=tenant_id, id=row.id, kind="integrity"), begun, actor=by, at=at)
    return row


def pause_check(*, tenant_id: UUID, check_id: UUID, by: Actor, at: datetime) -> None:
    """Pause a check after its current step."""
    _change_state(tenant_id, check_id, "integrity_check_paused", "PAUSED", by, at=at)


def resume_check(*, tenant_id: UUID, check_id: UUID, by: Actor, at: datetime) -> None:
    """Resume a paused check."""
    _change_state(tenant_id, check_id, "integrity_check_resumed", "RUNNING", by, at=at)


def cancel_check(*, tenant_id: UUID, check_id: UUID, by: Actor, at: datetime) -> None:
    """Cancel a check; it ends without a finding."""
    _change_state(tenant_id, check_id, "integrity_check_cancelled", "CANCELLED", by, at=at)


def _change_state(tenant_id: UUID, check_id: UUID, kind: str, to: str, by: Actor, *, at: datetime) -> None:
    if storage.integrity_check(tenant_id, check_id) is None:
        raise NoSuchCheck
    head = lock_subject(tenant_id=tenant_id, subject_id=check_id, kind="integrity")
    if head.state == to:
        return
    append(head, NewEvent(kind=kind, to=to), actor=by, at=at)
    ended = at if to == "CANCELLED" else None
    IntegrityCheck.objects.filter(tenant_id=tenant_id, id=check_id).update(state=to, ended_at=ended)


def claim_check(tenant_id: UUID, check_id: UUID) -> IntegrityCheck | None:
    """Lock a running check for this transaction; None while another worker has it or after it was stopped."""
    found = IntegrityCheck.objects.select_for_update(skip_locked=True)
    return found.filter(tenant_id=tenant_id, id=check_id, state="RUNNING").first()


def record_progress(row: IntegrityCheck, *, seen: Mapping[str, int], **place: Any) -> None:
    """Store the position that a check has reached, and add to its counts."""
    counted = {name: getattr(row, name) + count for name, count in seen.items()}
    IntegrityCheck.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**counted, **place)


def finish_check(row: IntegrityCheck, *, finding: str, at: datetime) -> None:
    """Record the result of a check: everything holds, or the first break, which raises an alarm."""
    state = "BROKEN" if finding else "HELD"
    counts = {name: getattr(row, name) for name in ("subjects", "events", "evidence", "erased", "leaves")}
    kind = "integrity_check_failed" if finding else "integrity_check_held"
    detail = counts | ({"finding": finding} if finding else {})
    head = lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="integrity")
    append(head, NewEvent(kind=kind, to=state, detail=detail), actor=SYSTEM, at=at)
    IntegrityCheck.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
        state=state, finding=finding[:1000], ended_at=at
    )
    if finding:
        logs.raise_alarm(tenant_id=row.tenant_id, kind=ALARM, detail=finding, at=at)
