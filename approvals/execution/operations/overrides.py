"""Overrides: a person lets actions of some tools start for a while, although the record is older than a head seen
before.

It is for what cannot wait until somebody knows why the log is stopped. It names its tools, ends by itself after four
hours at most (the database refuses a longer one), and is on record with its reason, on the subject of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from approvals.models import StartOverride
from ledger.catalogue import queries as catalogue_queries
from ledger.log.queries import log
from ledger.log.queries.log import LogHead
from ledger.log.rules.signing import NotSigned
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, Refused

LONGEST_MINUTES = 240
MOST_TOOLS = 20


class OverrideUnbounded(Refused):
    """An override names between one and 20 registered tools, and lasts for 240 minutes at most."""

    code = "OVERRIDE_UNBOUNDED"
    status = 422


def place_override(
    *, tenant_id: UUID, tools: Sequence[str], minutes: int, reason: str, by: ledger.Actor, at: datetime
) -> StartOverride:
    """Let actions of these tools start for a limited time despite the state of the record."""
    named = sorted(set(tools))
    unknown = set(named) - catalogue_queries.tool_names(tenant_id)
    if unknown:
        raise OverrideUnbounded(f"No tool of the name {min(unknown)} is registered.")
    if not 1 <= len(named) <= MOST_TOOLS or not 1 <= minutes <= LONGEST_MINUTES:
        raise OverrideUnbounded
    current = _current_log(tenant_id)
    row = StartOverride.objects.create(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        log_id=current.id,
        tools=named,
        reason=reason[:1000],
        placed_by=by.id,
        placed_at=at,
        ends_at=at + timedelta(minutes=minutes),
    )
    detail = {"override_id": str(row.id), "tools": named, "reason": reason, "ends_at": instant(row.ends_at)}
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=current.id, kind="log")
    ledger.append(head, ledger.NewEvent(kind="start_override_placed", detail=detail), actor=by, at=at)
    return row


def end_override(*, tenant_id: UUID, override_id: UUID, reason: str, by: ledger.Actor, at: datetime) -> None:
    """End an override before its time."""
    in_force = StartOverride.objects.filter(tenant_id=tenant_id, id=override_id, ended_at__isnull=True, ends_at__gt=at)
    row = in_force.first()
    if row is None:
        raise NotFound(detail="This override is not in force.")
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=row.log_id, kind="log")
    detail = {"override_id": str(row.id), "reason": reason}
    ledger.append(head, ledger.NewEvent(kind="start_override_ended", detail=detail), actor=by, at=at)
    in_force.update(ended_at=at)


def _current_log(tenant_id: UUID) -> LogHead:
    current = log.current_log(tenant_id)
    if current is None:
        raise NotSigned("The tenant has no log yet, so there is nothing to be behind of.")
    return current
