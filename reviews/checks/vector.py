"""Vector search: reads a document's row and searches the index for it, in PostgreSQL with pgvector (R-CP-12).

    effects.<name>   table, where {column: expression}, embedding_column, and optionally
                     fields [column], version_column with embedding_version (expression),
                     checksum_column with checksum, scope_column with permission_scope,
                     corpus_column, tenant_column, target_column, expect "absent",
                     retrieval {table, where {column: expression}, embedding_column, metric, neighbours,
                                visible_to, hidden_from (expressions)}

A document is stored in `table`; searches run over `retrieval.table`, which may be the same, or a copy that is
refreshed (a materialised view). The system's settings: tables (those that may be read), scope_setting (the
session setting that its row security asks for the searcher's scope).

1. Everything is read in one read-only snapshot of the primary; a server in recovery is a replica.
2. The retrieval test asks for the nearest neighbours of the document's own vector, through the index: the
   document must be among them. An index that is missing or not valid, a copy that lacks the document or holds
   another vector or checksum, and a document without a vector are `stale_index`: it may catch up.
3. A complete index that still does not give the document back finds something else (`retrieval_mismatch`).
4. Whoever may not see it must not find it: the search is run in that scope as well. That shows something only
   if row security binds the reader; where it does not, there is no answer.
5. Names become identifiers, values are bound, and a reading ends, as for databases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from reviews.checks import lookups, postgres
from reviews.checks.interface import CheckFailed, Consistency, ReadEffect, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.checks.postgres import ADDRESS, COLUMN, TABLE, Row
from reviews.readback.rules import shapes
from reviews.reconciliation.rules.reading import NOT_FRESH

MAX_ROWS = 100
NEIGHBOURS = 10

_METRICS = {
    "l2": ("<->", "vector_l2_ops"),
    "cosine": ("<=>", "vector_cosine_ops"),
    "inner_product": ("<#>", "vector_ip_ops"),
}
_COLUMNS = ("version_column", "checksum_column", "scope_column", "corpus_column", "tenant_column", "target_column")
_TEXTS = {
    "embedding_version": "version_column",
    "checksum": "checksum_column",
    "permission_scope": "scope_column",
}
_PLACE = {**TABLE, "embedding_column": COLUMN}
_STRINGS = ("embedding_version", "checksum", "permission_scope", "corpus_snapshot", "index_version")
_VECTOR, _XMIN = "vector ", "xmin "  # no column can be named so

Bindings = Mapping[str, Mapping[str, Any]]
Connection = psycopg.Connection[Row]


@dataclass
class RetrievalTest:
    """The result of the retrieval test."""

    fields: dict[str, Any] = field(default_factory=dict)
    indicators: set[str] = field(default_factory=set)


class VectorSearchCheck(lookups.LookupCheck):
    """The check of pattern `vector_search`."""

    pattern = "vector_search"
    settings = {
        **ADDRESS,
        "tables": shapes.readable("Tables"),
        "scope_setting": shapes.member(
            shapes.TEXT, "Setting that holds the scope of a reader", "Such as app.audience, where rows have readers."
        ),
    }
    part = shapes.object_schema(
        _PLACE,
        {
            "fields": shapes.fields_schema(COLUMN),
            "expect": shapes.EXPECT,
            "retrieval": shapes.object_schema(
                _PLACE,
                {
                    **dict.fromkeys(("visible_to", "hidden_from"), shapes.EXPRESSION),
                    "metric": {"enum": list(_METRICS), "fault": f"is one of {', '.join(_METRICS)}."},
                    "neighbours": shapes.number_schema(1, MAX_ROWS),
                },
            ),
            **dict.fromkeys(_COLUMNS, COLUMN),
            **dict.fromkeys(_TEXTS, shapes.EXPRESSION),
        },
        *(
            shapes.rule(f"/{name} needs {column}.", dependentRequired={name: [column]})
            for name, column in _TEXTS.items()
        ),
    )
    needs = {
        "embedding_version": ("embedding_version",),
        "index_version": ("retrieval",),
        "corpus_snapshot": ("corpus_column",),
        "permission_scope": ("permission_scope", "hidden_from"),
        "retrieval_eligibility": ("retrieval",),
    }

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The declared columns, and what the retrieval test tells."""
        declared: dict[str, Any] = {name: {} for name in part.get("fields", ())}
        text = {name: {"type": "string"} for name in _STRINGS}
        numbers = {name: {"type": "integer"} for name in ("dimensions", "rank")}
        return {**declared, **text, **numbers, "retrievable": {"type": "boolean"}}

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
        """Read the documents and the results of a search now."""
        parts = lookups.lookup_effects(verification)
        _check_tables(system, parts)
        try:
            with postgres.read_only_connection(system, timeout_s) as connection, connection.transaction():
                return _take_reading(connection, system, parts, bindings, at=at)
        except psycopg.Error as problem:
            raise postgres.check_failure(problem) from None


# One reading


def _check_tables(system: SystemAccess, parts: Mapping[str, Mapping[str, Any]]) -> None:
    asked = [part["table"] for part in parts.values()]
    asked += [part["retrieval"]["table"] for part in parts.values() if "retrieval" in part]
    allowed = system.settings.get("tables", asked)
    for table in asked:
        if table not in allowed:
            raise CheckFailed(f"{table} is not among the tables that may be read.", retryable=False)


def _take_reading(
    connection: Connection,
    system: SystemAccess,
    parts: Mapping[str, Mapping[str, Any]],
    bindings: Bindings,
    *,
    at: datetime,
) -> Reading:
    standing, identity = postgres.primary_status(connection), postgres.server_identity(connection)
    effects, indicators, written, raw = [], set[str](), [], {}
    for name, part in parts.items():
        _be_in_scope(connection, system, part, "visible_to", bindings)
        rows = _rows(connection, part, bindings)
        test = _test_retrieval(connection, system, part, rows, bindings)
        effects.append(_effect(name, part, rows, test))
        indicators |= set(_indicators(part, rows, bindings)) | test.indicators
        written += [row[_XMIN] for row in rows]
        raw[name] = {"rows": [_json_row(row) for row in rows], "retrieval": test.fields}
    if standing["in_recovery"]:
        indicators.add(NOT_FRESH)
    return Reading(
        source=system.name,
        consistency=Consistency.REPLICA if standing["in_recovery"] else Consistency.PRIMARY,
        freshness=f"lsn {standing['position']}, xmin {' '.join(written[:10]) or 'none'}",
        observed_at=at,
        pointer="; ".join(_describe(part) for part in parts.values()),
        effects=tuple(effects),
        indicators=tuple(sorted(indicators)),
        raw=raw,
        origin=identity,
    )


def _be_in_scope(
    connection: Connection, system: SystemAccess, part: Mapping[str, Any], who: str, bindings: Bindings
) -> bool:
    """Search with that scope from now on in this transaction; return False if the lookup names none."""
    text = part.get("retrieval", {}).get(who)
    setting = system.settings.get("scope_setting")
    if text is None:
        if who == "visible_to" and isinstance(setting, str):
            # What the effect before searched as must not last.
            connection.execute("SELECT set_config(%s, '', true)", [setting])
        return False
    if not isinstance(setting, str):
        raise CheckFailed("The system names no scope_setting to search in a scope.", retryable=False)
    connection.execute("SELECT set_config(%s, %s, true)", [setting, str(lookups.fill_template(text, bindings))])
    return True


def _where(part: Mapping[str, Any], bindings: Bindings) -> tuple[sql.Composed, list[Any]]:
    where = {column: lookups.fill_template(text, bindings) for column, text in part["where"].items()}
    asked = sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(one), sql.Placeholder()) for one in where)
    return asked, list(where.values())


def _table(part: Mapping[str, Any]) -> sql.Identifier:
    return sql.Identifier(*part["table"].split("."))


def _rows(connection: Connection, part: Mapping[str, Any], bindings: Bindings) -> list[Row]:
    """The document's rows with its vector as text."""
    asked, values = _where(part, bindings)
    columns = list(dict.fromkeys([*part.get("fields", ()), *(part[name] for name in _COLUMNS if name in part)]))
    query = sql.SQL("SELECT {} FROM {} WHERE {} LIMIT {}").format(
        sql.SQL(", ").join(
            [
                sql.SQL("xmin::text AS {}").format(sql.Identifier(_XMIN)),
                sql.SQL("{}::text AS {}").format(sql.Identifier(part["embedding_column"]), sql.Identifier(_VECTOR)),
                *map(sql.Identifier, columns),
            ]
        ),
        _table(part),
        asked,
        sql.Literal(MAX_ROWS),
    )
    return connection.execute(query, values).fetchall()


def _json_row(row: Row) -> Row:
    return {name: lookups.to_json_value(value) for name, value in row.items() if name not in {_XMIN, _VECTOR}}


def _effect(name: str, part: Mapping[str, Any], rows: list[Row], test: RetrievalTest) -> ReadEffect:
    if part.get("expect") == "absent":
        gone = not rows and not test.fields.get("retrievable", False)
        return ReadEffect(name=name, present=gone, count=int(gone), fields=test.fields)
    if not rows:
        return ReadEffect(name=name, present=False)
    row = rows[0]
    fields = {one: lookups.to_json_value(row[one]) for one in part.get("fields", ())}
    for told, column in (*_TEXTS.items(), ("corpus_snapshot", "corpus_column")):
        if column in part:
            fields[told] = str(lookups.to_json_value(row[part[column]]))
    fields["dimensions"] = row[_VECTOR].count(",") + 1 if row[_VECTOR] else 0
    kinds = {kind: part[f"{kind}_column"] for kind in ("tenant", "target") if f"{kind}_column" in part}
    return ReadEffect(
        name=name,
        present=True,
        count=len(rows),
        fields={**fields, **test.fields},
        scope={
            kind: tuple(dict.fromkeys(lookups.to_json_value(one[col]) for one in rows)) for kind, col in kinds.items()
        },
    )


def _indicators(part: Mapping[str, Any], rows: list[Row], bindings: Bindings) -> Iterator[str]:
    if part.get("expect") == "absent":
        return
    if not rows:
        yield "document_missing"
    if any(row[_VECTOR] is None for row in rows):
        yield "stale_index"
    fired = {
        "embedding_version": "wrong_embedding_version",
        "checksum": "stale_index",
        "permission_scope": "permission_leakage",
    }
    for told, indicator in fired.items():
        if told in part:
            wanted = str(lookups.fill_template(part[told], bindings))
            if any(str(lookups.to_json_value(row[part[_TEXTS[told]]])) != wanted for row in rows):
                yield indicator


# The retrieval test


def _test_retrieval(
    connection: Connection, system: SystemAccess, part: Mapping[str, Any], rows: list[Row], bindings: Bindings
) -> RetrievalTest:
    test, search = RetrievalTest(), part.get("retrieval")
    if search is None:
        return test
    index = _index(connection, search)
    test.fields["index_version"] = index or ""
    if part.get("expect") == "absent":
        left = bool(_copies(connection, search, bindings))
        test.fields["retrievable"] = left
        test.indicators |= {"stale_index"} if left and not rows else set()
        return test
    vector = rows[0][_VECTOR] if rows else None
    if vector is None:
        test.fields["retrievable"] = False
        return test
    copies = _copies(connection, search, bindings)
    if index is None or not copies or any(copy != vector for copy in copies):
        test.indicators.add("stale_index")
    rank = _rank(connection, search, vector, bindings)
    test.fields |= {"retrievable": rank is not None, **({"rank": rank} if rank is not None else {})}
    if rank is None and not test.indicators:
        test.indicators.add("retrieval_mismatch")
    if _be_in_scope(connection, system, part, "hidden_from", bindings):
        _check_binding(connection, search)
        if _rank(connection, search, vector, bindings) is not None:
            test.indicators.add("permission_leakage")
    return test


def _index(connection: Connection, search: Mapping[str, Any]) -> str | None:
    """The valid vector index that such a search uses: its name, method and the file that a rebuild replaces."""
    query = (
        "SELECT c.relname || ' ' || m.amname || ' ' || c.relfilenode AS version FROM pg_index i"
        " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)"
        " JOIN pg_opclass o ON o.oid = ANY (i.indclass)"
        " WHERE i.indrelid = to_regclass(%s) AND a.attname = %s AND o.opcname = %s AND i.indisvalid AND i.indisready"
        " ORDER BY c.relname LIMIT 1"
    )
    table = ".".join(f'"{name}"' for name in search["table"].split("."))
    operators = _METRICS[search.get("metric", "cosine")][1]
    row = connection.execute(query, [table, search["embedding_column"], operators]).fetchone()
    return None if row is None else str(row["version"])


def _copies(connection: Connection, search: Mapping[str, Any], bindings: Bindings) -> list[str | None]:
    """The document's vectors in the table that is searched."""
    asked, values = _where(search, bindings)
    query = sql.SQL("SELECT {}::text AS found FROM {} WHERE {} LIMIT {}").format(
        sql.Identifier(search["embedding_column"]), _table(search), asked, sql.Literal(MAX_ROWS)
    )
    return [row["found"] for row in connection.execute(query, values)]


def _rank(connection: Connection, search: Mapping[str, Any], vector: str, bindings: Bindings) -> int | None:
    """Return the document's rank among the nearest neighbours of its own vector, found through the index."""
    asked, values = _where(search, bindings)
    connection.execute("SET LOCAL enable_seqscan = off")
    query = sql.SQL("SELECT ({}) AS hit FROM {} ORDER BY {} {} {}::text::vector LIMIT {}").format(
        asked,
        _table(search),
        sql.Identifier(search["embedding_column"]),
        sql.SQL(_METRICS[search.get("metric", "cosine")][0]),
        sql.Placeholder(),
        sql.Literal(search.get("neighbours", NEIGHBOURS)),
    )
    hits = [row["hit"] for row in connection.execute(query, [*values, vector])]
    return next((number for number, hit in enumerate(hits, 1) if hit), None)


def _check_binding(connection: Connection, search: Mapping[str, Any]) -> None:
    table = ".".join(f'"{name}"' for name in search["table"].split("."))
    row = connection.execute(
        "SELECT c.relkind IN ('r', 'p') AND NOT row_security_active(c.oid) AS free"
        " FROM pg_class c WHERE c.oid = to_regclass(%s)",
        [table],
    ).fetchone()
    if row is not None and row["free"]:
        raise CheckFailed("Row security does not bind the reader, so nothing shows what is hidden.", retryable=False)


def _describe(part: Mapping[str, Any]) -> str:
    where = " and ".join(f"{column} = {text}" for column, text in part["where"].items())
    search = part.get("retrieval")
    return f"{part['table']} where {where}" + (f", searched in {search['table']}" if search else "")
