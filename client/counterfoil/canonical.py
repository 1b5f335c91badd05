"""Canonical JSON (RFC 8785) for values without floats, so that an executor can check the payload it is asked to run.

The console hashes a payload's canonical bytes. This writer produces the same bytes for the same
profile: strings, integers within ±(2^53 - 1), booleans, null, arrays, and objects whose names are
strings. Nothing is repaired; a value outside the profile is refused, because an executor must not
run what it cannot check.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1


class NotCanonical(ValueError):
    """The value has no canonical form in this profile."""


def encode_canonical(value: object) -> bytes:
    """The canonical bytes of `value`."""
    parts: list[str] = []
    _write(value, parts, 0)
    return "".join(parts).encode("utf-8")


def digest(value: object) -> str:
    """SHA-256 of the canonical bytes of `value`, in lower-case hex."""
    return hashlib.sha256(encode_canonical(value)).hexdigest()


def parse_json(text: bytes | str) -> Any:
    """The value of a JSON text; a name given twice, NaN and infinities are refused."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise NotCanonical(f"The JSON is nested deeper than {MAX_DEPTH} levels.") from None


def _write(value: Any, parts: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise NotCanonical(f"The value is nested deeper than {MAX_DEPTH} levels.")
    if value is None or value is True or value is False:
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif type(value) is str:
        parts.append(_string(value))
    elif type(value) is int:
        parts.append(_integer(value))
    elif type(value) is dict:
        _object(value, parts, depth)
    elif type(value) is list or type(value) is tuple:
        _array(value, parts, depth)
    else:
        raise NotCanonical(f"A {type(value).__name__} has no canonical form here; use a string or an integer.")


def _object(value: dict[Any, Any], parts: list[str], depth: int) -> None:
    for name in value:
        if type(name) is not str:
            raise NotCanonical("A name of an object must be a string.")
        _check(name)
    parts.append("{")
    # RFC 8785 section 3.2.3 sorts by UTF-16 code units, which differs from Python's order above
    # U+FFFF.
    for index, name in enumerate(sorted(value, key=lambda name: name.encode("utf-16-be"))):
        parts.append("," if index else "")
        parts.append(_string(name))
        parts.append(":")
        _write(value[name], parts, depth + 1)
    parts.append("}")


def _array(value: list[Any] | tuple[Any, ...], parts: list[str], depth: int) -> None:
    parts.append("[")
    for index, item in enumerate(value):
        parts.append("," if index else "")
        _write(item, parts, depth + 1)
    parts.append("]")


def _integer(value: int) -> str:
    if abs(value) > MAX_INTEGER:
        raise NotCanonical("An integer lies outside ±(2^53 - 1); use a string.")
    return str(value)


def _string(value: str) -> str:
    _check(value)
    # Python's escapes are those of RFC 8785 section 3.2.2.2: two-character forms where they exist,
    # else \\u00xx.
    return json.dumps(value, ensure_ascii=False)


def _check(value: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise NotCanonical("A string holds a lone surrogate.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotCanonical("An object names the same member twice.")
    return value


def _no_constant(text: str) -> Any:
    raise NotCanonical(f"{text} is not JSON.")
