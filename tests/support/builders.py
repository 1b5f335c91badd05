"""Things of the database that tests need, with defaults; a test names only what it is about."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg

from ledger.record import operations
from tests.support.pure.entries import AT, make_entry, make_view


def propose(tenant_id: UUID, *, at: datetime = AT, view: dict[str, Any] | None = None) -> operations.SubjectHead:
    """A bare PROPOSED action, through the door and nothing else."""
    action_id = operations.new_id(at)
    return operations.append(
        operations.SubjectHead(tenant_id=tenant_id, id=action_id, kind="action"),
        operations.NewEvent(
            kind="proposed", to="PROPOSED", entry=make_entry(action_id), view=make_view(action_id, **(view or {}))
        ),
        actor=operations.Actor("agent", uuid4()),
        at=at,
    )


def written_columns(connection: psycopg.Connection, table: str) -> list[str]:
    """The columns of a table that are written; the others are made from them."""
    rows = connection.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " AND attgenerated = '' ORDER BY attnum",
        [table],
    )
    return [name for (name,) in rows.fetchall()]
