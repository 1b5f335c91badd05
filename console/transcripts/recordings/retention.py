"""How long a recording is kept: by the tenant's retention policy, and longer where a hold covers it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from console.models import Recording
from ledger.retention import queries as retention_queries
from ledger.retention.rules.retention import RetentionSubject


@dataclass(frozen=True, kw_only=True)
class RetentionStatus:
    """Until when a recording is kept. `standing` says whether the policy then erases it, or two people decide.

    `holds` keep it beyond that; `waiting` is whether somebody, or the policy, has asked for it to be erased.
    """

    days: int
    until: datetime
    standing: bool
    holds: tuple[UUID, ...]
    waiting: bool


def retention_status(row: Recording) -> RetentionStatus:
    """What holds for a recording now."""
    policy = retention_queries.policy(row.tenant_id)
    held = RetentionSubject(id=row.id, kind="recording", state="IMPORTED", created_at=row.at)
    return RetentionStatus(
        days=policy.payload_days,
        until=row.at + timedelta(days=policy.payload_days),
        standing=policy.standing,
        holds=tuple(each.id for each in retention_queries.holds_on(row.tenant_id, [held])),
        waiting=bool(retention_queries.named_in_open_requests(row.tenant_id, [row.id])),
    )
