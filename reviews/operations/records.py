"""Idempotency records that nobody has settled: how long they count."""

from __future__ import annotations

from datetime import datetime, timedelta

from ledger.operations import record as ledger
from ledger.queries import record, registered
from ledger.rules.canonical import parse
from ledger.tenancy import tenancy


def expire(*, at: datetime) -> int:
    """Let the records expire that have waited longer than each tenant's policy says; how many it was (R-EX-22)."""
    expired = 0
    for tenant in record.tenants():
        with tenancy(tenant.id):
            document = parse(bytes(registered.active_policies(tenant.id)["verification"].document))
            kept = timedelta(seconds=document.get("idempotency_ttl_s", 2_592_000))
            expired += ledger.expire_idempotency(tenant_id=tenant.id, before=at - kept, at=at)
    return expired
