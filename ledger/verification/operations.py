"""Integrity checks: start, pause, resume, cancel, and record the result; also the repair of a record by adopting
evidence.

Progress is stored with each step, so if a worker dies, the next one continues from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger import register
from ledger.log.operations import logs
from ledger.log.queries import log
from ledger.models import IntegrityCheck, Subject
from ledger.record.operations import (
    SYSTEM,
    Actor,
    NewEvent,
    SealedEvidence,
    SubjectHead,
    append,
    lock_subject,
    new_id,
)
from ledger.record.rules import envelope as envelopes
from ledger.record.rules.refusals import NotFound, Refused
from ledger.verification.queries import storage
from ledger.verification.rules.rebuilding import RecordTable, as_recorded
from ledger.verification.rules.stored_record import Findings, RecordBroken

FIRST = UUID(int=0)
ALARM = "RECORD_BROKEN"


class CheckUnderWay(Refused):
    """An integrity check is already running."""

    code = "CHECK_UNDER_WAY"


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
        raise NotFound("Check")
    head = lock_subject(tenant_id=tenant_id, subject_id=check_id, kind="integrity")
    if head.state == to:
        return
    append(head, NewEvent(kind=kind, to=to), actor=by, at=at)
    ended = at if to == "CANCELLED" else None
    IntegrityCheck.objects.filter(tenant_id=tenant_id, id=check_id).update(state=to, ended_at=ended)


def claim_check(tenant_id: UUID, check_id: UUID) -> IntegrityCheck | None:
    """Lock a running check for this transaction; return None while another worker has it or if it was stopped."""
    found = IntegrityCheck.objects.select_for_update(skip_locked=True)
    return found.filter(tenant_id=tenant_id, id=check_id, state="RUNNING").first()


def record_progress(
    row: IntegrityCheck, *, seen: Mapping[str, int], found: Sequence[RecordBroken] = (), **place: Any
) -> None:
    """Store the position that a check has reached, and add to its counts and findings."""
    counted = {name: getattr(row, name) + count for name, count in seen.items()}
    if found:
        place["findings"] = _add_findings(row, found).document()
    IntegrityCheck.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**counted, **place)


def _add_findings(row: IntegrityCheck, found: Sequence[RecordBroken]) -> Findings:
    findings = Findings.of(row.findings)
    findings.add(*found)
    return findings


def finish_check(row: IntegrityCheck, *, found: Sequence[RecordBroken] = (), at: datetime) -> None:
    """Record the result of a check: no finding, or the findings, which raise an alarm."""
    findings = _add_findings(row, found)
    state = "BROKEN" if findings.total else "HELD"
    counts = {name: getattr(row, name) for name in ("subjects", "events", "evidence", "erased", "leaves")}
    kind = "integrity_check_failed" if findings.total else "integrity_check_held"
    summary = findings.summary()
    detail = counts | ({"finding": summary, "findings": findings.document()} if findings.total else {})
    head = lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="integrity")
    append(head, NewEvent(kind=kind, to=state, detail=detail), actor=SYSTEM, at=at)
    IntegrityCheck.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
        state=state, finding=summary[:1000], findings=findings.document(), ended_at=at
    )
    if findings.total:
        logs.raise_alarm(tenant_id=row.tenant_id, kind=ALARM, detail=summary, at=at)


class NotAdopted(Refused):
    """The evidence is not as it was stored; it stays a finding."""

    code = "NOT_ADOPTED"


def adopt_evidence(
    *, tenant_id: UUID, subject_id: UUID, pointers: Sequence[UUID], reason: str, stated_by: UUID, at: datetime
) -> int:
    """Record an event that commits to evidence which an earlier version had stored without one, and to its rows.

    Nothing is deleted or changed. The event says who asked for it (`stated_by`, an account of the tenant) and why. It
    is of the subject of the evidence, or of the tenant where that subject never came to be. Returns the number of rows;
    `NotAdopted` if a piece cannot be opened or is not what its own commitment says.
    """
    of = Subject.objects.filter(tenant_id=tenant_id, id=subject_id).first()
    kind, place = (of.kind, subject_id) if of is not None else ("tenant", tenant_id)
    head = lock_subject(tenant_id=tenant_id, subject_id=place, kind=kind)
    if head.entry is None and kind == "action":
        raise NotAdopted("Its action was erased.")
    found = storage.stored_evidence(tenant_id, [str(each) for each in pointers])
    sealed = []
    for pointer, stored in sorted(found.items()):
        purpose, promised = stored.columns["purpose"], stored.columns["commitment"]
        if stored.data is None or len(stored.salt) != envelopes.SALT_BYTES:
            raise NotAdopted(f"The evidence {pointer} cannot be opened.")
        made = envelopes.Commitment(purpose, pointer, len(stored.data), promised)
        is_whole = envelopes.commitment(purpose, stored.salt, stored.data) == promised
        if not is_whole or stored.columns["length"] != len(stored.data):
            raise NotAdopted(f"The evidence {pointer} is not what its commitment says.")
        sealed.append(SealedEvidence(UUID(pointer), made))
    rows = {table.model: _rows_behind(table, tenant_id, subject_id, set(found)) for table in register.tables_of(kind)}
    told = {
        "reason": reason,
        "stated_by": str(stated_by),
        "subject": str(subject_id),
        "rows": {model: each for model, each in rows.items() if each},
    }
    append(head, NewEvent(kind="evidence_adopted", detail=told, evidence=tuple(sealed)), actor=SYSTEM, at=at)
    return sum(map(len, rows.values()))


def _rows_behind(table: RecordTable, tenant_id: UUID, subject_id: UUID, pointers: set[str]) -> list[dict[str, Any]]:
    """The rows of a subject that name this evidence, as events write them."""
    if not table.adopted_by:
        return []
    stored = storage.stored_rows(
        table.model, tenant_id, table.place, after=UUID(int=subject_id.int - 1), upto=subject_id
    )
    return [
        {
            name: envelopes.instant(row[name]) if isinstance(row[name], datetime) else as_recorded(row[name])
            for name in sorted(table.compared)
        }
        for row in stored.get(str(subject_id), ())
        if str(row[table.adopted_by]) in pointers
    ]
