"""Changes of the whole installation that the record of each tenant tells."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ledger.db import tenancy
from ledger.record.operations import SYSTEM, NewEvent, append, lock_subject
from ledger.record.queries import events
from ledger.record.rules.canonical import digest

KEY_EVENTS: Final = ("installation_key_introduced", "installation_key_used", "installation_key_retired")
_KEY: Final = "installation_key"


def record_key_change(kind: str, *, key: str, name: str, reason: str, at: datetime) -> None:
    """Record in every tenant that a key of the installation was introduced, is in use or was retired; once for each."""
    known = digest(f"{key}/{name}".encode())
    for tenant in events.tenants():
        with tenancy(tenant.id):
            head = lock_subject(tenant_id=tenant.id, subject_id=tenant.id, kind="tenant")
            if (kind, known) not in events.recorded_digests(tenant.id, tenant.id, _KEY):
                detail = {"key": key, "name": name, "reason": reason}
                append(head, NewEvent(kind=kind, detail=detail, digests={_KEY: known}), actor=SYSTEM, at=at)
