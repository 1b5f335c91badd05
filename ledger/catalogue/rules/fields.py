"""Compares the requested fields of a call with those in answers and readings.

The console, the completion guard and the audit of transcripts all use this comparison.

1. Each argument is a field, one inside an object by its path (`address.city`), a list as a whole. What an answer or a
   reading shows of it is found by its name, or where the contract says it is: `answers`.
2. By name a field is looked for at the top of what is shown, in an object that only wraps it (`result`, `data`,
   `evidence`) and in one that is named as the tool's own thing (`refund` of `issue_refund`; `account` of
   `upgrade_plan(account_id)`), or that shows two arguments or more and one of them as asked. Never elsewhere and never
   in a list: the same name means another thing there (who paid first, every line of a delivery). A name that stands
   nowhere may have the verb of the tool before it: the `cancel_reason` of `cancel_order(reason)`.
3. `answers` maps an argument to a path in the answer (`refund.total`, `items[].id`, `payments[-1].method`), or to null
   where the answer's field of that name means something else. With `unit` the answer's number counts `minor` or `major`
   units of the currency, and an integer that was asked for counts minor units.
4. Names that an answer uses for itself (`message`, `id`, `type`) may agree; that they differ says nothing, unless the
   contract declares them. Nor does a status that says only that the call went well or goes on.
5. The reading wins over the answer where it tells; else the answer stands. What nothing shows is neither the same nor
   different (`same` None).
6. Of a tool that adds to a number (`deposit`, `increase`) numbers are changes: another number is no difference. Of one
   that moves a thing, the place that it was asked to take it from is not where it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ledger.catalogue.rules.answer_paths import AnswerPath, find_at
from ledger.catalogue.rules.money import MONEY, decimal_places, is_currency
from ledger.catalogue.rules.value_comparison import Notation, fold_text, same_value

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
_OF_ANY_DEED: Final = frozenset(("id", "date", "time", "at", "by", "type", "code", "number", "status", "name", "url"))
"""With a verb before them they say when, by whom or as what something was done."""
_STATUS: Final = frozenset(("status", "state", "result", "outcome"))
_WENT_WELL: Final = frozenset((
    "success", "succeeded", "successful", "ok", "okay", "done", "accepted", "queued", "submitted", "received",
    "processing", "pending", "inprogress", "200", "201", "202",
))
_ADDS: Final = frozenset((
    "add", "increase", "decrease", "deposit", "withdraw", "increment", "decrement", "adjust", "move", "topup",
))
SETS: Final = frozenset((
    "update", "modify", "change", "set", "edit", "assign", "switch", "upgrade", "downgrade", "patch", "put",
    "reschedule", "enable", "disable", "rename", "move",
))
"""What these do, they do to the thing that an argument names."""
_MOVES: Final = frozenset(("rename", "move", "copy"))
_PLACES: Final = frozenset(("path", "file", "filename", "source", "url", "location", "folder", "name"))
_SHARES: Final = frozenset(("percent", "percentage", "rate", "ratio", "share", "probability", "discount"))
# fmt: on
_WORDS: Final = re.compile(r"[_.\-/:\s]+|(?<=[a-z0-9])(?=[A-Z])")


class FieldSource(StrEnum):
    """The source of a value: the answer or a reading."""

    ANSWER = "answer"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Field:
    """One argument and its shown value; `same` is None if nothing shows it or the two cannot be compared."""

    name: str
    asked: Any
    shown: Any = None
    same: bool | None = None
    source: FieldSource | None = None
    path: str = ""

    @property
    def differs(self) -> bool:
        """Return whether a value other than the requested one is shown."""
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
    answer: object = None,
    reading: object = None,
) -> tuple[Field, ...]:
    """Compare each argument of a call with the answer, then with the reading, in the order of the arguments.

    `answer` and `reading` are what came back as JSON values; None where nothing did.
    """
    every = tuple(islice(_requested_fields(arguments, contract), MOST_FIELDS))
    things = _things(contract)
    verb = next(iter(_words(contract.name)), "") if contract is not None else ""
    if verb in SETS:
        things |= {part for name in arguments if _words(name)[-1:] == ("id",) for part in _words(name)[:-1]}
    sources = [
        (source, shown, _levels(shown, things, every))
        for source, shown in ((FieldSource.READ, _without_target(reading)), (FieldSource.ANSWER, answer))
        if shown is not None
    ]
    found = []
    for asked in every:
        told = [_compare_field(asked, shown, source, levels, verb) for source, shown, levels in sources]
        shown_anywhere = [one for one in told if one.source is not None]
        decided = (one for one in shown_anywhere if one.same is not None)
        found.append(next(decided, None) or next(iter(shown_anywhere), Field(asked.name, asked.value)))
    return tuple(found)


def _without_target(reading: Any) -> Any:
    """A reading of effects without the state of their target: an order's amount is not that of its refund."""
    if not isinstance(reading, Mapping) or "effects" not in reading:
        return reading
    return {name: value for name, value in reading.items() if name != "target"}


def notations(arguments: Mapping[str, Any], contract: Contract | None) -> dict[str, Notation]:
    """The notation of each argument's values, by name."""
    return {each.name: each.notation for each in _requested_fields(arguments, contract)}


def _requested_fields(arguments: Mapping[str, Any], contract: Contract | None) -> Iterator[_Asked]:
    declared = contract.answers if contract is not None else {}
    schema: Mapping[str, Any] = contract.arguments_schema if contract is not None else {}
    currency = next((value for name, value in arguments.items() if fold_name(name).endswith("currency")), None)
    digits = decimal_places(str(currency)) if is_currency(currency) else None
    for steps, value, part in _leaves(arguments, schema, ()):
        name = ".".join(steps)
        where = declared.get(name)
        notation = Notation(
            choices=tuple(part["enum"]) if isinstance(part.get("enum"), list) else (),
            in_order="prefixItems" in part,
            is_money=bool(set(_words(steps[-1])) & MONEY),
            is_share=bool(set(_words(steps[-1])) & _SHARES),
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


def _compare_field(asked: _Asked, shown: Any, source: FieldSource, levels: list[list[_Holder]], verb: str) -> Field:
    silent = Field(asked.name, asked.value)
    if asked.hidden:
        return silent
    if asked.answer_path is not None:
        path, found = asked.answer_path.path, find_at(shown, asked.answer_path.path)
    else:
        path, found = _find_by_name(levels, asked.steps)
    is_of_deed = found is None and bool(verb) and fold_name(asked.steps[-1]) not in _OF_ANY_DEED
    if is_of_deed and asked.answer_path is None:
        path, found = _find_by_name(levels, (*asked.steps[:-1], f"{verb}_{asked.steps[-1]}"))
    if found is None:
        return silent
    same = same_value(asked.value, found, asked.notation)
    if same is False and asked.answer_path is None and not is_of_deed and _says_nothing(asked, found, verb):
        same = None
    return replace(silent, shown=found, same=same, source=source, path=path)


def _says_nothing(asked: _Asked, found: Any, verb: str) -> bool:
    """Return whether another value under the same name need not refer to the argument (rules 4 and 6)."""
    last = fold_name(asked.steps[-1])
    if last in _OF_THE_ANSWER or is_mere_success(last, found):
        return True
    return (verb in _ADDS and isinstance(asked.value, int | float)) or (verb in _MOVES and last in _PLACES)


def is_mere_success(name: str, value: Any) -> bool:
    """Return True if a field only says that the call succeeded or is in progress."""
    return fold_name(name) in _STATUS and fold_text(value) in _WENT_WELL


@dataclass(frozen=True, slots=True)
class _Holder:
    """An object searched for fields, its path, and the notation of its names."""

    path: str
    value: Mapping[str, Any]
    names: Mapping[str, str]


def _holder(path: str, value: Mapping[str, Any]) -> _Holder:
    return _Holder(path, value, {fold_name(str(name)): name for name in value})


def _levels(shown: Any, things: Collection[str], every: Collection[_Asked]) -> list[list[_Holder]]:
    """Return the objects in which fields are searched, from the top down (rule 2)."""
    level = [_holder("", shown)] if isinstance(shown, Mapping) else []
    levels: list[list[_Holder]] = []
    while level and len(levels) < _DEPTH:
        levels.append(level)
        below = [
            (fold_name(str(name)), _holder(f"{each.path}.{name}".lstrip("."), value))
            for each in level
            for name, value in each.value.items()
            if isinstance(value, Mapping)
        ]
        level = [holder for name, holder in below if name in things or _shows_several(holder, every)]
    return levels


def _shows_several(holder: _Holder, every: Collection[_Asked]) -> bool:
    """Return whether an object shows several of the arguments, and one of them as requested."""
    found = [(asked, value) for asked in every if (value := _inside(holder, asked.steps)[1]) is not None]
    return len(found) > 1 and any(same_value(asked.value, value, asked.notation) for asked, value in found)


def _find_by_name(levels: list[list[_Holder]], steps: tuple[str, ...]) -> tuple[str, Any]:
    """Find a field by its name; return its path and value, or none if several places disagree."""
    for level in levels:
        found = [each for holder in level if (each := _inside(holder, steps))[1] is not None]
        if found:
            return found[0] if all(same_value(found[0][1], one) for _, one in found[1:]) else ("", None)
    return "", None


def _inside(holder: _Holder, steps: tuple[str, ...]) -> tuple[str, Any]:
    """The value under these names, however they are spelled (`orderId`, `order_id`), and its path."""
    name = holder.names.get(fold_name(steps[0]))
    if name is None:
        return "", None
    path, value = f"{holder.path}.{name}".lstrip("."), holder.value[name]
    if len(steps) == 1:
        return path, value
    return _inside(_holder(path, value), steps[1:]) if isinstance(value, Mapping) else ("", None)


@lru_cache(maxsize=1024)
def _things(contract: Contract | None) -> frozenset[str]:
    """The folded names of objects in which a tool returns its own object: wrappers, and the words of the tool."""
    if contract is None:
        return _WRAPPERS
    rest = _words(contract.name)[1:]
    kind = contract.target_template.partition("/")[0]
    named = {*rest, kind, "".join(rest), *contract.required_effects, contract.operation_kind}
    named |= {f"{word}ing" for word in _words(contract.name)[:1]}
    folded = {fold_name(one) for one in named if one and "{" not in one}
    return _WRAPPERS | folded | {one.removesuffix("s") for one in folded} | {f"{one}s" for one in folded}


@lru_cache(maxsize=4096)
def fold_name(name: str) -> str:
    """A name for comparing, however it is spelled."""
    return fold_text(name)


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORDS.split(name) if word)
