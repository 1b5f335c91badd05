"""Databases: read the row back from the primary of a PostgreSQL (R-CP-01).

    effects.<name>   table, where {column: expression}, fields [column], and optionally
                     present_if (expression over row, sr, si, so, scope, pre), expect "absent",
                     equals {column: expression}, tenant_column, target_column, version_column
    target           table, where, fields, version_column, tenant_column
    audit            table, where, actor_column

1. Everything is read in one read-only snapshot: effects, target and audit trail belong together.
2. Only the primary is trusted. A server in recovery answers as REPLICA with `freshness_not_guaranteed`.
   Freshness is the log position at the snapshot and the writing transactions of the rows.
3. Names become identifiers, values are bound: nothing of an action becomes SQL. A system may list the
   tables that may be read; others are refused.
4. A reading ends: statements, locks, the connection and the number of rows are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import psycopg
from psycopg import errors, sql

from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import BadExpression, Truth
from reviews.checks import lookups
from reviews.checks.interface import (
    LOOKUP_VARIABLES,
    CheckFailed,
    Consistency,
    ReadEffect,
    Reading,
    SystemAccess,
)
from reviews.checks.limits import bounded_read
from reviews.checks.postgres import ADDRESS, COLUMN, TABLE, Row, server_identity
from reviews.checks.postgres import check_failure as _failed
from reviews.checks.postgres import primary_status as _standing
from reviews.checks.postgres import read_only_connection as _connected
from reviews.readback.rules import shapes
from reviews.reconciliation.rules.reading import NOT_FRESH

MAX_ROWS = 100

_ROW_VARIABLES = (*LOOKUP_VARIABLES, "row")
_XMIN = "xmin "  # no column can be named so, hence no declared field can hide it

Bindings = Mapping[str, Mapping[str, Any]]


def _condition_fault(text: str) -> str:
    try:
        expressions.compile(text, dict.fromkeys(_ROW_VARIABLES))
    except BadExpression as problem:
        return problem.detail
    return ""


class DatabaseCheck(lookups.LookupCheck):
    """The check of pattern `databases`."""

    pattern = "databases"
    settings = {**ADDRESS, "tables": shapes.readable("Tables")}
    part = shapes.object_schema(
        TABLE,
        {
            "fields": shapes.fields_schema(COLUMN),
            "equals": shapes.map_schema(COLUMN),
            "present_if": {"type": "string", "format": "condition", "fault": "must be a condition."},
            "expect": shapes.EXPECT,
            **dict.fromkeys(("tenant_column", "target_column", "version_column"), COLUMN),
        },
    )
    formats = {**shapes.FORMATS, "condition": _condition_fault}
    beside = {
        "target": shapes.object_schema(
            TABLE,
            {"fields": shapes.fields_schema(COLUMN), **dict.fromkeys(("version_column", "tenant_column"), COLUMN)},
        ),
        "audit": shapes.object_schema(TABLE, {"actor_column": COLUMN}),
    }
    needs = {
        "tenant_id_match": ("tenant_column",),
        "actor_id_match": ("actor_column",),
        "row_version_advanced": ("version_column",),
        "changed_fields_satisfied": ("equals", "fields", "present_if"),
        "audit_log_has_trace_id": ("audit",),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Every declared column, of no particular type: the table knows the types, the contract does not."""
        return _columns(part)

    def fields_beside(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """The target's columns and the trail of the audit."""
        found: dict[str, Any] = {}
        if "target" in lookup:
            target = {**_columns(lookup["target"]), "exists": {}, "count": {}, "version": {}}
            found["target"] = {"type": "object", "properties": target}
        if "audit" in lookup:
            found["audit"] = {"type": "object", "properties": {"exists": {}, "count": {}, "actors": {}}}
        return found

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """The rows as the primary has them now."""
        lookup = verification.get("lookup", {})
        _check_tables(system, lookup)
        try:
            with _connected(system, timeout_s) as connection, connection.transaction():
                return _take_reading(connection, system, lookup, bindings, at=at)
        except errors.LockNotAvailable as problem:
            raise _failed(problem, "lock_timeout") from None
        except psycopg.Error as problem:
            raise _failed(problem) from None


def _columns(part: Mapping[str, Any]) -> dict[str, Any]:
    names = list(part.get("fields", ()))
    names += [part["version_column"]] if "version_column" in part else []
    return {name: {} for name in names}


# One reading


def _check_tables(system: SystemAccess, lookup: Mapping[str, Any]) -> None:
    asked = [part["table"] for part in _parts(lookup)]
    allowed = system.settings.get("tables", asked)
    for table in asked:
        if table not in allowed:
            raise CheckFailed(f"{table} is not among the tables that may be read.", retryable=False)


def _parts(lookup: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from lookup.get("effects", {}).values()
    yield from (lookup[name] for name in ("target", "audit") if name in lookup)


def _take_reading(
    connection: psycopg.Connection[Row],
    system: SystemAccess,
    lookup: Mapping[str, Any],
    bindings: Bindings,
    *,
    at: datetime,
) -> Reading:
    standing, identity = _standing(connection), server_identity(connection)
    found = {name: _rows(connection, part, bindings) for name, part in lookup.get("effects", {}).items()}
    effects = tuple(_effect(name, lookup["effects"][name], rows, bindings) for name, rows in found.items())
    indicators = set(_indicators(lookup, effects, found, bindings))
    target, context = None, {}
    if "target" in lookup:
        rows = _rows(connection, lookup["target"], bindings)
        target = _target(lookup["target"], rows)
        indicators |= set(_target_indicators(lookup["target"], rows, bindings))
        found["target"] = rows
    if "audit" in lookup:
        context["audit"] = _audit(lookup["audit"], _rows(connection, lookup["audit"], bindings))
    if standing["in_recovery"]:
        indicators.add(NOT_FRESH)
    return Reading(
        source=system.name,
        consistency=Consistency.REPLICA if standing["in_recovery"] else Consistency.PRIMARY,
        freshness=_freshness(standing, found),
        observed_at=at,
        pointer="; ".join(_describe(part) for part in _parts(lookup)),
        effects=effects,
        target=target,
        context=context,
        indicators=tuple(sorted(indicators)),
        raw={name: [_json_row(row) for row in rows] for name, rows in found.items()},
        origin=identity,
    )


def _rows(connection: psycopg.Connection[Row], part: Mapping[str, Any], bindings: Bindings) -> list[Row]:
    """Return the rows that a part of the lookup matches, at most `MAX_ROWS`, the oldest place first."""
    where = {column: lookups.fill_template(text, bindings) for column, text in part["where"].items()}
    columns = [sql.SQL("xmin::text AS {}").format(sql.Identifier(_XMIN))]
    query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY ctid LIMIT {}").format(
        sql.SQL(", ").join([*columns, *map(sql.Identifier, _columns_to_fetch(part))]),
        sql.Identifier(*part["table"].split(".")),
        sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder()) for column in where),
        sql.Literal(MAX_ROWS),
    )
    return connection.execute(query, list(where.values())).fetchall()


def _columns_to_fetch(part: Mapping[str, Any]) -> list[str]:
    """Return the columns to fetch: those to show or compare, and those in `present_if`."""
    named = [part[name] for name in part if name.endswith("_column")]
    asked = expressions.fields_of(part["present_if"], "row", _ROW_VARIABLES) if "present_if" in part else ()
    return list(dict.fromkeys([*part.get("fields", ()), *part.get("equals", ()), *named, *asked]))


def _json_row(row: Row) -> Row:
    return {name: lookups.to_json_value(value) for name, value in row.items() if name != _XMIN}


def _effect(name: str, part: Mapping[str, Any], rows: list[Row], bindings: Bindings) -> ReadEffect:
    if part.get("expect") == "absent":
        return ReadEffect(name=name, present=not rows, count=0 if rows else 1)
    wanted, untold = _those_wanted(part, rows, bindings)
    if untold and not wanted:
        return ReadEffect(name=name, present=None)
    fields = {one: lookups.to_json_value(wanted[0][one]) for one in _columns(part)} if wanted else {}
    return ReadEffect(
        name=name,
        present=bool(wanted),
        count=len(wanted),
        fields=fields,
        scope=_scope(part, wanted),
        instances=tuple({one: lookups.to_json_value(row[one]) for one in _columns(part)} for row in wanted),
    )


def _those_wanted(part: Mapping[str, Any], rows: list[Row], bindings: Bindings) -> tuple[list[Row], bool]:
    """Return the rows that are the wanted effect, and whether some rows were undecidable."""
    if "present_if" not in part:
        return rows, False
    condition = expressions.compile(part["present_if"], dict.fromkeys(_ROW_VARIABLES))
    given = {name: bindings.get(name, {}) for name in LOOKUP_VARIABLES}
    truths = [expressions.evaluate(condition, {**given, "row": _json_row(row)}).truth for row in rows]
    wanted = [row for row, truth in zip(rows, truths, strict=True) if truth is Truth.TRUE]
    return wanted, Truth.UNDECIDABLE in truths


def _scope(part: Mapping[str, Any], rows: list[Row]) -> dict[str, tuple[Any, ...]]:
    kinds = {kind: part[f"{kind}_column"] for kind in ("tenant", "target") if f"{kind}_column" in part}
    return {
        kind: tuple(dict.fromkeys(lookups.to_json_value(row[column]) for row in rows)) for kind, column in kinds.items()
    }


def _target(part: Mapping[str, Any], rows: list[Row]) -> Row:
    if not rows:
        return {"exists": False, "count": 0}
    row = {name: lookups.to_json_value(rows[0][name]) for name in _columns(part)}
    version = {"version": row[part["version_column"]]} if "version_column" in part else {}
    return {**row, **version, "exists": True, "count": len(rows)}


def _audit(part: Mapping[str, Any], rows: list[Row]) -> Row:
    actors = [lookups.to_json_value(row[part["actor_column"]]) for row in rows] if "actor_column" in part else []
    return {"exists": bool(rows), "count": len(rows), "actors": list(dict.fromkeys(actors))}


def _indicators(
    lookup: Mapping[str, Any],
    effects: tuple[ReadEffect, ...],
    found: Mapping[str, list[Row]],
    bindings: Bindings,
) -> Iterator[str]:
    tenant = bindings.get("scope", {}).get("tenant")
    for effect in effects:
        part = lookup["effects"][effect.name]
        if any(one is not None and str(one) != str(tenant) for one in effect.scope.get("tenant", ())):
            yield "wrong_tenant"
        if effect.present and _differs(part, found[effect.name], bindings):
            yield "field_values_mismatch"
        if effect.present and _has_not_advanced(part, effect, bindings):
            yield "stale_version"


def _differs(part: Mapping[str, Any], rows: list[Row], bindings: Bindings) -> bool:
    wanted = {name: lookups.fill_template(text, bindings) for name, text in part.get("equals", {}).items()}
    return any(lookups.to_json_value(row[name]) != value for row in rows for name, value in wanted.items())


def _has_not_advanced(part: Mapping[str, Any], effect: ReadEffect, bindings: Bindings) -> bool:
    """Return True if a row's version is no higher than before the action."""
    if "version_column" not in part:
        return False
    before = bindings.get("pre", {}).get("effects", {}).get(effect.name, {}).get(part["version_column"])
    now = effect.fields.get(part["version_column"])
    if isinstance(before, int) and isinstance(now, int):
        return now <= before
    return before is not None and now == before


def _target_indicators(part: Mapping[str, Any], rows: list[Row], bindings: Bindings) -> Iterator[str]:
    if not rows:
        yield "missing_row"
    tenant = bindings.get("scope", {}).get("tenant")
    column = part.get("tenant_column")
    if column is not None and any(str(row[column]) != str(tenant) for row in rows):
        yield "wrong_tenant"


def _freshness(standing: Row, found: Mapping[str, list[Row]]) -> str:
    written = sorted({row[_XMIN] for rows in found.values() for row in rows}, key=int)
    return f"lsn {standing['position']}, xmin {' '.join(written[:20]) or 'none'}"


def _describe(part: Mapping[str, Any]) -> str:
    where = " and ".join(f"{column} = {text}" for column, text in part["where"].items())
    return f"{part['table']} where {where}"
