"""Reads of integrity checks, and of what they look at in a log."""

from __future__ import annotations

from uuid import UUID

from ledger.db import execute
from ledger.models import IntegrityCheck

OPEN = ("RUNNING", "PAUSED")


def integrity_check(tenant_id: UUID, check_id: UUID) -> IntegrityCheck | None:
    return IntegrityCheck.objects.filter(tenant_id=tenant_id, id=check_id).first()


def integrity_checks(tenant_id: UUID, *, limit: int = 10) -> list[IntegrityCheck]:
    """The checks of a tenant, newest first."""
    return list(IntegrityCheck.objects.filter(tenant_id=tenant_id).order_by("-id")[:limit])


def running_check(tenant_id: UUID) -> UUID | None:
    """The check that is under way, if one is."""
    found = IntegrityCheck.objects.filter(tenant_id=tenant_id, state="RUNNING")
    return found.values_list("id", flat=True).first()


def checkpoint_notes(tenant_id: UUID, number: int, *, above: int, upto: int) -> list[bytes]:
    """The checkpoints of a log with more than `above` and at most `upto` entries, the smallest first."""
    rows = execute(
        "SELECT size, note FROM ledger_checkpoint WHERE tenant_id = $1 AND log = $2 AND size > $3 AND size <= $4"
        " UNION SELECT signed_size, note FROM ledger_tip WHERE tenant_id = $1 AND log = $2 AND note IS NOT NULL"
        " AND signed_size > $3 AND signed_size <= $4 ORDER BY size",
        *(tenant_id, number, above, upto),
    )
    return [bytes(note) for _, note in rows]
