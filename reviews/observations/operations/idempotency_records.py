"""Idempotency records that nobody has settled: how long they count."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.db import tenancy
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.canonical import parse


def expire_records(*, at: datetime) -> int:
    """Let the records expire that have waited longer than each tenant's policy says; how many it was (R-EX-22)."""
    expired = 0
    for tenant in events.tenants():
        with tenancy(tenant.id):
            document = parse(bytes(catalogue_queries.active_policies(tenant.id)["verification"].document))
            kept = timedelta(seconds=document.get("idempotency_ttl_s", 2_592_000))
            waiting = actions.stalled_actions(tenant.id, since=at - kept)
            expired += sum(_expired(tenant.id, action_id, at=at) for action_id in waiting)
    return expired


def _expired(tenant_id: UUID, action_id: UUID, *, at: datetime) -> bool:
    """Say in the action's entry that its record counts as none from now on, where it still waited."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    if head.entry is None or head.entry["idempotency"]["status"] != "PENDING":
        return False
    happening = ledger.NewEvent(kind="idempotency_expired", changes={"idempotency": {"status": "EXPIRED"}})
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    return True
