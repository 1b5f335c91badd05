"""A tenant's logs: opened, stopped by an alarm, and opened anew after a restore."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ledger.guard import Guard
from ledger.models import Alarm, Log, Tenant, Tip
from ledger.operations.record import SYSTEM, Happening, Head, append, lock, new_id
from ledger.queries import log as queries
from ledger.rules.signing import NOTHING
from ledger.tenancy import insert, tenancy


def open_first(*, tenant_id: UUID, guard: Guard, key: str, at: datetime) -> None:
    """Open the first log of a tenant; `key` is the vkey under which its checkpoints are signed.

    The guard knows the log before the database does. If we die in between, the log is known and empty, and opened
    by the next run.
    """
    origin = str(Tenant.objects.values_list("origin", flat=True).get(id=tenant_id))
    guard.enrol(origin)
    with tenancy(tenant_id):
        _open(tenant_id, 1, origin, kind="log_opened", detail={"origin": origin, "key": key}, at=at)


def _open(tenant_id: UUID, number: int, origin: str, *, kind: str, detail: dict[str, object], at: datetime) -> Head:
    row = Log(tenant_id=tenant_id, number=number, id=new_id(at), origin=origin, opened_at=at)
    tip = Tip(tenant_id=tenant_id, log=number, size=0, root=NOTHING.root, integrated_at=at, signed_size=0)
    insert(row, tip)
    return append(
        Head(tenant_id=tenant_id, id=row.id, kind="log"),
        Happening(kind=kind, to="OPEN", detail=detail),
        actor=SYSTEM,
        at=at,
    )


def raise_alarm(*, tenant_id: UUID, kind: str, detail: str, at: datetime) -> bool:
    """Say on record that something about the record must not be so; one alarm of a kind stands at a time."""
    with tenancy(tenant_id):
        if any(alarm.kind == kind for alarm in queries.alarms(tenant_id)):
            return False
        Alarm.objects.create(tenant_id=tenant_id, id=new_id(at), kind=kind, detail=detail[:1000], raised_at=at)
        newest = queries.newest(tenant_id)
        if newest is not None:
            head = lock(tenant_id=tenant_id, subject_id=newest.id, kind="log")
            append(head, Happening(kind="alarm_raised", detail={"kind": kind, "detail": detail}), actor=SYSTEM, at=at)
    return True
