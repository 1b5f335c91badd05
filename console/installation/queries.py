"""Work of all tenants that is overdue: what it is, since when, and why, as far as that is on record.

Reads only what workers themselves go by: the rows that are due, the limits and circuits of systems, and the last step
that failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from ledger.db import execute, tenancy
from ledger.record.queries import events

MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class OverdueItem:
    """One thing that should have been done at `due_at`, and why it may not have been."""

    kind: str
    tenant: str
    tenant_id: UUID
    id: UUID
    due_at: datetime
    reason: str


# Outside row-level security: ids and times only.
_QUEUES: Final = """
SELECT CASE WHEN s.is_claim THEN 'claim' ELSE 'reading' END, s.tenant_id, s.action_id, s.due_at,
    CASE WHEN l.held_until > $2 THEN 'Its system does not answer and is not asked before '
            || to_char(l.held_until AT TIME ZONE 'UTC', 'HH24:MI:SS') || ' UTC.'
        WHEN l.paid_until > $2 THEN 'The reads per minute of its system are used up.'
        WHEN s.claim IS NOT NULL THEN 'A worker took it and did not finish.'
        ELSE 'No worker has taken it.' END
FROM reviews_schedule s LEFT JOIN reviews_lane l ON l.tenant_id = s.tenant_id AND l.system_id = s.system_id
WHERE s.due_at < $1 AND (s.claimed_until IS NULL OR s.claimed_until <= $2)
UNION ALL SELECT CASE WHEN d.what = 'lease' THEN 'lease' ELSE 'deadline' END, d.tenant_id, d.subject_id, d.due_at,
    CASE WHEN d.what = 'lease' THEN 'The lease has run out, and no worker has ended the execution.'
        ELSE 'No worker has done what is due (' || d.what || ').' END
FROM approvals_due d WHERE d.due_at < $1
UNION ALL SELECT 'recovery', o.tenant_id, o.action_id, o.due_at,
    CASE WHEN o.proposed THEN 'Its recovery has been proposed, and its end is not carried over.'
        ELSE 'The recovery that was ordered is not proposed.' END
FROM ledger_order o WHERE o.due_at < $1
ORDER BY 4 LIMIT $3
"""
# Behind row-level security: one tenant at a time.
_OF_TENANT: Final = """
SELECT 'notice', id, due_at, CASE WHEN fault <> '' THEN fault ELSE 'No worker has sent it.' END
FROM console_notice WHERE tenant_id = $1 AND sent_at IS NULL AND given_up_at IS NULL AND due_at < $2
UNION ALL SELECT 'export', id, requested_at, 'No worker has finished it.'
FROM ledger_export WHERE tenant_id = $1 AND state = 'REQUESTED' AND requested_at < $2
UNION ALL SELECT 'events', id, coalesce(sent_at, started_at), fault
FROM console_eventdestination WHERE tenant_id = $1 AND ended_at IS NULL AND failures > 0
ORDER BY 3 LIMIT $3
"""


def overdue_items(*, due_before: datetime, at: datetime) -> list[OverdueItem]:
    """List what was due before a time and has not been done, oldest first, up to `MOST` of each tenant and queue."""
    tenants = {each.id: each for each in events.tenants(writable=True)}
    rows = [row for row in execute(_QUEUES, due_before, at, MOST) if row[1] in tenants]
    found = [OverdueItem(kind, tenants[tenant_id].slug, tenant_id, *rest) for kind, tenant_id, *rest in rows]
    for tenant in tenants.values():
        with tenancy(tenant.id):
            rows = execute(_OF_TENANT, tenant.id, due_before, MOST)
        found += [OverdueItem(kind, tenant.slug, tenant.id, *rest) for kind, *rest in rows]
    return sorted(found, key=lambda each: each.due_at)


def last_failure(item: OverdueItem) -> str:
    """The step that failed last, if the subject's record ends with one; else empty."""
    with tenancy(item.tenant_id):
        for (seq,) in execute(
            "SELECT seq FROM ledger_subject WHERE tenant_id = $1 AND id = $2", item.tenant_id, item.id
        ):
            last = events.event_with_detail(item.tenant_id, item.id, seq)
            said = last[2] if last is not None and last[0].kind == "step_failed" else None
            if said is not None:
                return f"The last try to {said['step']} failed: {said['reason'] or said['code']}"
    return ""
