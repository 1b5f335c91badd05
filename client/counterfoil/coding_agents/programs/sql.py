"""SQL text of a few plain forms whose change can be determined from its words.

1. Text is cut into words as PostgreSQL does it. What needs more than that (escapes, dollar quotes, psql's own commands
   and variables) is not read.
2. A condition or a value is plain if it holds nothing but literals, operators, known keywords and functions, and names
   that the table has. Everything else could do something by being read, and is refused before the database is asked.
3. What no form here fits is `Refusal`: it is never taken for harmless.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from counterfoil.coding_agents.shell import Refusal

_WORD: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*)|(?P<text>'(?:[^'\\]|'')*')|(?P<quoted>"(?:[^"\\]|"")+")|(?P<number>\d+(?:\.\d+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<cast>::)|(?P<operator>[-+*/<>=~!@%^&|?]+)|(?P<mark>[(),;.\[\]])""",
    re.X,
)
# fmt: off
_FUNCTIONS: Final = frozenset(
    (
        "abs", "age", "array_agg", "avg", "btrim", "ceil", "char_length", "coalesce", "concat", "count",
        "current_database", "current_schema", "date_part", "date_trunc", "extract", "filter", "floor", "greatest",
        "json_agg", "json_build_object", "jsonb_agg", "lag", "lead", "least", "left", "length", "lower", "ltrim", "max",
        "min", "mod", "now", "nullif", "over", "pg_database_size", "pg_relation_size", "pg_size_pretty",
        "pg_total_relation_size", "position", "rank", "replace", "right", "round", "row_number", "rtrim", "split_part",
        "string_agg", "substr", "substring", "sum", "to_char", "to_date", "to_timestamp", "trim", "upper", "version",
    )
)
_TYPES: Final = frozenset(
    (
        "bigint", "bool", "boolean", "bytea", "char", "character", "date", "decimal", "double", "float4", "float8",
        "inet", "int", "int2", "int4", "int8", "integer", "interval", "json", "jsonb", "money", "numeric", "precision",
        "real", "smallint", "text", "time", "timestamp", "timestamptz", "timetz", "uuid", "varchar", "varying", "zone",
    )
)
_KEYWORDS: Final = frozenset(
    (
        "all", "and", "any", "as", "asc", "at", "between", "by", "case", "cast", "current_date", "current_role",
        "current_time", "current_timestamp", "current_user", "day", "default", "desc", "distinct", "else", "end",
        "epoch", "escape", "false", "for", "from", "hour", "ilike", "in", "is", "isnull", "like", "localtime",
        "localtimestamp", "minute", "month", "not", "notnull", "null", "nulls", "or", "second", "session_user",
        "similar", "some", "symmetric", "then", "to", "true", "unknown", "when", "with", "without", "year",
    )
)
# fmt: on
_NAMED: Final = r'(?:[a-z_][a-z0-9_]*|"[^"\s]+")'
_NAME: Final = rf"{_NAMED}(?: \. {_NAMED})?"
_READS: Final = frozenset({"select", "table", "values", "show", "explain"})
_BRACKETS: Final = {")": "(", "]": "["}


@dataclass(frozen=True)
class Word:
    """A word of a statement: `folded` for comparing names and keywords, `text` as written."""

    kind: str
    text: str

    @property
    def folded(self) -> str:
        return self.text.lower() if self.kind == "name" else self.text


Statement = tuple[Word, ...]


@dataclass(frozen=True)
class RowChange:
    """One statement on the rows of a table; `values` are (column, expression), or rows of expressions for an INSERT."""

    kind: str
    table: str
    alias: str
    condition: Statement
    columns: tuple[str, ...] = ()
    values: tuple[tuple[Statement, ...], ...] = ()


@dataclass(frozen=True)
class SchemaChange:
    """One object that a statement creates or removes; `beside` is the table whose schema an index is in."""

    kind: str
    name: str
    present: bool
    type_: str = ""
    beside: str = ""
    renamed_from: str = ""


def statements(text: str) -> list[Statement]:
    """Return the statements of a text (rule 1), without surrounding transaction words."""
    found: list[list[Word]] = [[]]
    at, before = 0, ""
    while at < len(text):
        matched = _WORD.match(text, at)
        joined = matched and matched.lastgroup == "text" and before in ("name", "text", "quoted", "number")
        if not matched or joined or "/*" in matched.group():
            raise not_recognised(f"it holds {text[at : at + 12]!r}, which is not read here")
        at, before = matched.end(), str(matched.lastgroup)
        if matched.group() == ";":
            found.append([])
        elif before != "space":
            found[-1].append(Word(before, matched.group()))
    kept = [tuple(each) for each in found if each]
    return [each for each in kept if as_compared(each) not in ("begin", "commit", "end", "start transaction")]


def as_compared(words: Sequence[Word]) -> str:
    """Words with one space between them, names and keywords in lower case."""
    return " ".join(each.folded for each in words)


def as_written(words: Sequence[Word]) -> str:
    """Words as they were written."""
    return " ".join(each.text for each in words)


def not_recognised(why: str) -> Refusal:
    """The refusal of a statement that fits no form here."""
    return Refusal(
        f"Not recognised: {why}. What this statement would change cannot be known in advance, so it was neither held "
        "for approval nor treated as harmless. Supported are plain SELECT, INSERT ... VALUES, UPDATE and DELETE ... "
        "WHERE of one table, and CREATE, ALTER and DROP of tables, columns, indexes and views, in a `psql -c` or `-f` "
        "of their own."
    )


def only_reads(statement: Statement) -> bool:
    """True if a statement only reads. Raises `Refusal` if it calls functions that may do more."""
    if statement[0].folded not in _READS:
        return False
    for word in statement:
        if word.folded in ("into", "analyze", "update", "share", "insert", "delete"):
            raise not_recognised(f"{word.text.upper()} in a query may change something")
    for name in _called_functions(statement):
        if name not in _FUNCTIONS | _KEYWORDS | _TYPES:
            raise not_recognised(f"the function {name}() may change something")
    return True


def row_change(statement: Statement) -> RowChange | None:
    """The change of rows that a statement makes (rule 3); None if it makes none."""
    kind = statement[0].folded
    if kind not in ("insert", "update", "delete"):
        return None
    words = _words_before(statement, "returning")
    if kind == "insert":
        return _insert(words)
    head, condition = _split_at(words, "where")
    if condition is None:
        raise not_recognised(f"a {kind.upper()} without WHERE changes every row; name the rows")
    assignments: Statement | None = ()
    if kind == "update":
        head, assignments = _split_at(head, "set")
    opening = r"update" if kind == "update" else r"delete from"
    form = re.fullmatch(rf"{opening} (?:only )?({_NAME})(?: (?:as )?({_NAMED}))?", as_compared(head))
    if form is None or assignments is None:
        raise not_recognised(f"it is no {kind.upper()} of one table")
    columns, values = list[str](), list[Statement]()
    for assignment in _split_list(assignments):
        left, right = _split_at(assignment, "=")
        if right is None or not re.fullmatch(_NAMED, as_compared(left)):
            raise not_recognised(f"{as_written(assignment)!r} sets no single column")
        columns.append(bare(as_compared(left)))
        values.append(right)
    return RowChange(kind, form[1], form[2] or "", condition, tuple(columns), (tuple(values),))


def _insert(words: Statement) -> RowChange:
    head, rows = _split_at(words, "values")
    form = re.fullmatch(rf"insert into ({_NAME}) \( ({_NAMED}(?: , {_NAMED})*) \)", as_compared(head))
    if form is None or rows is None:
        raise not_recognised("an INSERT names its columns and its VALUES")
    columns = tuple(bare(each) for each in form[2].split(" , "))
    found = []
    for row in _split_list(rows):
        if len(row) < 2 or row[0].text != "(" or row[-1].text != ")":
            raise not_recognised("an INSERT names its columns and its VALUES")
        found.append(tuple(_split_list(row[1:-1])))
        if len(found[-1]) != len(columns):
            raise not_recognised("an INSERT gives a value for each of its columns")
    return RowChange("insert", form[1], "", (), columns, tuple(found))


def refuse_unless_plain(words: Statement, known: Collection[str]) -> None:
    """`Refusal` for a condition or a value that is not plain (rule 2); `known` are the names that the table has."""
    depth = list[str]()
    for word in words:
        if word.text in ("(", "["):
            depth.append(word.text)
        elif word.text in _BRACKETS and (not depth or depth.pop() != _BRACKETS[word.text]):
            raise not_recognised("its brackets do not match")
    if depth or not words:
        raise not_recognised("its brackets do not match" if depth else "a value is missing")
    called = set(_called_functions(words))
    for word in words:
        if word.kind not in ("name", "quoted"):
            continue
        name = bare(word.folded)
        if name not in called and name in known:
            continue
        if word.kind == "quoted" or name not in _FUNCTIONS | _TYPES | _KEYWORDS:
            raise not_recognised(
                f"{word.text} is no column of the table and no function that is known to change nothing"
            )


def schema_changes(statement: Statement) -> list[SchemaChange]:
    """The schema changes of a statement; empty if it changes no schema."""
    text = as_compared(statement)
    kinds = "table|index|view|sequence|schema"
    if form := re.match(rf"create (?:unlogged )?table (?:if not exists )?({_NAME}) \(", text):
        return [SchemaChange("table", form[1], True)]
    if form := re.match(
        rf"create (?:unique )?index (?:concurrently )?(?:if not exists )?({_NAMED}) on (?:only )?({_NAME}) ", text
    ):
        return [SchemaChange("index", form[1], True, beside=form[2])]
    if form := re.match(rf"create (view|sequence) (?:if not exists )?({_NAME})(?: |$)", text):
        return [SchemaChange(form[1], form[2], True)]
    if form := re.fullmatch(rf"create schema (?:if not exists )?({_NAMED})", text):
        return [SchemaChange("schema", form[1], True)]
    if form := re.fullmatch(rf"drop ({kinds}) (?:concurrently )?(?:if exists )?({_NAME})(?: restrict)?", text):
        return [SchemaChange(form[1], form[2], False)]
    if form := re.match(rf"alter table (?:if exists )?(?:only )?({_NAME}) ", text):
        table = form[1]
        rest = statement[len(form[0].split()) :]
        return [change for action in _split_list(rest) for change in _column_changes(table, as_compared(action))]
    return []


def _column_changes(table: str, action: str) -> list[SchemaChange]:
    if form := re.match(
        rf"add (?!constraint|primary|unique|foreign|check|exclude)(?:column )?(?:if not exists )?({_NAMED}) (\w+)",
        action,
    ):
        return [SchemaChange("column", f"{table} . {form[1]}", True, form[2])]
    if form := re.fullmatch(rf"drop (?!constraint )(?:column )?(?:if exists )?({_NAMED})(?: restrict)?", action):
        return [SchemaChange("column", f"{table} . {form[1]}", False)]
    if form := re.fullmatch(rf"rename (?:column )?(?!to )({_NAMED}) to ({_NAMED})", action):
        old, new = f"{table} . {form[1]}", f"{table} . {form[2]}"
        return [SchemaChange("column", old, False), SchemaChange("column", new, True)]
    if form := re.fullmatch(rf"rename to ({_NAMED})", action):
        return [
            SchemaChange("table", table, False),
            SchemaChange("table", form[1], True, beside=table),
        ]
    raise not_recognised(f"{action[:60]!r} is no change of a column that is read back here")


def bare(name: str) -> str:
    """A name without its quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _called_functions(words: Sequence[Word]) -> Iterator[str]:
    for word, after in pairwise(words):
        if word.kind in ("name", "quoted") and after.text == "(":
            yield bare(word.folded)


def _outside_brackets(words: Statement) -> Iterator[tuple[int, Word]]:
    depth = 0
    for place, word in enumerate(words):
        if depth == 0:
            yield place, word
        depth += (word.text in ("(", "[")) - (word.text in (")", "]"))


def _split_at(words: Statement, at: str) -> tuple[Statement, Statement | None]:
    """Split at the first such word outside brackets; the second part is None if it does not occur."""
    for place, word in _outside_brackets(words):
        if word.kind != "quoted" and word.folded == at:
            return words[:place], words[place + 1 :]
    return words, None


def _words_before(words: Statement, at: str) -> Statement:
    return _split_at(words, at)[0]


def _split_list(words: Statement) -> list[Statement]:
    """The parts of a list that commas outside brackets divide."""
    places = [place for place, word in _outside_brackets(words) if word.text == ","]
    return [words[begin + 1 : end] for begin, end in zip([-1, *places], [*places, len(words)], strict=True) if words]
