"""Malformed calls: the kind of mistake in a call, and how to correct it.

A mistake is an answer, not an error: the session goes on (R-MC-05, R-MC-21). Kinds, in the order they are looked for:

| code | when |
|---|---|
| UNPARSEABLE_ARGUMENTS | no JSON or no object (R-MC-07), or a value without a canonical form (error NOT_CANONICAL) |
| TYPE_COERCION | an extra wrapping object, or the right name with the wrong type (R-MC-04) |
| SCHEMA_DRIFT | a wrong parameter name; the answer names the real one (R-MC-03) |
| ARGUMENT_HALLUCINATION | an admissible parameter with an inadmissible value; the allowed ones are listed (R-MC-02) |

PHANTOM_TOOL and UNDISCLOSED_TOOL are the gate's, which knows the session (R-TG-10). Nothing is converted or repaired
here but the notation of whole numbers; what a contract may opt into is in `coercion` (C-38). Messages name parameters,
types and allowed values out of the contract; of what was sent they repeat no value, and names only after `shown` made
them harmless (R-MC-13).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from ledger.catalogue.rules.contract import Contract
from ledger.record.rules.canonical import MAX_BYTES, MAX_DEPTH, NotCanonical, canonical, read

UNPARSEABLE = "UNPARSEABLE_ARGUMENTS"
COERCED = "TYPE_COERCION"
DRIFTED = "SCHEMA_DRIFT"
HALLUCINATED = "ARGUMENT_HALLUCINATION"

_SEVERITY = {DRIFTED: 0, COERCED: 1, HALLUCINATED: 2}
_NAME_KEYWORDS = frozenset({"additionalProperties", "unevaluatedProperties", "propertyNames", "required"})
_BRANCHES = frozenset({"anyOf", "oneOf"})
_MAX_ERRORS = 20
_MAX_PROBLEMS = 200
_MAX_ALLOWED = 50
_MAX_AROUND = 4
_MOST_WORK = 2_000_000
"""Values by bytes of arguments whose every mistake is looked for."""


@dataclass(frozen=True)
class Malformed:
    """One kind of mistake with every instance of it, and the suggested correction."""

    code: str
    message: str
    hint: str = ""
    suggestion: str | None = None
    errors: tuple[Mapping[str, Any], ...] = ()
    layer: str = ""


def safe_name(name: str) -> str:
    """A name out of a call, cut and stripped of everything that could pose as more than a name."""
    plain = "".join(one if one.isascii() and one.isprintable() and one not in "`\"'<>" else "?" for one in name)
    return plain if len(plain) <= 64 else plain[:61] + "..."


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that `name` probably means, or None if none is similar."""
    pool = sorted(candidates)
    folded = {_fold_name(one): one for one in reversed(pool)}
    close = difflib.get_close_matches(_fold_name(name)[:128], folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def read_arguments(raw: object) -> dict[str, Any] | Malformed:
    """The arguments of a call, sent as an object or as a text of JSON.

    A whole number is one in any notation: `1.0` and `1e3` are 1 and 1000. What has no canonical form is refused by its
    path.
    """
    value: Any = _canonical_object(raw)
    if value is not None:
        return dict(value)
    value = raw
    if isinstance(raw, str):
        if len(raw) > MAX_BYTES:
            return _not_canonical("", f"The arguments are larger than {MAX_BYTES} bytes.", "Send less at a time.")
        try:
            value = _DECODER.decode(raw)
        except (ValueError, RecursionError):
            return Malformed(UNPARSEABLE, "The arguments are not JSON.", "Send one JSON object of parameters.")
    if not isinstance(value, dict):
        detail = f"The arguments are {_WORDS[type_of(value)]}, not an object."
        return Malformed(UNPARSEABLE, detail, "Send one JSON object of parameters.")
    try:
        plain: dict[str, Any] = _plain(value, "", 0)
        canonical(plain)
    except _Odd as odd:
        return _not_canonical(*odd.args)
    except NotCanonical as refusal:
        return _not_canonical("", refusal.detail, _AS_TEXT)
    return plain


def _canonical_object(raw: object) -> dict[str, Any] | None:
    """Return an object that is canonical already, as nearly all are."""
    try:
        value = read(raw) if isinstance(raw, str) else raw
        return value if isinstance(value, dict) and canonical(value) else None
    except NotCanonical:
        return None


class _Odd(Exception):
    """A value without a canonical form: its path, the reason, and the hint."""


class _Repeated(dict[str, Any]):
    """An object that names a member twice, which is its `name`."""

    name = ""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeated, seen = _Repeated(value), set()
    for name, _ in pairs:
        if name in seen:
            repeated.name = name
            break
        seen.add(name)
    return repeated


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal("NaN")


# Python refuses to read very long integers, and rounds what is no integer.
_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_int=_decimal, parse_float=_decimal, parse_constant=_decimal)
_AS_TEXT = "Send decimals and large numbers as strings."


def _plain(value: Any, path: str, depth: int) -> Any:
    """The value with each whole number as an integer; raise `_Odd` if it has no canonical form."""
    if depth > MAX_DEPTH:
        raise _Odd(path, f"`{_name(path)}` is nested deeper than {MAX_DEPTH} levels.", "Send a flatter object.")
    if isinstance(value, float | Decimal):
        return _whole(Decimal(value), path)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MOST:
        raise _Odd(path, f"`{_name(path)}` lies outside ±(2^53 - 1).", f"Send `{_name(path)}` as a string.")
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, _Repeated):
        twice = f"{path}/{safe_name(value.name)}"
        raise _Odd(twice, f"`{_name(twice)}` is given twice.", f"Send `{_name(twice)}` once.")
    if isinstance(value, dict):
        for name in value:
            _text(name, path)
        return {name: _plain(part, f"{path}/{safe_name(name)}", depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{path}/{place}", depth + 1) for place, part in enumerate(value)]
    return value


def _whole(value: Decimal, path: str) -> int:
    name = _name(path)
    if value.is_nan() or abs(value) > _MOST:
        what = "is not a number" if value.is_nan() else "lies outside ±(2^53 - 1)"
        raise _Odd(path, f"`{name}` {what}.", f"Send `{name}` as a string, if its tool takes one.")
    if value != int(value):
        hint = f"Send `{name}` as a whole number, or as a string, if its tool takes one."
        raise _Odd(path, f"`{name}` has a fraction, which has no canonical form.", hint)
    return int(value)


def _text(value: str, path: str) -> str:
    if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
        raise _Odd(path, f"`{_name(path)}` holds a lone surrogate, which is no Unicode.", "Send whole characters.")
    return value


def _not_canonical(path: str, detail: str, hint: str) -> Malformed:
    error = {"path": path or "/arguments", "code": NotCanonical.code, "detail": detail, "hint": hint}
    return Malformed(UNPARSEABLE, detail, hint, None, (error,))


def find_mistake(
    arguments: dict[str, Any], *, schema: Mapping[str, Any], validator: Draft202012Validator
) -> Malformed | None:
    """The worst kind of mistake in arguments that were read, or None when they fit the schema (R-TC-04)."""
    if validator.is_valid(arguments):
        return None
    declared = schema.get("properties", {})
    found = unwrap_arguments(arguments, declared)
    if found is not None:
        wrapper, _ = found
        detail = f"The parameters are wrapped in `{safe_name(wrapper)}`."
        error = {"path": f"/{safe_name(wrapper)}", "code": COERCED, "detail": detail, "expected": sorted(declared)}
        return Malformed(COERCED, detail, "Send the parameters themselves, without a wrapping object.", None, (error,))
    problems = _problems(arguments, validator)
    errors = [error for problem in problems for error in _errors(problem, arguments, schema)]
    errors.sort(key=lambda error: (_SEVERITY[error["code"]], error["path"]))
    worst = errors[0]
    hints = [error["hint"] for error in errors if error["code"] == worst["code"] and error.get("hint")]
    suggestion = next((error["suggestion"] for error in errors if error.get("suggestion")), None)
    return Malformed(
        worst["code"], worst["detail"], " ".join(dict.fromkeys(hints)), suggestion, tuple(errors[:_MAX_ERRORS])
    )


def _problems(arguments: dict[str, Any], validator: Draft202012Validator) -> list[ValidationError]:
    """The first problems; of arguments with many values and much text the very first alone.

    The validator finds all before it tells one, and keeps the whole object with each: their number by their size is
    what a call of nothing but mistakes would cost.
    """
    # As Python writes them: fractions have no canonical form.
    if _count_values(arguments) * len(repr(arguments)) <= _MOST_WORK:
        return list(islice(validator.iter_errors(arguments), _MAX_PROBLEMS))
    try:
        validator.validate(arguments)
    except ValidationError as first:
        return [first]
    return []


def _count_values(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count_values, value.values()))
    return 1 + sum(map(_count_values, value)) if isinstance(value, list) else 1


def _fold_name(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def unwrap_arguments(arguments: dict[str, Any], declared: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """An extra object around the parameters: its name, and the parameters in it.

    Nothing beside it is a parameter, so that nothing is lost; what stands there are the few words of a whole call that
    was sent as its own arguments (`{"name": "issue_refund", "arguments": {...}}`). It may hold them as text of JSON.
    """
    if not arguments or len(arguments) > _MAX_AROUND or arguments.keys() & declared.keys():
        return None
    inner = {name: value for name, sent in arguments.items() if (value := _parameters(sent, declared)) is not None}
    return next(iter(inner.items())) if len(inner) == 1 else None


def _parameters(sent: Any, declared: Mapping[str, Any]) -> dict[str, Any] | None:
    if isinstance(sent, str) and sent.lstrip()[:1] == "{":
        try:
            sent = read(sent)
        except NotCanonical:
            return None
    return sent if isinstance(sent, dict) and sent and sent.keys() <= declared.keys() else None


def _errors(problem: ValidationError, arguments: dict[str, Any], schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    keyword = problem.kind.name
    if keyword in _NAME_KEYWORDS:
        yield from _name_errors(problem, arguments, schema)
    elif keyword == "type":
        yield _type_error(problem)
    elif keyword in _BRANCHES:
        yield _branch_error(problem)
    else:
        yield _value_error(problem)


def _name_errors(
    problem: ValidationError, arguments: dict[str, Any], schema: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    path, facts = _path(problem), problem.kind.as_dict()
    top = not list(problem.instance_path)
    declared = schema.get("properties", {})
    if problem.kind.name == "required":
        name = facts["property"]
        yield _error(f"{path}/{safe_name(name)}", DRIFTED, f"The parameter `{safe_name(name)}` is missing.")
        return
    sent = problem.instance if isinstance(problem.instance, dict) else {}
    for name in facts.get("unexpected", sorted(sent)[:1])[:_MAX_ERRORS]:
        meant = _real_name(name, arguments, schema) if top else None
        error = _error(f"{path}/{safe_name(name)}", DRIFTED, f"`{safe_name(name)}` is not a parameter here.")
        if meant is not None:
            error |= {"suggestion": meant, "hint": f"Use `{meant}` instead of `{safe_name(name)}`."}
        elif top:
            error["hint"] = "The parameters are: " + ", ".join(f"`{one}`" for one in sorted(declared)) + "."
        yield error


def _real_name(name: str, arguments: dict[str, Any], schema: Mapping[str, Any]) -> str | None:
    """The real name of an unknown parameter: the nearest one, or the only missing one."""
    declared = schema.get("properties", {})
    near = nearest_name(name, [one for one in declared if one not in arguments])
    wanted = [one for one in schema.get("required", []) if one not in arguments]
    unknown = len(arguments.keys() - declared.keys())
    if near is None and len(wanted) == unknown == 1:
        return str(wanted[0])
    return near


def _type_error(problem: ValidationError) -> dict[str, Any]:
    expected = sorted(problem.kind.as_dict()["types"])
    path, wanted = _path(problem), " or ".join(_WORDS.get(one, one) for one in expected)
    got = _WORDS[type_of(problem.instance)]
    error = _error(path, COERCED, f"`{_name(path)}` must be {wanted}, not {got}.")
    return error | {"expected": expected, "hint": f"Send `{_name(path)}` as {wanted}."}


def _branch_error(problem: ValidationError) -> dict[str, Any]:
    """Return the error when no branch fits: a type error only if no branch accepts that type."""
    leaves = [leaf for branch in problem.kind.as_dict().get("context", []) for leaf in branch]
    path = _path(problem)
    here = [leaf for leaf in leaves if list(leaf.instance_path) == list(problem.instance_path)]
    allowed = [value for leaf in here if leaf.kind.name == "enum" for value in leaf.kind.as_dict()["options"]]
    if leaves and all(leaf.kind.name == "type" and leaf in here for leaf in leaves):
        expected = sorted({one for leaf in leaves for one in leaf.kind.as_dict()["types"]})
        wanted = " or ".join(_WORDS.get(one, one) for one in expected)
        error = _error(path, COERCED, f"`{_name(path)}` must be {wanted}, not {_WORDS[type_of(problem.instance)]}.")
        return error | {"expected": expected, "hint": f"Send `{_name(path)}` as {wanted}."}
    error = _error(path, HALLUCINATED, f"`{_name(path)}` has a value that fits none of the allowed forms.")
    return error | (_allowed_values(path, allowed) | _near(problem.instance, allowed) if allowed else {})


def _value_error(problem: ValidationError) -> dict[str, Any]:
    path, facts = _path(problem), problem.kind.as_dict()
    keyword = problem.kind.name
    if keyword in {"enum", "const"}:
        values = facts["options"] if keyword == "enum" else [facts["expected_value"]]
        error = _error(path, HALLUCINATED, f"`{_name(path)}` has a value that is not allowed.")
        return error | _allowed_values(path, values) | _near(problem.instance, values)
    limit = ", ".join(f"{key} {value}" for key, value in sorted(facts.items()) if isinstance(value, str | int | float))
    rule = f"{keyword}: {limit}" if limit else keyword
    error = _error(path, HALLUCINATED, f"`{_name(path)}` has a value that is not allowed ({rule[:200]}).")
    return error | {"hint": f"Keep `{_name(path)}` within {rule[:200]}."}


def _near(sent: Any, values: list[Any]) -> dict[str, Any]:
    """The allowed value nearest to the sent one, taken from the contract and never from the call."""
    near = (
        nearest_name(sent, [one for one in values[:_MAX_ALLOWED] if isinstance(one, str)])
        if isinstance(sent, str)
        else None
    )
    return {"suggestion": near} if near is not None else {}


def _allowed_values(path: str, values: list[Any]) -> dict[str, Any]:
    listed = values[:_MAX_ALLOWED]
    text = ", ".join(value if isinstance(value, str) else json.dumps(value) for value in listed)
    return {"allowed": listed, "hint": f"Allowed values of `{_name(path)}`: {text}."}


def _error(path: str, code: str, detail: str) -> dict[str, Any]:
    return {"path": path, "code": code, "detail": detail}


def _path(problem: ValidationError) -> str:
    return "".join(f"/{safe_name(str(part))}" for part in problem.instance_path)


def _name(path: str) -> str:
    return path.lstrip("/").replace("/", ".") or "arguments"


_WORDS = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def type_of(value: object) -> str:
    """The JSON Schema word for the type of a value."""
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (dict, "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "number"


_MOST = 2**53 - 1
_TRUTHS = {"true": True, "false": False}

Conversion = Mapping[str, str]


def coerce_arguments(
    arguments: dict[str, Any], contract: Contract
) -> tuple[dict[str, Any], tuple[Conversion, ...]] | None:
    """Convert arguments to the contract's types without loss (C-38); return None if that is not possible.

    This applies only to a contract that says `coercion: lossless` and changes nothing. Only the parameters themselves
    are converted, not their contents: text to an integer or a boolean, an integer to text, each only if writing it back
    gives exactly what was sent; and a wrapping object is removed. If the result does not fit the schema as a whole,
    nothing is converted and the call is refused as it was sent. Each conversion is returned with its parameter and
    types, and without values.
    """
    if not contract.coerces or contract.mutating:
        return None
    declared = contract.arguments_schema.get("properties", {})
    wrapped = unwrap_arguments(arguments, declared)
    said: list[Conversion] = []
    if wrapped is not None:
        said.append({"path": f"/{safe_name(wrapped[0])}", "from": "wrapped", "to": "parameters"})
    plain = dict(wrapped[1] if wrapped else arguments)
    for name in sorted(plain.keys() & declared.keys()):
        wanted = declared[name].get("type") if isinstance(declared[name], Mapping) else None
        value = _convert(plain[name], wanted)
        if value is not None:
            said.append({"path": f"/{name}", "from": type_of(plain[name]), "to": str(wanted)})
            plain[name] = value
    return (plain, tuple(said)) if said and contract.arguments_validator.is_valid(plain) else None


def _convert(value: Any, wanted: Any) -> Any:
    """Convert a value to the required type; None if it cannot be converted or already has that type."""
    if wanted == "string":
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
    if not isinstance(value, str):
        return None
    if wanted == "boolean":
        return _TRUTHS.get(value)
    return _integer(value) if wanted in ("integer", "number") else None


def _integer(text: str) -> int | None:
    if len(text) > 17 or not text.isascii() or not text.removeprefix("-").isdecimal():
        return None
    number = int(text)
    return number if str(number) == text and abs(number) <= _MOST else None
