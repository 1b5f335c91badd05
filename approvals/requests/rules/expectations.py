"""Expectations: which of an agent's own predicates still apply to a request that a reviewer has edited.

An agent may add predicates to those of the contract. They were written for the payload that it sent. After an edit,

1. an expectation that names an edited field is dropped, on record: it speaks of a value that will not be sent. It names
   a field by its own name in `sr`, `sa` or `so` (also below `effects.<name>` and `target`), by the name of what the
   field stands in or holds (`sr.lines`, `sr.address.city`), or by a field of the system that the contract compares with
   it. A field that is reached by an index or a loop is named by what it stands in. Where the edit names another target,
   whatever speaks of the target or of the state before (`pre`) is dropped as well;
2. of the rest, one that is false for the new payload refuses the edit (`contradicted`). It can be told only where every
   field that it names is in the request, or equals one there by a predicate of the contract;
3. everything else stays and is checked after the execution.

The contract's own predicates are not asked about here: they always stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from approvals.requests.rules.revisions import field_changes
from ledger.catalogue.rules import expressions
from ledger.catalogue.rules.expressions import Truth

TARGET = "target_resource"
# What a check itself says of an effect; no field of a payload is meant by it.
_FOUND = frozenset({"exists", "count"})

Path = tuple[str, ...]


@dataclass(frozen=True)
class RequestContent:
    """The content of a request: the payload, and the target that its arguments name."""

    payload: Any
    target: str


@dataclass(frozen=True)
class DroppedExpectation:
    """An expectation that the edit took away, and the edited fields that it names."""

    text: str
    fields: tuple[str, ...]

    @property
    def why(self) -> str:
        """The reason, as a sentence."""
        *first, last = (f"`{field}`" for field in self.fields)
        named = f"{', '.join(first)} and {last}" if first else last
        return f"It names {named}, which {'were' if first else 'was'} edited."

    def document(self) -> dict[str, Any]:
        """The form for the record, the agent and the approver."""
        return {"text": self.text, "fields": list(self.fields), "why": self.why}


@dataclass(frozen=True)
class ReviewedExpectations:
    """The expectations, grouped by what happens to each."""

    dropped: tuple[DroppedExpectation, ...] = ()
    contradicted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def review_expectations(
    expectations: Iterable[str], *, before: RequestContent, after: RequestContent, predicates: Iterable[str]
) -> ReviewedExpectations:
    """Review an agent's expectations after `before` was edited to `after`, under the contract's predicates."""
    edited = {
        _dotted_path(path): path
        for path in (_steps(each.path) for each in field_changes(before.payload, after.payload))
    }
    clauses = [clause for text in predicates for clause in expressions.clauses_of(text)]
    known = _known_values(clauses, after)
    dropped, contradicted, kept = [], [], []
    for text in expectations:
        fields = {field for clause in expressions.clauses_of(text) for field in clause.fields}
        named = _edited_fields(fields, edited, clauses, moved=before.target != after.target)
        if named:
            dropped.append(DroppedExpectation(text, named))
        elif _is_false(text, fields, known, after):
            contradicted.append(text)
        else:
            kept.append(text)
    return ReviewedExpectations(tuple(dropped), tuple(contradicted), tuple(kept))


def _steps(path: str) -> Path:
    """The names in a path of a change; no name that an expression can spell is written otherwise there."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])


def _dotted_path(path: Path) -> str:
    return ".".join(path) or "payload"


# Rule 1


def _edited_fields(
    fields: Iterable[Path], edited: Mapping[str, Path], clauses: Iterable[expressions.Clause], *, moved: bool
) -> tuple[str, ...]:
    """The edited fields that these fields name, as people read them."""
    fields = tuple(fields)
    meant = [path for field in fields for path in _payload_paths(field, clauses)]
    named = [shown for shown, path in edited.items() if any(_touches(path, each) for each in meant)]
    speaks_of_target = moved and any(_is_of_target(field) for field in fields)
    return (*named, *([TARGET] if speaks_of_target else []))


def _payload_paths(field: Path, clauses: Iterable[expressions.Clause]) -> Iterator[Path]:
    """The payload paths that a field of an expression refers to, by name and by the contract's comparisons."""
    variable, path = field[0], field[1:]
    if variable == "sr":
        yield path
    if variable not in ("sa", "so"):
        return
    own = _without_place(path)
    if own not in {(name,) for name in _FOUND}:
        yield own
    for clause in clauses:
        compared = (each for each in clause.fields if each[0] == variable)
        if any(_touches(own, _without_place(each[1:])) for each in compared):
            yield from (each[1:] for each in clause.fields if each[0] == "sr")


def _without_place(path: Path) -> Path:
    """The name of a field of a reading without its position: `effects.refund.amount` and `target.amount` give
    `amount`.
    """
    if path[:1] == ("effects",):
        return path[2:]
    return path[1:] if path[:1] == ("target",) else path


def _touches(one: Path, other: Path) -> bool:
    """Return whether two paths are equal or one contains the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _is_of_target(field: Path) -> bool:
    named = ("pre",), ("sa", "target"), ("scope", "target"), ("si", TARGET)
    return any(_touches(field, each) for each in named)


# Rule 2


def _known_values(clauses: Iterable[expressions.Clause], after: RequestContent) -> dict[Path, Any]:
    """Return the fields of the system whose value the contract takes from the request, with that value."""
    found: dict[Path, Any] = {}
    for clause in clauses:
        for theirs, ours in (clause.equal, clause.equal[::-1]) if clause.equal else ():
            if theirs[0] == "sa" and len(theirs) > 1 and ours[0] == "sr":
                value, there = _value(after.payload, ours[1:])
                found |= {theirs: value} if there else {}
    return found


def _value(payload: Any, path: Path) -> tuple[Any, bool]:
    for step in path:
        if not isinstance(payload, Mapping) or step not in payload:
            return None, False
        payload = payload[step]
    return payload, True


def _is_false(text: str, fields: Iterable[Path], known: Mapping[Path, Any], after: RequestContent) -> bool:
    """Return True if an expectation is false whatever the system answers."""
    if any(field[0] != "sr" and field not in known and field != ("si", TARGET) for field in fields):
        return False
    authority: dict[str, Any] = {}
    for path, value in known.items():
        _put_value(authority, path[1:], value)
    told = {"sr": after.payload, "si": {TARGET: after.target}, "sa": authority}
    bindings = {name: told.get(name, {}) for name in expressions.VARIABLES}
    return expressions.evaluate(expressions.compile(text), bindings).truth is Truth.FALSE


def _put_value(document: dict[str, Any], path: Path, value: Any) -> None:
    *above, name = path
    for step in above:
        inner = document.get(step)
        if not isinstance(inner, dict):
            inner = document[step] = {}
        document = inner
    document[name] = value
