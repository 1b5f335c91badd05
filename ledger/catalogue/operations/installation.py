"""Changes of the whole installation that the record of each tenant tells: maintenance, and keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction

from ledger.catalogue.queries import maintenance_in_force
from ledger.db import execute, tenancy
from ledger.models import Maintenance, Tenant
from ledger.record.operations import SYSTEM, NewEvent, append, lock_subject, new_id
from ledger.record.queries import events
from ledger.record.rules.canonical import digest

KEY_EVENTS: Final = ("installation_key_introduced", "installation_key_used", "installation_key_retired")


def begin_maintenance(*, reason: str, at: datetime) -> Maintenance:
    """Begin maintenance, unless it is under way, and return it: from now on no execution starts in any tenant.

    When this returns, every start that was under way has ended and each tenant's record tells of the maintenance. After
    a crash, the next call does the rest. Of two that begin one at the same instant, both get that of the first.
    """
    row = maintenance_in_force() or _create_maintenance(reason, at=at)
    for tenant in events.tenants(writable=True):
        with tenancy(tenant.id):
            execute("SELECT ledger_pass_gate($1)", tenant.id)
            _record_once(
                tenant.id, "maintenance_begun", {"maintenance": digest(row.id.bytes)}, {"reason": row.reason}, at=at
            )
    return row


def _create_maintenance(reason: str, *, at: datetime) -> Maintenance:
    try:
        with transaction.atomic():
            return Maintenance.objects.create(id=new_id(at), reason=reason[:1000], begun_at=at)
    except IntegrityError:
        begun = maintenance_in_force()
        if begun is None:
            raise
        return begun


def end_maintenance(*, at: datetime) -> Maintenance | None:
    """End the maintenance and return it, the last one if none is under way; None if there has been none."""
    row = Maintenance.objects.order_by("-begun_at").first()
    if row is None:
        return None
    if row.ended_at is None:
        row.ended_at = at
        row.save(update_fields=["ended_at"])
    for tenant in events.tenants(writable=True):
        with tenancy(tenant.id):
            _record_once(tenant.id, "maintenance_ended", {"maintenance": digest(row.id.bytes)}, {}, at=at)
    return row


def record_key_change(kind: str, *, key: str, name: str, reason: str, at: datetime) -> None:
    """Record in every tenant that a key of the installation was introduced, is in use or was retired; once for each."""
    detail = {"key": key, "name": name, "reason": reason}
    for tenant in events.tenants(writable=True):
        with tenancy(tenant.id):
            known = {"installation_key": digest(f"{key}/{name}".encode())}
            _record_once(tenant.id, kind, known, detail, at=at)


def record_off_boarding(
    kind: str, *, tenant_id: UUID, off_boarding_id: UUID, detail: dict[str, Any], at: datetime
) -> None:
    """Record that an off-boarding of a tenant has begun or finished; once each. Inside `tenancy`."""
    detail = {"off_boarding_id": str(off_boarding_id)} | detail
    _record_once(tenant_id, kind, {"off_boarding": digest(off_boarding_id.bytes)}, detail, at=at)


def record_move(kind: str, *, tenant: Tenant, at: datetime) -> bool:
    """Record that a move of a tenant has begun, was given up, or has ended; once each. Inside `tenancy`.

    Return whether it was not on record yet.
    """
    move: dict[str, Any] = tenant.move or {}
    detail: dict[str, Any] = {name: move[name] for name in ("from", "to", "reason") if name in move}
    return _record_once(tenant.id, kind, {"move": digest(str(move.get("id")).encode())}, detail, at=at)


def _record_once(tenant_id: UUID, kind: str, known: dict[str, str], detail: dict[str, Any], *, at: datetime) -> bool:
    """Append an event to the tenant's own subject, unless one of this kind with this digest is there; say if it did."""
    [(name, value)] = known.items()
    head = lock_subject(tenant_id=tenant_id, subject_id=tenant_id, kind="tenant")
    if (kind, value) in events.recorded_digests(tenant_id, tenant_id, name):
        return False
    append(head, NewEvent(kind=kind, detail=detail, digests=known), actor=SYSTEM, at=at)
    return True
