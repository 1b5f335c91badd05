"""Makes overdue work due at once. What comes of it is decided by whoever does it, never here."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from ledger.db import execute, tenancy

# Each sets when something is done next, and nothing else. Deadlines and leases are left out: ending one early would
# decide something.
_READINGS: Final[LiteralString] = """
UPDATE reviews_schedule SET due_at = least(due_at, $3), asked_at = $3, claim = NULL, claimed_until = NULL
WHERE tenant_id = $1 AND action_id = $2 AND (claimed_until IS NULL OR claimed_until <= $3) RETURNING 1
"""
_ORDERS: Final[LiteralString] = (
    "UPDATE ledger_order SET due_at = least(due_at, $3) WHERE tenant_id = $1 AND action_id = $2 RETURNING 1"
)
_NOTICES: Final[LiteralString] = (
    "UPDATE console_notice SET due_at = least(due_at, $3)"
    " WHERE tenant_id = $1 AND id = $2 AND sent_at IS NULL AND given_up_at IS NULL RETURNING 1"
)
_DESTINATIONS: Final[LiteralString] = (
    "UPDATE console_eventdestination SET retry_at = least(retry_at, $3)"
    " WHERE tenant_id = $1 AND id = $2 AND ended_at IS NULL RETURNING 1"
)


def requeue(*, tenant_id: UUID, subject_id: UUID, at: datetime) -> int:
    """Make everything that waits for a time about this subject due now; return how many rows that were."""
    with tenancy(tenant_id):
        return sum(
            len(execute(each, tenant_id, subject_id, at)) for each in (_READINGS, _ORDERS, _NOTICES, _DESTINATIONS)
        )
