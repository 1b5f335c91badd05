"""Change logs of systems, read to find ungated effects.

A registered system is watched when its settings name `changes`:

    databases       table (append-only, like an audit table), id_column (an integer that grows), and optionally
                    at_column, operation_column, actor_column, key_column, trace_column, action_column,
                    target_column, target_kind, show [column]
    queues_events   stream, and optionally the same names ending in _field

A check of a package may offer `changes(system=, since=, limit=, timeout_s=)` itself. Reading is bounded and with the
verifier's own credential, which can only read. An empty `since` asks for the end of the log: what happened before a
system was watched is nobody's business here.

1. Rows of a table can become visible out of their order, when a transaction that began earlier ends later: each pass
   reads again a little of what came before its mark. Telling twice is the caller's to prevent.
2. A replica, or a stream's replica, is no change log: it may lack what has happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

import psycopg
from psycopg import sql
from redis.exceptions import RedisError

from ledger.record.rules.refusals import Refused
from reviews.checks import lookups, postgres, queues
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from reviews.observations.rules.ungated_effects import Change
from reviews.readback.rules.shapes import TEXT, Shape, list_schema, object_schema

OVERLAP = 200
_PARTS = ("at", "operation", "actor", "key", "trace", "action", "target")


@dataclass(frozen=True)
class ChangePage:
    """Some changes in the order of the log, and the mark after the last of them."""

    changes: tuple[Change, ...]
    mark: str


class ChangeLog(Protocol):
    """The interface of a reader of change logs."""

    def changes(self, *, system: SystemAccess, since: str, limit: int, timeout_s: float) -> ChangePage:
        """The changes after the mark `since`; `CheckFailed` when the system does not answer."""


class NotWatchable(Refused):
    """The settings do not say how the changes of this system can be read."""

    code = "NOT_WATCHABLE"
    status = 422


def change_log(pattern: str) -> ChangeLog | None:
    """Return the reader of a pattern's change logs, if there is one."""
    ours: dict[str, ChangeLog] = {
        "databases": TableChangeLog(),
        "queues_events": StreamChangeLog(),
        "queues": StreamChangeLog(),
    }
    found = ours.get(pattern)
    if found is not None:
        return found
    check = check_for(pattern)
    return cast(ChangeLog, check) if hasattr(check, "changes") else None


class TableChangeLog:
    """An append-only table of a PostgreSQL."""

    shape = Shape(
        object_schema(
            {"table": postgres.TABLE["table"], "id_column": postgres.COLUMN},
            {
                **{f"{name}_column": postgres.COLUMN for name in _PARTS},
                "show": list_schema(postgres.COLUMN, "columns"),
                "target_kind": TEXT,
            },
        )
    )

    def changes(self, *, system: SystemAccess, since: str, limit: int, timeout_s: float) -> ChangePage:
        """The rows after the mark, and a few before it (rule 1)."""
        part = system.settings["changes"]
        try:
            with postgres.read_only_connection(system, timeout_s) as connection, connection.transaction():
                if postgres.primary_status(connection)["in_recovery"]:
                    raise CheckFailed("A standby is no change log.", retryable=True)
                rows = _newest(connection, part) if not since else _rows_after(connection, part, int(since), limit)
        except psycopg.Error as problem:
            raise postgres.check_failure(problem) from None
        mark = max([int(since or 0), *(row[part["id_column"]] for row in rows)])
        return ChangePage(tuple(_of_row(part, row) for row in rows) if since else (), str(mark))


def _newest(connection: psycopg.Connection[postgres.Row], part: Mapping[str, Any]) -> list[postgres.Row]:
    return _rows(connection, part, sql.SQL("true"), sql.SQL("DESC"), 1)


def _rows_after(
    connection: psycopg.Connection[postgres.Row], part: Mapping[str, Any], since: int, limit: int
) -> list[postgres.Row]:
    place = sql.Identifier(part["id_column"])
    overlap = sql.SQL("{} > {}").format(place, sql.Literal(since - OVERLAP))
    return _rows(connection, part, overlap, sql.SQL("ASC"), limit + OVERLAP)


def _rows(
    connection: psycopg.Connection[postgres.Row],
    part: Mapping[str, Any],
    where: sql.Composable,
    order: sql.SQL,
    limit: int,
) -> list[postgres.Row]:
    columns = [part[name] for name in part if name.endswith("_column")]
    names = dict.fromkeys([part["id_column"], *columns, *part.get("show", ())])
    query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} {} LIMIT {}").format(
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.Identifier(*part["table"].split(".")),
        where,
        sql.Identifier(part["id_column"]),
        order,
        sql.Literal(limit),
    )
    return connection.execute(query).fetchall()


def _of_row(part: Mapping[str, Any], row: postgres.Row) -> Change:
    found = {name: row.get(part.get(f"{name}_column", "")) for name in _PARTS}
    at = found["at"]
    return _change(
        part,
        str(row[part["id_column"]]),
        found,
        at=at.astimezone(UTC) if isinstance(at, datetime) and at.tzinfo else None,
        shown={name: lookups.to_json_value(value) for name, value in row.items()},
    )


class StreamChangeLog:
    """A stream of a Redis or Valkey: every message is a change."""

    shape = Shape(
        object_schema(
            {"stream": {"type": "string", "fault": "must be a stream's name."}},
            dict.fromkeys(("target_kind", *(f"{part}_field" for part in _PARTS)), TEXT),
        )
    )

    def changes(self, *, system: SystemAccess, since: str, limit: int, timeout_s: float) -> ChangePage:
        """Return the messages after the mark; ids only grow, so nothing is read twice."""
        part = system.settings["changes"]
        try:
            with queues.redis_session(system, timeout_s) as client:
                role, _ = queues.server_role(client)
                if role is not Consistency.PRIMARY:
                    raise CheckFailed("A replica is no change log.", retryable=True)
                if not since:
                    newest: Any = client.xrevrange(part["stream"], count=1)
                    return ChangePage((), newest[0][0] if newest else "0-0")
                messages: Any = client.xrange(part["stream"], min=f"({since}", count=limit)
        except RedisError as problem:
            raise queues.check_failure(problem) from None
        found = tuple(_of_message(part, number, fields) for number, fields in messages)
        return ChangePage(found, found[-1].place if found else since)


def _of_message(part: Mapping[str, Any], number: str, fields: Mapping[str, str]) -> Change:
    found = {name: fields.get(part.get(f"{name}_field", "")) for name in _PARTS}
    at = datetime.fromtimestamp(int(number.partition("-")[0]) / 1000, UTC)
    return _change(part, number, found, at=at, shown=dict(fields))


def _change(
    part: Mapping[str, Any], place: str, found: Mapping[str, Any], *, at: datetime | None, shown: Mapping[str, Any]
) -> Change:
    text = {name: str(value) if value not in (None, "") else None for name, value in found.items()}
    kind, target = part.get("target_kind"), text["target"]
    return Change(
        place=place,
        at=at,
        operation=text["operation"] or "",
        actor=text["actor"] or "",
        target=f"{kind}/{target}" if kind and target else target,
        key=text["key"],
        trace_id=text["trace"],
        action_id=text["action"],
        shown=shown,
    )
