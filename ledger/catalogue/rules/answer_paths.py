"""The `answers` and `answer_origin` parts of a contract: where the tool's answer shows each argument of the call, and
where the tenant and the source that it is from.

1. It maps an argument (`amount`, `address.city`) to a path into the answer: names with points between, `[]` for each
   member of a list, `[0]` or `[-1]` for one. Null says that the answer's field of that name is about something else.
2. `{"path": …, "unit": "minor"}` says what an amount of money counts there: `minor` or `major` units.
3. An argument that the tool does not take, and a path that its `result_schema` does not have, are refused with the
   names that there are.
4. `answer_origin` is for a tool that only reads and is not read back: `{"tenant": {"path": "org.id", "is": "o-7"}}`
   says which field of its answer names the tenant (or the `source`), and which one it has to name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_STEP: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)|\[(-?\d*)\]")


@dataclass(frozen=True, slots=True)
class AnswerPath:
    """The path at which an answer shows an argument; `minor`: its number counts minor units, if declared."""

    path: str
    minor: bool | None = None


def read_answers(declared: Mapping[str, Any]) -> dict[str, AnswerPath | None]:
    """The `answers` of a document that has the shape of a contract."""
    return {name: _answer_path(part) for name, part in declared.items()}


@dataclass(frozen=True, slots=True)
class OriginField:
    """The path at which an answer names its tenant or its source, and the required name."""

    path: str
    expected: str


def read_origin(declared: Mapping[str, Any]) -> dict[str, OriginField]:
    """The `answer_origin` of a document that has the shape of a contract."""
    return {name: OriginField(part["path"], part["is"]) for name, part in declared.items()}


def _answer_path(part: Any) -> AnswerPath | None:
    if part is None or isinstance(part, str):
        return None if part is None else AnswerPath(part)
    unit = part.get("unit")
    return AnswerPath(part["path"], None if unit is None else unit == "minor")


def find_at(shown: object, path: str) -> Any:
    """The value at a path of an answer; None if there is none."""
    return _walk(shown, [(match[1], match[2]) for match in _STEP.finditer(path)])


def _walk(value: Any, steps: Sequence[tuple[str | None, str | None]]) -> Any:
    for place, (name, index) in enumerate(steps):
        if name is not None:
            if not isinstance(value, Mapping):
                return None
            value = value.get(name)
        elif not isinstance(value, list | tuple):
            return None
        elif not index:
            rest = (_walk(one, steps[place + 1 :]) for one in value)
            return [one for one in rest if one is not None]
        else:
            at = int(index)
            value = value[at] if -len(value) <= at < len(value) else None
    return value


def answer_faults(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(place, fault) of each entry that names a nonexistent field (rule 3)."""
    for argument, found in read_answers(document.get("answers", {})).items():
        place = "/answers/" + argument.replace("~", "~0").replace("/", "~1")
        problem = _missing(document["arguments_schema"], argument, "The arguments have")
        if problem:
            yield place, problem
        problem = _missing(document.get("result_schema", {}), found.path, "The answer has") if found else ""
        if problem:
            yield place, problem
    origin = read_origin(document.get("answer_origin", {}))
    if origin and (document["side_effect_class"] != "READ_ONLY" or "verification" in document):
        yield "/answer_origin", "Only the answer of a tool that reads, and is not read back, is checked for its origin."
    for name, named in origin.items():
        if problem := _missing(document.get("result_schema", {}), named.path, "The answer has"):
            yield f"/answer_origin/{name}", problem


def _missing(schema: Any, path: str, said: str) -> str:
    """Explain why a path does not exist under a schema, naming those that do; empty if it may exist."""
    for match in _STEP.finditer(path):
        name = match[1]
        if name is None:
            schema = schema.get("items") if isinstance(schema, Mapping) else None
            continue
        declared = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(declared, Mapping):
            return ""
        if name not in declared:
            known = ", ".join(sorted(declared)) or "none"
            return f"{said} no field `{name}` (known: {known})."
        schema = declared[name]
    return ""
