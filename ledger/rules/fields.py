"""What was asked beside what is shown, field by field: the one comparison of the console, its guard and its audit.

1. Each argument is a field, one inside an object by its path (`address.city`), a list as a whole. What an answer or a
   reading shows of it is found by its name, or where the contract says it is: `answers`.
2. By name a field is looked for at the top of what is shown, in an object that only wraps it (`result`, `data`,
   `evidence`) and in one that is named as the tool's own thing (`refund` of `issue_refund`). Never elsewhere and never
   in a list: the same name means another thing there (who paid first, every line of a delivery).
3. `answers` maps an argument to a path in the answer (`refund.total`, `items[].id`, `payments[-1].method`), or to null
   where the answer's field of that name means something else. With `unit` the answer's number counts `minor` or `major`
   units of the currency, and an integer that was asked for counts minor units.
4. Names that an answer uses for itself (`message`, `id`, `type`) may agree; that they differ says nothing, unless the
   contract declares them. Nor does a status that says only that the call went well or goes on.
5. The reading wins over the answer where it tells; else the answer stands. What nothing shows is neither the same nor
   different (`same` None).
6. Of a tool that adds to a number (`deposit`, `increase`) numbers are changes: another number is no difference.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ledger.catalogue.rules.money import MONEY, decimal_places, is_currency
from ledger.rules.answer_paths import AnswerPath, find_at
from ledger.rules.value_comparison import Notation, fold_text, same_value

if TYPE_CHECKING:
    from ledger.catalogue.rules.contract import Contract

MOST_FIELDS: Final = 200
_DEPTH: Final = 4
# fmt: off
_WRAPPERS: Final = frozenset((
    "result", "data", "evidence", "response", "output", "body", "payload", "structuredcontent", "record", "resource",
    "object", "item", "details", "attributes", "fields", "after", "updated",
))
_OF_THE_ANSWER: Final = frozenset((
    "id", "code", "type", "kind", "object", "key", "version", "count", "message", "note", "notes", "reason", "comment",
    "summary", "text", "content", "body", "query", "limit", "page", "offset", "cursor", "fields", "format", "dryrun",
    "confirm", "force", "verbose", "timeout", "thought", "password", "token", "result", "data", "output", "success",
))
_STATUS: Final = frozenset(("status", "state", "result", "outcome"))
_WENT_WELL: Final = frozenset((
    "success", "succeeded", "successful", "ok", "okay", "done", "accepted", "queued", "submitted", "received",
    "processing", "pending", "inprogress", "200", "201", "202",
))
_ADDS: Final = frozenset((
    "add", "increase", "decrease", "deposit", "withdraw", "increment", "decrement", "adjust", "move", "topup",
))
# fmt: on
_WORDS: Final = re.compile(r"[_.\-/:\s]+|(?<=[a-z0-9])(?=[A-Z])")


class Source(StrEnum):
    """Who shows a value."""

    ANSWER = "answer"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Field:
    """One argument and what is shown of it. `same` is None where nothing shows it or it cannot be told."""

    name: str
    asked: Any
    shown: Any = None
    same: bool | None = None
    source: Source | None = None
    path: str = ""

    @property
    def differs(self) -> bool:
        """Whether another value is shown than was asked for."""
        return self.same is False


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str
    value: Any
    notation: Notation
    answer_path: AnswerPath | None
    hidden: bool
    steps: tuple[str, ...]


def compare_fields(
    arguments: Mapping[str, Any],
    *,
    contract: Contract | None,
    answer: Any = None,
    reading: Any = None,
) -> tuple[Field, ...]:
    """Each argument of a call with what the answer, then the reading show of it, in the order of the arguments.

    `answer` and `reading` are what came back as JSON values; None where nothing did.
    """
    things = _things(contract)
    adds = contract is not None and _ADDS.issuperset(_words(contract.name)[:1])
    found = []
    for asked in _asked(arguments, contract):
        told = [
            _compared(asked, shown, source, things, adds=adds)
            for source, shown in ((Source.READ, reading), (Source.ANSWER, answer))
        ]
        decided = next((one for one in told if one.same is not None), None)
        found.append(decided or next((one for one in told if one.source is not None), told[0]))
        if len(found) >= MOST_FIELDS:
            break
    return tuple(found)


def notations(arguments: Mapping[str, Any], contract: Contract | None) -> dict[str, Notation]:
    """How the values of each argument are written, by its name."""
    return {each.name: each.notation for each in _asked(arguments, contract)}


def _asked(arguments: Mapping[str, Any], contract: Contract | None) -> Iterator[_Asked]:
    declared = contract.answers if contract is not None else {}
    schema: Mapping[str, Any] = contract.arguments_schema if contract is not None else {}
    currency = next((value for name, value in arguments.items() if fold_text(name).endswith("currency")), None)
    digits = decimal_places(str(currency)) if is_currency(currency) else None
    for steps, value, part in _leaves(arguments, schema, ()):
        name = ".".join(steps)
        where = declared.get(name)
        notation = Notation(
            choices=tuple(part["enum"]) if isinstance(part.get("enum"), list) else (),
            in_order="prefixItems" in part,
            is_money=bool(set(_words(steps[-1])) & MONEY),
            minor=where.minor if where is not None else None,
            places=digits,
        )
        yield _Asked(name, value, notation, where, name in declared and where is None, steps)


def _leaves(
    value: Mapping[str, Any], schema: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any, Mapping[str, Any]]]:
    declared = schema.get("properties")
    for name, one in value.items():
        part = declared.get(name) if isinstance(declared, Mapping) else None
        part = part if isinstance(part, Mapping) else {}
        if isinstance(one, Mapping) and one and len(above) < _DEPTH:
            yield from _leaves(one, part, (*above, str(name)))
        else:
            yield (*above, str(name)), one, part


def _compared(asked: _Asked, shown: Any, source: Source, things: Collection[str], *, adds: bool) -> Field:
    silent = Field(asked.name, asked.value)
    if shown is None or asked.hidden:
        return silent
    if asked.answer_path is not None:
        path, found = asked.answer_path.path, find_at(shown, asked.answer_path.path)
    else:
        path, found = _by_name(shown, asked.steps, things)
    if found is None:
        return silent
    same = same_value(asked.value, found, asked.notation)
    if same is False and asked.answer_path is None and _says_nothing(asked, found, adds=adds):
        same = None
    return replace(silent, shown=found, same=same, source=source, path=path)


def _says_nothing(asked: _Asked, found: Any, *, adds: bool) -> bool:
    """Whether another value under the same name need not be about what was asked (rules 4 and 6)."""
    last = fold_text(asked.steps[-1])
    if last in _OF_THE_ANSWER or (last in _STATUS and fold_text(found) in _WENT_WELL):
        return True
    return adds and isinstance(asked.value, int | float)


def _by_name(shown: Any, steps: tuple[str, ...], things: Collection[str]) -> tuple[str, Any]:
    """Where a field stands by its name, and its value; of several places that do not agree none counts (rule 2)."""
    holders = [("", shown)]
    for _ in range(_DEPTH):
        found = [each for holder in holders if (each := _inside(*holder, steps))[1] is not None]
        if found:
            return found[0] if all(same_value(found[0][1], one) for _, one in found[1:]) else ("", None)
        holders = [
            (f"{path}.{name}".lstrip("."), below)
            for path, one in holders
            if isinstance(one, Mapping)
            for name, below in one.items()
            if isinstance(below, Mapping) and fold_text(name) in things
        ]
    return "", None


def _inside(path: str, value: Any, steps: tuple[str, ...]) -> tuple[str, Any]:
    """The value under these names, however they are spelled (`orderId`, `order_id`), and its path."""
    for step in steps:
        if not isinstance(value, Mapping):
            return "", None
        name = step if step in value else next((one for one in value if fold_text(one) == fold_text(step)), None)
        if name is None:
            return "", None
        path, value = f"{path}.{name}".lstrip("."), value[name]
    return path, value


def _things(contract: Contract | None) -> frozenset[str]:
    """The names of objects in which a tool shows its own thing, folded: wrappers, and the words of the tool."""
    if contract is None:
        return _WRAPPERS
    rest = _words(contract.name)[1:]
    kind = contract.target_template.partition("/")[0]
    named = {*rest, kind, "".join(rest), *contract.required_effects, contract.operation_kind}
    folded = {fold_text(one) for one in named if one and "{" not in one}
    return _WRAPPERS | folded | {one.removesuffix("s") for one in folded} | {f"{one}s" for one in folded}


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.split(name) if word]
