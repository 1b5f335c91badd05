"""Prunes whole months of events once every tenant's retention policy allows it and their content was erased.

Run by the owner of the tables (`manage.py prune`), since only it can detach a partition. The tree stays: tiles, leaves
and signed heads are not touched, so every proof of what is left verifies as before, and so does the proof that
something stood where now nothing can be shown (L36).

1. A month goes only as a whole. Each tenant with subjects in it must have a retention policy that two people put in
   force, whose envelopes' time is over for all of them, and none under a hold; its actions, approvals, cases and
   sessions must have been erased.
2. What lasts (tenant, people, agents, contracts, policies, logs …) is kept: its events move to the default partition.
3. All of it is one transaction, with one event `pruned` per tenant that says how many events went and the lowest index
   from which every envelope is still there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from django.db import connection, transaction

from ledger.db import execute
from ledger.record.operations import SYSTEM, NewEvent, append, lock_subject
from ledger.record.rules.refusals import Refused

PASSING = ("action", "approval", "case", "session")
ALSO_GONE: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("approvals_grant", "action_id"),
    ("approvals_attempt", "action_id"),
    ("reviews_incidentlink", "subject_id"),
)


class NotYet(Refused):
    """This month cannot be pruned yet."""

    code = "NOT_YET"


@dataclass(frozen=True, slots=True)
class MonthPartition:
    """One month's partitions: the bounds of its subject ids and the time at which it ended."""

    name: str
    low: UUID
    high: UUID
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class TenantShare:
    """One tenant's part of a month: its policy, the subjects to prune and the subjects to keep."""

    tenant_id: UUID
    policy: UUID
    gone: list[UUID]


def month_partitions() -> list[MonthPartition]:
    """Return the months that have partitions, oldest first. Only the owner of the tables may read their bounds."""
    return [_month(name) for name in month_names()]


def month_names() -> list[str]:
    """The names of the months that have partitions, oldest first."""
    rows = execute(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'ledger_event'::regclass AND c.relname ~ '_y[0-9]{4}m[0-9]{2}$' ORDER BY 1"
    )
    return [name.removeprefix("ledger_event_") for (name,) in rows]


def month_bounds(name: str) -> tuple[datetime, datetime]:
    """The beginning and the end of a partition's month."""
    year, number = int(name[1:5]), int(name[6:8])
    begin = datetime(year, number, 1, tzinfo=UTC)
    return begin, datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)


def prune_month(month: MonthPartition, tenants: list[UUID], *, clock: Callable[[], datetime]) -> int:
    """Prune one month and return the number of events pruned. A crash before the commit has no effect."""
    with transaction.atomic():
        shares = [share for tenant_id in tenants if (share := _prunable_share(month, tenant_id, at=clock()))]
        for part in ("ledger_event", "ledger_entry"):
            _execute_named(f"ALTER TABLE {part} DETACH PARTITION {part}_{month.name}")
        for share in shares:
            _mark_pruned(share)
        for tenant_id in tenants:
            _move_to_default_partition(month, tenant_id)
        count = sum(_delete_rows(month, share, at=clock()) for share in shares)
        for part in ("ledger_event", "ledger_entry"):
            _execute_named(f"DROP TABLE {part}_{month.name}")
    return count


def _month(name: str) -> MonthPartition:
    begin, end = month_bounds(name)
    (low, high) = execute("SELECT ledger_uuid_from($1), ledger_uuid_from($2)", begin, end)[0]
    return MonthPartition(name, low, high, end)


def _prunable_share(month: MonthPartition, tenant_id: UUID, *, at: datetime) -> TenantShare | None:
    """The subjects of one tenant to prune; `NotYet` with the reason where the month may not go (rule 1)."""
    _set_tenant(tenant_id)
    rows = execute(
        "SELECT s.id, s.kind, s.updated_at, e.subject_id IS NOT NULL FROM ledger_subject s"
        " LEFT JOIN ledger_erased e ON e.tenant_id = s.tenant_id AND e.subject_id = s.id"
        " WHERE s.tenant_id = $1 AND s.id >= $2 AND s.id < $3",
        *(tenant_id, month.low, month.high),
    )
    gone = [row[0] for row in rows if row[3]]
    waiting = sum(1 for row in rows if not row[3] and row[1] in PASSING)
    if waiting:
        raise NotYet(f"{month.name}: {waiting} subjects of tenant {tenant_id} were not erased yet.")
    if not gone:
        return None
    policy = execute("SELECT ledger_retention_in_force($1)", tenant_id)[0][0]
    if policy is None:
        raise NotYet(f"{month.name}: tenant {tenant_id} has no retention policy that two people put in force.")
    newest = max(month.ended_at, *(row[2] for row in rows if row[3]))
    if newest + timedelta(days=policy["envelope_days"]) > at:
        raise NotYet(f"{month.name}: tenant {tenant_id} keeps envelopes for {policy['envelope_days']} days.")
    if execute("SELECT ledger_on_hold($1, $2)", tenant_id, gone)[0][0]:
        raise NotYet(f"{month.name}: a legal hold of tenant {tenant_id} covers something of it.")
    return TenantShare(tenant_id, UUID(policy["id"]), gone)


def _mark_pruned(share: TenantShare) -> None:
    _set_tenant(share.tenant_id)
    execute(
        "UPDATE ledger_erased SET pruned_by = $3 WHERE tenant_id = $1 AND subject_id = ANY($2)",
        *(share.tenant_id, share.gone, share.policy),
    )


def _delete_rows(month: MonthPartition, share: TenantShare, *, at: datetime) -> int:
    """Delete the rows of the pruned subjects and append the event about it."""
    _set_tenant(share.tenant_id)
    values = (share.tenant_id, share.gone)
    places = execute(
        "SELECT log, max(index) + 1, count(*) FROM ledger_leaf WHERE tenant_id = $1 AND subject_id = ANY($2)"
        " GROUP BY log ORDER BY log",
        *values,
    )
    for relation, column in [*execute("SELECT relation, subject FROM ledger_blank"), *ALSO_GONE]:
        if relation != "ledger_entry":
            _execute_named(f"DELETE FROM {relation} WHERE tenant_id = %s AND {column} = ANY(%s)", *values)
    execute("DELETE FROM ledger_subject WHERE tenant_id = $1 AND id = ANY($2)", *values)
    head = lock_subject(tenant_id=share.tenant_id, subject_id=share.policy, kind="retention")
    count = sum(each for _, _, each in places)
    detail = {
        "month": month.name,
        "events": count,
        "subjects": len(share.gone),
        "whole_from": [{"log": log, "index": index} for log, index, _ in places],
    }
    append(head, NewEvent(kind="pruned", detail=detail), actor=SYSTEM, at=at)
    return int(count)


def _move_to_default_partition(month: MonthPartition, tenant_id: UUID) -> None:
    """Move the events of lasting subjects to the default partition (rule 2)."""
    _set_tenant(tenant_id)
    names = {
        "ledger_event": "tenant_id, subject_id, seq, prev_seq, id, subject_kind, kind, from_state, state, prev,"
        " envelope, entry_hash, actor_kind, actor_id, at, recorded_at",
        "ledger_entry": "tenant_id, subject_id, seq, entry_salt, entry, detail_salt, detail",
    }
    for part, columns in names.items():
        _execute_named(
            f"INSERT INTO {part} ({columns}) SELECT {columns} FROM {part}_{month.name} o WHERE tenant_id = %s"
            " AND NOT EXISTS (SELECT FROM ledger_erased e WHERE e.tenant_id = o.tenant_id"
            " AND e.subject_id = o.subject_id AND e.pruned_by IS NOT NULL) ORDER BY subject_id, seq",
            tenant_id,
        )


def _set_tenant(tenant_id: UUID) -> None:
    execute("SELECT set_config('app.tenant', $1, true)", str(tenant_id))


def _execute_named(statement: str, *values: Any) -> None:
    # Names of tables come from the catalogue and from migrations, never from outside.
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
