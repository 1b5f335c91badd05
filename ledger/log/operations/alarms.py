"""Alarms about the record are looked at by a person, who says what was found."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ledger.log.queries import log as queries
from ledger.models import Alarm
from ledger.record.operations import Actor, NewEvent, append, lock_subject
from ledger.record.rules.refusals import Refused


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
