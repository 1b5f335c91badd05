"""Probes systems whose circuit is open and that have nothing queued, so that it can close again.

What was read before is read once more, and only whether there is an answer counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute, tenancy
from ledger.record.queries.work import HELD_TENANTS
from reviews import queries
from reviews.readback.operations import systems
from reviews.readback.operations.claimed_batches import CLAIM
from reviews.readback.operations.plans import ReadPlan, plans_for
from reviews.readback.operations.readings import read_primary

_LOOKED_THROUGH = 50
# One worker makes the probe: it moves the lane's time on, and whoever comes second finds nothing due.
_IDLE: LiteralString = f"""
    UPDATE reviews_lane SET held_until = $2 WHERE (tenant_id, system_id) = (
        SELECT l.tenant_id, l.system_id FROM reviews_lane l
        WHERE l.held_until <= $1 AND l.tenant_id NOT IN ({HELD_TENANTS}) AND NOT EXISTS (
            SELECT FROM reviews_schedule s WHERE s.tenant_id = l.tenant_id AND s.system_id = l.system_id
                AND s.due_at <= $1)
        ORDER BY l.held_until LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING tenant_id, system_id
"""


def probe_next_system(*, clock: Callable[[], datetime]) -> bool:
    """Query one system that is unavailable and has nothing due; return True if there was one.

    If we crash, its lane is free again when a claim would be.
    """
    at = clock()
    for tenant_id, system_id in execute(_IDLE, at, at + CLAIM):
        with tenancy(tenant_id):
            plan = _anything_read(tenant_id, system_id)
        if plan is None:
            continue
        began = time.monotonic()
        _, failure = read_primary(plan, at=at)
        asked = systems.ReadAttempt(
            began_at=at,
            took_ms=(time.monotonic() - began) * 1000,
            unanswered=failure.reason if failure is not None and failure.retryable else "",
        )
        with tenancy(tenant_id):
            systems.record_attempts(tenant_id=tenant_id, system_id=system_id, asked=[asked], at=clock())
        return True
    return False


def _anything_read(tenant_id: UUID, system_id: UUID) -> ReadPlan | None:
    """A plan for the newest action that was read back from a system."""
    system = catalogue_queries.system_by_id(tenant_id, system_id)
    ids = dict.fromkeys(run.action_id for run in queries.recent_runs(tenant_id, limit=_LOOKED_THROUGH))
    found = plans_for(tenant_id, list(ids)) if system is not None and ids else {}
    for action_id in ids:
        plan = found.get(action_id)
        verification = plan.contract.verification if plan is not None else None
        if system is not None and verification is not None and verification.system == system.name:
            return plan
    return None
