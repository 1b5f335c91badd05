"""`psql -c` and `psql -f`: rows of a table, and tables, columns, indexes and views.

1. What a statement is, is told from its words (`sql`). Which rows it would change, and what they would hold, is asked
   of the database itself, with the same connection, in a read-only transaction: what is proposed is the rows and their
   values. The same for objects of the schema: which of them are there now.
2. At most `MOST_ROWS` rows, each known by the table's primary key; a table without one is refused.
3. Between that question and the statement, rows may come to match its condition. Sending it again asks anew: other
   rows are another proposal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from counterfoil.coding_agents.asking import ask_document, content
from counterfoil.coding_agents.options import Given, read_options, table
from counterfoil.coding_agents.program import Program
from counterfoil.coding_agents.programs import sql
from counterfoil.coding_agents.shell import Command, Effect, Refusal, Script

MOST_ROWS: Final = 20
_PSQL_S: Final = 30
_CONNECTION: Final = frozenset(table("psql")["connection"])
_CONNINFO: Final = frozenset(table("psql")["conninfo"].split())
_SHOWS: Final = frozenset(("list", "version", "help"))
_DESCRIBES: Final = re.compile(r"\\(d[A-Za-z]*[+]?|l[+]?|conninfo|encoding)( [\w.*\"]+)?\s*")
_KINDS: Final = {"r": "table", "p": "table", "i": "index", "I": "index", "v": "view", "S": "sequence"}


def _statement(words: Sequence[str | None], folder: Path | None) -> tuple[str, Given]:
    """Return the one text that a command would send; raise `Refusal` if there is not exactly one, or it
    is uncertain.
    """
    given = read_options(words, "psql")
    texts = [value for name, value in given.pairs if name == "command"]
    files = [value for name, value in given.pairs if name == "file"]
    if _SHOWS & given.options.keys():
        return "", given
    if len(texts) + len(files) != 1 or None in (*texts, *files) or len(given.operands) > 2 or (files and not folder):
        raise Refusal(
            "Send `psql` with one -c or one -f: input from elsewhere cannot be held for approval. "
            "Send several changes as several commands."
        )
    if texts:
        return str(texts[0]), given
    try:
        return content((folder or Path()) / str(files[0])).decode(), given
    except UnicodeDecodeError as fault:
        raise Refusal(f"{files[0]} cannot be read: it is not UTF-8.") from fault


def _changes(command: Command, _: Script) -> bool:
    (folder,) = command.folders if len(command.folders) == 1 else (None,)
    try:
        text, _given = _statement(command.texts[1:], folder)
        return bool(_DESCRIBES.fullmatch(text)) is False and not all(map(sql.only_reads, sql.statements(text)))
    except Refusal:
        return True


def _read(words: Sequence[str], folder: Path) -> Effect | None:
    text, given = _statement(words[1:], folder)
    connection = [f"--{name}={value}" for name, value in given.pairs if name in _CONNECTION]
    named = [*(str(value) for name, value in given.pairs if name == "dbname"), *map(str, given.operands[:1])]
    for each in named:
        _refuse_unknown_conninfo(each)
    return _effect(text, _Database([*connection, "--", *map(str, given.operands)], folder))


def _refuse_unknown_conninfo(name: str) -> None:
    """A database may be named by a text with settings, some of which read files or run programs."""
    if "://" in name:
        keys = [key for key, _ in parse_qsl(urlsplit(name).query, keep_blank_values=True)]
    else:
        keys = re.findall(r"(\w+)\s*=", name)
    if wrong := sorted(set(keys) - _CONNINFO):
        raise Refusal(f"Send `psql` without {wrong[0]} in the name of the database: asking would use it too.")


PSQL: Final = Program(title="psql -c", names=("psql",), changes=_changes, read=_read)


def _effect(text: str, database: _Database) -> Effect | None:
    found = sql.statements(text)
    effective = [each for each in found if not sql.only_reads(each)]
    if not effective:
        return None
    changes = [change for each in effective for change in sql.schema_changes(each)]
    if changes and all(map(sql.schema_changes, effective)):
        return Effect("psql_change_schema", _schema(changes, text, database))
    change = sql.row_change(effective[0]) if len(found) == 1 else None
    if change is None:
        raise sql.not_recognised(
            "its form is not known" if len(found) == 1 else "several statements, of which not all change the schema"
        )
    return Effect(f"psql_{change.kind}_rows", _rows(change, text, database))


class _Database:
    """The database that a command would change, queried with the command's own connection."""

    def __init__(self, connection: Sequence[str], folder: Path) -> None:
        self._connection = connection
        self._folder = folder

    def ask(self, query: str) -> Any:
        """The one JSON value of a query, made in a transaction that cannot write."""
        asked = ["BEGIN TRANSACTION READ ONLY", "SET LOCAL statement_timeout = '10s'", query, "ROLLBACK"]
        words = ["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", *(f"--command={each}" for each in asked)]
        quiet = {"PGCONNECT_TIMEOUT": "10", "PSQL_PAGER": ""}
        words += self._connection
        return ask_document("psql", words, self._folder, seconds=_PSQL_S, variables=("PG",), settings=quiet)


_WHERE: Final = (
    "'cluster', (SELECT system_identifier::text FROM pg_control_system()), 'database', current_database()::text"
)


def _rows(change: sql.RowChange, text: str, database: _Database) -> dict[str, Any]:
    name = change.table.replace(" . ", ".")
    about = database.ask(
        f"SELECT json_build_object({_WHERE}, 'table', n.nspname || '.' || c.relname, 'kind', c.relkind,"
        " 'columns', (SELECT json_object_agg(a.attname, format_type(a.atttypid, a.atttypmod)) FROM pg_attribute a"
        "   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),"
        " 'key', (SELECT json_agg(a.attname ORDER BY array_position(i.indkey::int2[], a.attnum)) FROM pg_index i"
        "   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)"
        "   WHERE i.indrelid = c.oid AND i.indisprimary))"
        f" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {_quote_text(name)}::regclass"
    )
    if about["kind"] not in ("r", "p") or not about["key"]:
        raise Refusal(f"{name} is not a table with a primary key, so its rows could not be identified afterwards.")
    types, key = about["columns"], about["key"]
    unknown = set(change.columns) - set(types)
    if unknown:
        raise Refusal(f"{about['table']} has no column {', '.join(sorted(unknown))}.")
    known = {*types, *(sql.bare(part) for part in (*change.table.split(" . "), change.alias))}
    for words in (*((change.condition,) if change.condition else ()), *(each for row in change.values for each in row)):
        sql.refuse_unless_plain(words, known)
    rows = database.ask(_insert_query(change, key, types) if change.kind == "insert" else _query(change, key, types))
    if not rows:
        raise Refusal("No row matches now, so this would change nothing; nothing was run.")
    if len(rows) > MOST_ROWS:
        raise Refusal(f"This would change more than {MOST_ROWS} rows. Send it in parts, so that each row is approved.")
    return {
        "cluster": about["cluster"],
        "database": about["database"],
        "table": about["table"],
        "statement": text.strip(),
        "key_columns": key,
        "columns": [each for each in change.columns if each not in key],
        "rows": rows,
        "count": len(rows),
    }


def _query(change: sql.RowChange, key: Sequence[str], types: dict[str, str]) -> str:
    """The keys of the rows that a change is about, each with the values that it would leave there."""
    if set(key) & set(change.columns):
        raise sql.not_recognised("it changes the primary key")
    kept = [f"{_identifier(each)}::text" for each in key]
    (values,) = change.values or ((),)
    made = [_value(words, types[column]) for column, words in zip(change.columns, values, strict=True)]
    table = change.table.replace(" . ", ".") + (f" AS {change.alias}" if change.alias else "")
    names = ", ".join(f"v{place}" for place in range(len(kept + made)))
    return (
        f"SELECT coalesce(json_agg(json_build_array({names})), '[]')"
        f" FROM (SELECT {', '.join(f'{each} AS v{place}' for place, each in enumerate(kept + made))}"
        f" FROM {table} WHERE {sql.as_written(change.condition)} ORDER BY 1 LIMIT {MOST_ROWS + 1}) AS found"
    )


def _insert_query(change: sql.RowChange, key: Sequence[str], types: dict[str, str]) -> str:
    """The keys and values of the rows that an INSERT would add, as their columns would hold them."""
    if not set(key) <= set(change.columns):
        raise sql.not_recognised("it does not say the primary key of its rows, which the database would make up")
    order = [*key, *(each for each in change.columns if each not in key)]
    rows = []
    for row in change.values:
        values = dict(zip(change.columns, row, strict=True))
        rows.append(f"json_build_array({', '.join(_value(values[each], types[each]) for each in order)})")
    return f"SELECT json_build_array({', '.join(rows)})"


def _value(words: sql.Statement, type_: str) -> str:
    if sql.as_compared(words) == "default":
        raise sql.not_recognised("DEFAULT is what the database would make up")
    return f"({sql.as_written(words)})::{type_}::text"


def _schema(changes: Sequence[sql.SchemaChange], text: str, database: _Database) -> dict[str, Any]:
    found = database.ask(
        f"SELECT json_build_object({_WHERE}, 'objects', json_build_array({', '.join(map(_object, changes))}))"
    )
    objects = []
    for change, shown in zip(changes, found.pop("objects"), strict=True):
        if shown["schema"] is None:
            raise Refusal(f"{change.name.replace(' . ', '.')} is in no existing schema.")
        name = ".".join(filter(None, [shown["schema"], *shown["names"]]))
        objects.append({"kind": change.kind, "name": name, "present": change.present, "datatype": shown["type"] or ""})
        if shown["there"] is change.present:
            raise Refusal(f"The {change.kind} {name} {'exists already' if change.present else 'does not exist'}.")
    return {**found, "statement": text.strip(), "objects": objects, "count": len(objects)}


def _object(change: sql.SchemaChange) -> str:
    """A query for the location of a schema object, and whether it exists now."""
    parts = [sql.bare(each) for each in change.name.split(" . ")]
    if change.kind == "schema":
        return _object_row(
            _quote_text(parts[0]), [], f"EXISTS (SELECT FROM pg_namespace WHERE nspname = {_quote_text(parts[0])})"
        )
    column = parts.pop() if change.kind == "column" else ""
    owner = change.beside or (" . ".join(change.name.split(" . ")[:-1]) if column else change.name)
    relation = f"to_regclass({_quote_text(owner.replace(' . ', '.'))})"
    found = f"(SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {relation})"
    told = owner.split(" . ")
    schema = _quote_text(sql.bare(told[0])) if len(told) == 2 else f"coalesce({found}, current_schema())"
    kinds = ", ".join(_quote_text(each) for each, kind in _KINDS.items() if kind in (change.kind, column and "table"))
    there = (
        f"SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {schema}"
        f" AND c.relname = {_quote_text(parts[-1])}"
    )
    if not column:
        return _object_row(schema, parts[-1:], f"EXISTS ({there} AND c.relkind IN ({kinds}))")
    attribute = f" AND a.attname = {_quote_text(column)} AND a.attnum > 0 AND NOT a.attisdropped"
    there = there.replace(" WHERE ", " JOIN pg_attribute a ON a.attrelid = c.oid WHERE ", 1) + attribute
    return _object_row(
        schema, [parts[-1], column], f"EXISTS ({there})", f"to_regtype({_quote_text(change.type_)})::text"
    )


def _object_row(schema: str, names: Sequence[str], there: str, type_: str = "NULL") -> str:
    listed = ", ".join(map(_quote_text, names))
    return (
        f"json_build_object('schema', {schema}, 'names', json_build_array({listed}), 'there', {there}, 'type', {type_})"
    )


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
