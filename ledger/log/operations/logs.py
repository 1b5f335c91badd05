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
from ledger.record.rules.refusals import Refused


def open_first_log(*, tenant_id: UUID, guard: SignerState, key: str, at: datetime) -> None:
    """Open the first log of a tenant; `key` is the vkey under which its checkpoints are signed.

    The guard knows the log before the database does. If we die in between, the log is known and empty, and opened
    by the next run.
    """
    origin = str(Tenant.objects.values_list("origin", flat=True).get(id=tenant_id))
    guard.enrol(origin)
    with tenancy(tenant_id):
        detail = {"origin": origin, "key": key}
        _open(tenant_id, 1, origin, kind="log_opened", detail=detail, digests=_named(key), at=at)


def open_next_log(
    *,
    tenant_id: UUID,
    before: LogHead,
    guard: SignerState,
    key: Callable[[str], str],
    told: Mapping[str, Any],
    at: datetime,
) -> UUID:
    """Close a log that cannot go on and open the next one, in the caller's transaction; the new log's subject.

    Its origin is new, so that nothing signed under the old one can be contradicted. `told` is why.
    """
    number = before.number + 1
    origin = f"{queries.logs(tenant_id)[-1].origin}/{number}"
    guard.enrol(origin)
    execute("UPDATE ledger_tenant SET origin = $2 WHERE id = $1", tenant_id, origin)
    clear_origin_cache()
    last = {"origin": before.origin, "size": before.size, "root": before.root.hex()}
    detail = {"origin": origin, "key": key(origin), "before": last} | dict(told)
    digests = _named(key(origin)) | ({"checkpoint": digest(before.note)} if before.note is not None else {})
    head = _open(tenant_id, number, origin, kind="restored", detail=detail, digests=digests, at=at)
    closed = NewEvent(kind="log_closed", to="CLOSED", detail={"next": origin}, causation=head.event_id)
    append(lock_subject(tenant_id=tenant_id, subject_id=before.id, kind="log"), closed, actor=SYSTEM, at=at)
    return head.id


def announce_key(
    *, tenant_id: UUID, kind: str, key: Callable[[str], str], detail: Callable[[str], dict[str, Any]], at: datetime
) -> bool:
    """Say on record that another key signs (`key_rotated`), or that one no longer does (`key_retired`), once.

    `key` is the vkey that it is about. False where the newest log says so already: a rotation that died half-way is
    announced by the next run. The envelope names the key by its digest, since the sequencer reads no details.
    """
    with tenancy(tenant_id):
        newest = queries.current_log(tenant_id)
        if newest is None:
            return False
        head = lock_subject(tenant_id=tenant_id, subject_id=newest.id, kind="log")
        digests = _named(key(newest.origin))
        if (kind, digests["log_key"]) in queries.announced_keys(tenant_id, newest.id):
            return False
        append(head, NewEvent(kind=kind, detail=detail(newest.origin), digests=digests), actor=SYSTEM, at=at)
    return True


def _named(vkey: str) -> dict[str, str]:
    return {"log_key": digest(vkey.encode())}


def _open(
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
    """Say on record that something about the record must not be so; one alarm of a kind stands at a time."""
    with tenancy(tenant_id):
        if any(alarm.kind == kind for alarm in queries.alarms(tenant_id)):
            return False
        Alarm.objects.create(tenant_id=tenant_id, id=new_id(at), kind=kind, detail=detail[:1000], raised_at=at)
        newest = queries.current_log(tenant_id)
        if newest is not None:
            head = lock_subject(tenant_id=tenant_id, subject_id=newest.id, kind="log")
            append(head, NewEvent(kind="alarm_raised", detail={"kind": kind, "detail": detail}), actor=SYSTEM, at=at)
    return True


# Alarms about the record are looked at by a person, who says what was found.


class NoSuchAlarm(Refused):
    """There is no such alarm here, or somebody has answered it already."""

    code = "NOT_FOUND"
    status = 404


def acknowledge_alarm(*, tenant_id: UUID, alarm_id: UUID, reason: str, by: Actor, at: datetime) -> None:
    """Answer an alarm; it is raised again if what raised it is still so."""
    newest = queries.current_log(tenant_id)
    if newest is None:
        raise NoSuchAlarm
    head = lock_subject(tenant_id=tenant_id, subject_id=newest.id, kind="log")
    standing = Alarm.objects.filter(tenant_id=tenant_id, id=alarm_id, closed_at__isnull=True)
    row = standing.first()
    if row is None:
        raise NoSuchAlarm
    detail = {"alarm_id": str(alarm_id), "kind": row.kind, "reason": reason}
    append(head, NewEvent(kind="alarm_acknowledged", detail=detail), actor=by, at=at)
    standing.update(closed_at=at)
