"""Opens a tenant's logs, reopens them after a restore, and raises alarms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.db import execute, insert, tenancy
from ledger.log.queries import log as queries
from ledger.log.queries.log import LogHead
from ledger.log.rules.signing import NOTHING
from ledger.log.signer_state import SignerState
from ledger.models import Alarm, Log, LogTip, Tenant
from ledger.record.operations import (
    SYSTEM,
    Actor,
    NewEvent,
    SubjectHead,
    append,
    clear_origin_cache,
    lock_subject,
    new_id,
)
from ledger.record.rules.canonical import digest
from ledger.record.rules.refusals import NotFound


def open_first_log(*, tenant_id: UUID, state: SignerState, key: str, at: datetime) -> None:
    """Open the first log of a tenant; `key` is the vkey under which its checkpoints are signed.

    The log is enrolled with the signer state before it is in the database. After a crash in between, it is enrolled and
    empty, and the next run opens it.
    """
    origin = str(Tenant.objects.values_list("origin", flat=True).get(id=tenant_id))
    state.enrol(origin)
    with tenancy(tenant_id):
        detail = {"origin": origin, "key": key}
        _open_log(tenant_id, 1, origin, kind="log_opened", detail=detail, digests=_key_digest(key), at=at)


def open_next_log(
    *,
    tenant_id: UUID,
    before: LogHead,
    state: SignerState,
    key: Callable[[str], str],
    reasons: Mapping[str, Any],
    at: datetime,
) -> UUID:
    """Close a log that cannot continue and open the next one, in the caller's transaction; return the new log's
    subject.

    Its origin is new, so that nothing signed under the old one can be contradicted. `reasons` are recorded with it.
    """
    number = before.number + 1
    origin = f"{queries.logs(tenant_id)[-1].origin}/{number}"
    state.enrol(origin)
    execute("UPDATE ledger_tenant SET origin = $2 WHERE id = $1", tenant_id, origin)
    clear_origin_cache()
    last = {"origin": before.origin, "size": before.size, "root": before.root.hex()}
    detail = {"origin": origin, "key": key(origin), "before": last} | dict(reasons)
    digests = _key_digest(key(origin)) | ({"checkpoint": digest(before.note)} if before.note is not None else {})
    head = _open_log(tenant_id, number, origin, kind="restored", detail=detail, digests=digests, at=at)
    closed = NewEvent(kind="log_closed", to="CLOSED", detail={"next": origin}, causation=head.event_id)
    append(lock_subject(tenant_id=tenant_id, subject_id=before.id, kind="log"), closed, actor=SYSTEM, at=at)
    return head.id


def announce_key(
    *, tenant_id: UUID, kind: str, key: Callable[[str], str], detail: Callable[[str], dict[str, Any]], at: datetime
) -> bool:
    """Record once that another key signs (`key_rotated`), or that one no longer does (`key_retired`).

    `key` gives the vkey. False if the newest log has the event already: the next run announces a rotation that crashed.
    The envelope names the key by its digest, since the sequencer reads no details.
    """
    with tenancy(tenant_id):
        newest = queries.current_log(tenant_id)
        if newest is None:
            return False
        head = lock_subject(tenant_id=tenant_id, subject_id=newest.id, kind="log")
        digests = _key_digest(key(newest.origin))
        if (kind, digests["log_key"]) in queries.announced_keys(tenant_id, newest.id):
            return False
        append(head, NewEvent(kind=kind, detail=detail(newest.origin), digests=digests), actor=SYSTEM, at=at)
    return True


def _key_digest(vkey: str) -> dict[str, str]:
    return {"log_key": digest(vkey.encode())}


def _open_log(
    tenant_id: UUID,
    number: int,
    origin: str,
    *,
    kind: str,
    detail: Mapping[str, Any],
    digests: Mapping[str, str],
    at: datetime,
) -> SubjectHead:
    row = Log(tenant_id=tenant_id, number=number, id=new_id(at), origin=origin, opened_at=at)
    tip = LogTip(tenant_id=tenant_id, log=number, size=0, root=NOTHING.root, integrated_at=at, signed_size=0)
    insert(row, tip)
    return append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="log"),
        NewEvent(kind=kind, to="OPEN", detail=detail, digests=digests),
        actor=SYSTEM,
        at=at,
    )


def raise_alarm(*, tenant_id: UUID, kind: str, detail: str, at: datetime) -> bool:
    """Raise an alarm about the integrity of the record; at most one open alarm per kind."""
    with tenancy(tenant_id):
        if any(alarm.kind == kind for alarm in queries.alarms(tenant_id)):
            return False
        Alarm.objects.create(tenant_id=tenant_id, id=new_id(at), kind=kind, detail=detail[:1000], raised_at=at)
        newest = queries.current_log(tenant_id)
        if newest is not None:
            head = lock_subject(tenant_id=tenant_id, subject_id=newest.id, kind="log")
            append(head, NewEvent(kind="alarm_raised", detail={"kind": kind, "detail": detail}), actor=SYSTEM, at=at)
    return True


def acknowledge_alarm(*, tenant_id: UUID, alarm_id: UUID, reason: str, by: Actor, at: datetime) -> None:
    """Acknowledge an alarm; it is raised again if its cause persists."""
    newest = queries.current_log(tenant_id)
    missing = NotFound(detail="Alarm not found, or already acknowledged.")
    if newest is None:
        raise missing
    head = lock_subject(tenant_id=tenant_id, subject_id=newest.id, kind="log")
    open_alarm = Alarm.objects.filter(tenant_id=tenant_id, id=alarm_id, closed_at__isnull=True)
    row = open_alarm.first()
    if row is None:
        raise missing
    detail = {"alarm_id": str(alarm_id), "kind": row.kind, "reason": reason}
    append(head, NewEvent(kind="alarm_acknowledged", detail=detail), actor=by, at=at)
    open_alarm.update(closed_at=at)
