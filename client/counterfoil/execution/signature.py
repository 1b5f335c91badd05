"""The schema of a function's arguments, from its signature and docstring.

1. Each parameter is a property; one without a default is required; nothing else is admitted.
2. Types are those of JSON without fractions, since a payload is hashed: str, int, bool, None,
   Literal, lists, string-keyed dicts, TypedDicts, unions of these, and Any. A float is refused:
   amounts are integers of minor units or strings.
3. `Annotated[T, "text"]` and the docstring's `Args:` describe a parameter, `Annotated[T, {...}]`
   adds what the schema needs beside the type, say a pattern or a maximum.
4. Whatever cannot be said exactly is refused when the function is decorated, not when it is called.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from counterfoil.canonical import NotCanonical, encode_canonical, parse_json

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$", re.MULTILINE)
_PARAMETER = re.compile(r"^(\w+)(?: \([^)]*\))?: *(.*)$")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class FunctionDescription:
    """A function as a contract describes it."""

    description: str
    arguments_schema: Mapping[str, Any]


def describe_function(function: Callable[..., Any], *, without: Sequence[str] = ()) -> FunctionDescription:
    """Describe a function's parameters and purpose; `without` names parameters that are no arguments of the tool."""
    text, told = _docstring(function)
    hints = get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in without:
            continue
        properties[name] = _parameter(function, parameter, hints, told.get(name))
        if parameter.default is parameter.empty:
            required.append(name)
    schema = {"type": "object", "required": required, "additionalProperties": False, "properties": properties}
    return FunctionDescription(text, schema)


def _parameter(
    function: Callable[..., Any], parameter: inspect.Parameter, hints: Mapping[str, Any], text: str | None
) -> dict[str, Any]:
    where = f"the parameter `{parameter.name}` of {function.__name__}"
    if parameter.kind not in _BY_NAME:
        raise TypeError(f"{where} is not given by name.")
    if parameter.name not in hints:
        raise TypeError(f"{where} has no type.")
    schema = _schema(hints[parameter.name], where)
    if text and "description" not in schema:
        schema["description"] = text
    if parameter.default is not parameter.empty:
        try:
            schema["default"] = parse_json(encode_canonical(parameter.default))
        except NotCanonical as fault:
            raise TypeError(f"{where} has a default that is no JSON: {fault}") from fault
    return schema


def _schema(kind: Any, where: str) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is None and kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind):
        return _typed_dict(kind, where)
    made = _FORMS.get(origin)
    if made is None:
        raise TypeError(f"{where} is a {getattr(kind, '__name__', kind)}, which no payload can hold exactly.")
    return made(inner, where)


def _annotated_schema(inner: tuple[Any, ...], where: str) -> dict[str, Any]:
    schema = _schema(inner[0], where)
    for more in inner[1:]:
        if isinstance(more, str):
            schema["description"] = more
        elif isinstance(more, Mapping):
            schema |= more
    return schema


def _literal(inner: tuple[Any, ...], where: str) -> dict[str, Any]:
    kinds = {type(value) for value in inner}
    return {"enum": list(inner)} | (_PLAIN[kinds.pop()] if len(kinds) == 1 else {})


def _union(inner: tuple[Any, ...], where: str) -> dict[str, Any]:
    return {"anyOf": [_schema(one, where) for one in inner]}


def _list(inner: tuple[Any, ...], where: str) -> dict[str, Any]:
    return {"type": "array", "items": _schema(inner[0], where)}


def _dict(inner: tuple[Any, ...], where: str) -> dict[str, Any]:
    if inner[0] is not str:
        raise TypeError(f"{where} is a mapping whose names are not text.")
    return {"type": "object", "additionalProperties": _schema(inner[1], where)}


def _typed_dict(kind: Any, where: str) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    properties = {name: _schema(hint, f"`{name}` of {where}") for name, hint in hints.items()}
    # Where annotations are text, `__required_keys__` does not know of the marks.
    marks = {name: get_origin(hint) for name, hint in hints.items()}
    required = [
        name
        for name, mark in marks.items()
        if mark is Required or (mark is not NotRequired and name in kind.__required_keys__)
    ]
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


def _inner(inner: tuple[Any, ...], where: str) -> dict[str, Any]:
    return _schema(inner[0], where)


_FORMS: dict[Any, Callable[[tuple[Any, ...], str], dict[str, Any]]] = {
    Annotated: _annotated_schema,
    Literal: _literal,
    Union: _union,
    types.UnionType: _union,
    list: _list,
    Sequence: _list,
    dict: _dict,
    Mapping: _dict,
    Required: _inner,
    NotRequired: _inner,
}


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    text = inspect.getdoc(function) or ""
    first, *sections = _SECTION.split(text)
    if not first.strip():
        raise TypeError(f"{function.__name__} has no docstring: a tool's description says when to use it.")
    told: dict[str, str] = {}
    for name, body in zip(sections[::2], sections[1::2], strict=True):
        if name in ("Args", "Arguments", "Parameters"):
            told |= _parameter_texts(inspect.cleandoc(body))
    return first.strip(), told


def _parameter_texts(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    last = ""
    for line in body.splitlines():
        match = None if line.startswith(" ") else _PARAMETER.match(line)
        if match:
            last = match.group(1)
            found[last] = match.group(2).strip()
        elif last and line.strip():
            found[last] = f"{found[last]} {line.strip()}".strip()
    return found
