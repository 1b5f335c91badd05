"""Expressions in contracts and policies, written in CEL: compiled, checked and evaluated (D13).

The only importer of the CEL library; all other code uses `Expression` and `Evaluation`, so that the library can be
replaced. Rules:

1. An expression is checked once, at registration: it must parse, name declared variables only, name
   only declared fields of a source whose fields are known, and (for a predicate) yield a boolean.
   Anything else is `BadExpression`.
2. An answer is TRUE, FALSE or UNDECIDABLE (R-RC-04). A missing key, a type clash, an overflow, an
   exhausted budget and a value that the evaluator cannot carry exactly are all UNDECIDABLE with a
   reason: an error is never true, and never zero.
3. Evaluation terminates: loops share a budget of 10,000 turns, nesting and length are bounded, and
   regular expressions run on an engine without backtracking. Nothing can be called but CEL's own
   functions (R-RC-05).
4. The evaluator cuts text at a NUL character, so that "a\\0b" would equal "a". Text with a NUL is
   therefore refused in expressions and makes every expression that can see it undecidable.
5. Values are JSON: integers, text, booleans, null, lists, maps. Money is an integer or text; what is
   not JSON is never passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

from ledger.catalogue.rules import expression_tree
from ledger.record.rules.refusals import Refused

VARIABLES = ("si", "sr", "so", "sa", "scope", "pre")
"""Intended, requested, observed and authoritative state, the scope, and the state before."""

MAX_TEXT = 2000
_MAX_INT = 2**63 - 1
_MAX_DEPTH = 32
_MAP = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)

Schema = Mapping[str, Any]


class BadExpression(Refused):
    """The expression is not a valid predicate."""

    code = "BAD_EXPRESSION"
    status = 422


class NoValue(Refused):
    """The expression has no value over what is known."""

    code = "NO_VALUE"
    status = 422


class Truth(StrEnum):
    """The result of a predicate."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    UNDECIDABLE = "UNDECIDABLE"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of a predicate and, where it is undecidable, the reason."""

    truth: Truth
    reason: str = ""


_TRUE, _FALSE = Evaluation(Truth.TRUE), Evaluation(Truth.FALSE)


@dataclass(frozen=True, slots=True)
class Clause:
    """One of the parts of a predicate that must all hold.

    `fields` are the chains of names that it mentions, each from its variable on; `equal` are the two that it says are
    equal, where it says nothing else.
    """

    fields: frozenset[tuple[str, ...]]
    equal: tuple[tuple[str, ...], tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A checked expression; `sides` are its two halves when it is a comparison."""

    text: str
    program: Any
    sides: tuple[Expression, str, Expression] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Bindings prepared once for the evaluation of many expressions.

    `fault` says why nothing can be decided over them, when that is so.
    """

    activation: Any
    fault: str = ""


def compile(text: str, variables: Mapping[str, Schema | None] | None = None) -> Expression:
    """The predicate in `text`, or `BadExpression` (rule 1).

    `variables` maps each name that may be used to the JSON Schema of its value, or to None where the
    fields are not known beforehand; left out, the six names of `VARIABLES` without schemas.
    """
    names = tuple(sorted(VARIABLES if variables is None else variables))
    found = _compile_halves(text, names)
    kind = found.program.return_type()
    if kind not in (cel.Type.BOOL, cel.Type.DYN):
        raise BadExpression(f"`{text}` yields {kind.name()}, not true or false.")
    if variables:
        _check_fields(text, found, variables)
    return found


def view(bindings: Mapping[str, Mapping[str, Any]]) -> View:
    """The bindings, checked and prepared for `evaluate` and `display_value`."""
    try:
        plain = {name: _plain(value, 0) for name, value in bindings.items()}
        return View(_environment(tuple(sorted(plain))).Activation(plain))
    except _Unfit as problem:
        return View(None, str(problem))


def evaluate(expression: Expression, shown: View | Mapping[str, Mapping[str, Any]]) -> Evaluation:
    """Evaluate a predicate over these bindings (rules 2 to 4)."""
    value, reason = _run(expression, shown)
    if reason:
        return Evaluation(Truth.UNDECIDABLE, reason)
    if value is True:
        return _TRUE
    if value is False:
        return _FALSE
    return Evaluation(Truth.UNDECIDABLE, f"The value is {value!r:.80}, neither true nor false.")


def display_value(expression: Expression, shown: View | Mapping[str, Mapping[str, Any]]) -> Any:
    """The value of an expression for display; None when it has none."""
    value, _ = _run(expression, shown)
    return value


def evaluate_value(text: str, bindings: Mapping[str, Mapping[str, Any]]) -> Any:
    """The value of a lookup parameter; `NoValue` if it cannot be determined, `BadExpression` if it is invalid.

    Only text, integers and booleans can be a parameter: an absent or structured one would widen a lookup.
    """
    found, reason = _run(_compile_halves(text, tuple(sorted(bindings))), bindings)
    if reason:
        raise NoValue(f"`{text}` has no value: {reason}")
    if not isinstance(found, str | int):
        raise NoValue(f"`{text}` is {found!r:.80}, and not text, an integer, true or false.")
    return found


def check_value(text: str, variables: tuple[str, ...]) -> None:
    """Refuse a lookup parameter that could never have a value over these variables."""
    kind = _compile_halves(text, tuple(sorted(variables))).program.return_type()
    if kind not in (cel.Type.STRING, cel.Type.INT, cel.Type.BOOL, cel.Type.DYN):
        raise BadExpression(f"`{text}` yields {kind.name()}, which cannot be a parameter.")


def fields_of(text: str, variable: str, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of one variable that a predicate uses, by name and sorted."""
    tree = _tree(_compile_halves(text, tuple(sorted(variables))).program)
    return tuple(sorted({path[1] for path in expression_tree.paths(tree) if path[0] == variable and path[1:]}))


def paths_of(text: str, variable: str, variables: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The paths below one variable that an expression names, sorted: `sa.effects.refund` is ("effects", "refund")."""
    tree = _tree(_compile_halves(text, tuple(sorted(variables))).program)
    return tuple(sorted({path[1:] for path in expression_tree.paths(tree) if path[0] == variable}))


def clauses_of(text: str) -> tuple[Clause, ...]:
    """The parts of a predicate over `VARIABLES` that must all hold, with the fields that each one mentions."""
    tree = _tree(_compile_halves(text, tuple(sorted(VARIABLES))).program)
    return tuple(
        Clause(frozenset(expression_tree.paths(part)), expression_tree.equated_paths(part))
        for part in expression_tree.clauses(tree)
    )


@lru_cache(maxsize=4096)
def variables_of(texts: tuple[str, ...]) -> frozenset[str]:
    """The variables in these predicates; all variables for one that does not compile."""
    try:
        trees = [_tree(_compile_halves(text, tuple(sorted(VARIABLES))).program) for text in texts]
    except BadExpression:
        return frozenset(VARIABLES)
    return frozenset(path[0] for tree in trees for path in expression_tree.paths(tree))


class _Unfit(ValueError):
    """A value that the evaluator cannot carry exactly."""


def _run(expression: Expression, shown: View | Mapping[str, Mapping[str, Any]]) -> tuple[Any, str]:
    ready = shown if isinstance(shown, View) else view(shown)
    if ready.fault:
        return None, ready.fault
    try:
        result = expression.program.eval(ready.activation)
    except RuntimeError as problem:
        return None, _sentence(str(problem))
    found = result.plain_value()
    # Only text can be an error in disguise: asking for the type of each answer costs as much as the answer.
    if isinstance(found, str) and result.type() == cel.Type.ERROR:
        return None, _sentence(found)
    return found, ""


def _sentence(message: str) -> str:
    _, _, detail = message.partition(": ")
    return " ".join((detail or message).split())[:200] or "the evaluator gave no reason"


@lru_cache(maxsize=64)
def _environment(names: tuple[str, ...]) -> Any:
    return cel.NewEnv(variables=dict.fromkeys(names, _MAP))


@lru_cache(maxsize=8192)
def _compile_halves(text: str, names: tuple[str, ...]) -> Expression:
    whole = _compile(text, names)
    tree = _tree(whole)
    if any("\0" in literal for literal in expression_tree.string_literals(tree)):
        raise BadExpression("An expression cannot hold a NUL character.")
    halves = expression_tree.comparison_sides(tree, text)
    if halves is None:
        return Expression(text, whole)
    left, sign, right = halves
    try:
        sides = Expression(left, _compile(left, names)), sign, Expression(right, _compile(right, names))
    except BadExpression:  # a half need not stand alone; it is for display only
        return Expression(text, whole)
    return Expression(text, whole, sides)


def _compile(text: str, names: tuple[str, ...]) -> Any:
    if len(text) > MAX_TEXT:
        raise BadExpression(f"The expression is longer than {MAX_TEXT} characters.")
    try:
        _text(text, 0)
    except _Unfit as problem:
        raise BadExpression(str(problem)) from None
    try:
        return _environment(names).compile(text)
    except RuntimeError as problem:
        first = str(problem).split("\n")[0].removeprefix("INVALID_ARGUMENT: ")
        known = f" Known: {', '.join(names)}." if "undeclared reference" in first else ""
        raise BadExpression(f"`{text:.200}` does not compile: {first[:300]}.{known}") from None


def _tree(program: Any) -> expression_tree.Tree:
    return expression_tree.read(program.serialize())


def _check_fields(text: str, found: Expression, variables: Mapping[str, Schema | None]) -> None:
    for name, *fields in expression_tree.paths(_tree(found.program)):
        schema = variables.get(name)
        for depth, part in enumerate(fields):
            if schema is None or "properties" not in schema:
                break
            if part not in schema["properties"]:
                known = ", ".join(sorted(schema["properties"])) or "none"
                where = ".".join((name, *fields[:depth]))
                raise BadExpression(f"`{text:.200}`: {where} has no field `{part}` (known: {known}).")
            inner = schema["properties"][part]
            schema = inner if isinstance(inner, Mapping) else None


def _plain(value: Any, depth: int) -> Any:
    """The value in types that the evaluator carries exactly (rules 4 and 5)."""
    reader = _READERS.get(type(value)) or _reader(value)
    return reader(value, depth)


def _text(value: str, _depth: int) -> str:
    if "\0" in value:
        raise _Unfit("A text holds a NUL character, at which the evaluator would cut it.")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise _Unfit("A text holds half a character (a lone surrogate).")
    return value


def _integer(value: int, _depth: int) -> int:
    if not -_MAX_INT - 1 <= value <= _MAX_INT:
        raise _Unfit("A number is larger than the evaluator can carry.")
    return value


def _itself(value: bool | None, _depth: int) -> bool | None:
    return value


def _map(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    _check_depth(depth)
    return {_name(key): _plain(item, depth + 1) for key, item in value.items()}


def _list(value: Iterable[Any], depth: int) -> list[Any]:
    _check_depth(depth)
    return [_plain(item, depth + 1) for item in value]


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise _Unfit("A name is not text.")
    return _text(str(key), 0)


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _Unfit(f"The values are nested deeper than {_MAX_DEPTH} levels.")


def _reader(value: Any) -> Callable[[Any, int], Any]:
    """For the relatives of JSON's types: an enum's text, a read-only map."""
    if isinstance(value, str):
        return lambda text, depth: _text(str(text), depth)
    if isinstance(value, Mapping):
        return _map
    raise _Unfit(f"A value of type {type(value).__name__} is not JSON without fractions.")


_READERS: dict[type, Callable[[Any, int], Any]] = {
    str: _text,
    int: _integer,
    bool: _itself,
    type(None): _itself,
    dict: _map,
    list: _list,
    tuple: _list,
}
