"""Canonical bytes: one writer and one strict reader that are exact inverses.

The bytes are RFC 8785 (JSON Canonicalization Scheme) in a stricter profile, because hashed bytes must mean one thing:

1. Numbers are integers within ±(2^53 - 1) (I-JSON, RFC 7493 section 2.2). No floats: `1.0` and `1` would hash alike.
2. Names are unique strings; the reader refuses a duplicate name instead of keeping the last one.
3. Strings hold no lone surrogates, since those have no UTF-8. A member of a `StrEnum` is written as its string.
4. Depth and size are bounded, so that hostile input costs little: what people send by `MAX_BYTES`, what is written
   and read back by `MAX_STORED_BYTES` (an escaped or annotated text is longer than what was sent).

`canonical` writes, `parse` reads canonical bytes back and refuses any other spelling, and `read` takes JSON as people
send it (any spelling, same profile). Anything outside the profile is `NotCanonical`, never repaired (R-AP-22).

Two writers produce the bytes: orjson where it is provably identical to the reference (all names are below U+10000, so
that its code-point order is RFC 8785's UTF-16 order), rfc8785 otherwise. What is certainly inside the profile is
recognised from its bytes; anything uncertain or refused is checked value by value, which also finds the message.
Property tests hold all of them together.
"""

from __future__ import annotations

import hashlib
import json
import marshal
from enum import StrEnum
from typing import Any, NoReturn

import orjson
import rfc8785

from ledger.record.rules.refusals import Refused

MAX_BYTES = 1024 * 1024
MAX_STORED_BYTES = 16 * MAX_BYTES
MAX_DEPTH = 64
_MAX_INT = 2**53 - 1
_TOO_BIG = "An integer lies outside ±(2^53 - 1); send it as a string."
_MAX_DIGITS = len(str(-_MAX_INT))
_EXACT = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
# Bytes without digits and signs, in which a point stands for whatever makes a number more than whole, and a comma for
# what may stand before the members of a list: so a float begins with a point where a value begins.
_MARKS = bytes.maketrans(b"eE[", b"..,")
_DIGITS = b"0123456789-"
_BELOW_ASTRAL = bytes(range(0xF0))


class NotCanonical(Refused):
    """The value cannot be written as canonical JSON."""

    code = "NOT_CANONICAL"
    status = 422


class NotJson(NotCanonical):
    """The text is not JSON."""

    code = "NOT_JSON"
    status = 400


def canonical(value: Any) -> bytes:
    """The canonical bytes of `value` (dict, list, tuple, str, int, bool, None); `NotCanonical` for anything else."""
    data = _written_plainly(value)
    if data is None:
        plain = _check(value, 0)
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if plain else rfc8785.dumps(value)
    if len(data) > MAX_STORED_BYTES:
        raise NotCanonical(f"The value is larger than {MAX_STORED_BYTES} bytes.")
    return data


def parse(data: bytes) -> Any:
    """The value whose canonical bytes are exactly `data`; any other spelling is refused."""
    value = _read_plainly(data, MAX_STORED_BYTES)
    if value is not None:
        return value
    value = _load(_text(data, MAX_STORED_BYTES))
    if canonical(value) != data:
        raise NotCanonical("The bytes are JSON, but not in canonical form.")
    return value


def _read_plainly(data: bytes | str, most: int) -> Any:
    """Return the value of bytes that are certainly canonical; None if that is in doubt, or if the value is null."""
    sent = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if len(sent) > most:
        return None
    try:
        value = orjson.loads(sent)
        return value if orjson.dumps(value, option=_EXACT) == sent and _is_plain(sent) else None
    except (ValueError, TypeError):
        return None


def _written_plainly(value: Any) -> bytes | None:
    """Return the canonical bytes of a value that is certainly inside the profile; otherwise None."""
    try:
        # Takes the built-in types alone and none of their subclasses: orjson would write UUIDs, dates and enumerations.
        typed = marshal.dumps(value)
        data = orjson.dumps(value, option=_EXACT)
    except (ValueError, TypeError):
        return None
    if not _is_plain(data):
        return None
    # orjson writes what is no number, and what is infinite, as null; the last byte of such a float is one of these.
    doubtful = b"null" in data and (b"\x7f" in typed or b"\xff" in typed)
    return data if not doubtful or orjson.loads(data) == value else None


def _is_plain(data: bytes) -> bool:
    """Return True if orjson's output is certainly canonical: no float, little depth, no name beyond U+FFFF.

    A string may look like one of these; that only costs the slow path.
    """
    marks = data.translate(_MARKS, _DIGITS)
    return (
        b'":.' not in marks
        and b",." not in marks
        and not marks.startswith(b".")
        and data.count(b"{") + data.count(b"[") <= MAX_DEPTH
        and (data.isascii() or not data.translate(None, _BELOW_ASTRAL))
    )


def read(data: bytes | str) -> Any:
    """The value of a JSON text as a client sends it, within the profile (rules 1 to 4)."""
    value = _read_plainly(data, MAX_BYTES)
    return value if value is not None else _load(_text(data, MAX_BYTES))


def digest(data: bytes) -> str:
    """SHA-256 of `data` in lower-case hex (64 characters)."""
    return hashlib.sha256(data).hexdigest()


def _load(text: str) -> Any:
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except RecursionError:
        raise NotCanonical(f"The JSON is nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError as problem:
        raise NotJson(f"The text is not JSON: {problem}.") from None
    _check(value, 0)
    return value


def _text(data: bytes | str, most: int) -> str:
    if len(data) > most:
        raise NotCanonical(f"The JSON is larger than {most} bytes.")
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise NotJson("The bytes are not UTF-8.") from None


def _check(value: Any, depth: int) -> bool:
    """Refuse values outside the profile; return True if every name is below U+10000."""
    if depth > MAX_DEPTH:
        raise NotCanonical(f"The value is nested deeper than {MAX_DEPTH} levels.")
    kind = type(value)
    if kind is str or isinstance(value, StrEnum):
        _check_string(value)
        return True
    if kind is int:
        _check_integer(value)
        return True
    if value is None or kind is bool:
        return True
    if kind is dict:
        return _check_object(value, depth)
    if kind is list or kind is tuple:
        plain = [_check(item, depth + 1) for item in value]
        return all(plain)
    raise NotCanonical(f"A {kind.__name__} has no canonical form here; use strings or integers.")


def _check_object(value: dict[Any, Any], depth: int) -> bool:
    plain = True
    for name, item in value.items():
        if type(name) is not str:
            raise NotCanonical("A name of an object must be a string.")
        _check_string(name)
        plain = _check(item, depth + 1) and plain and (name.isascii() or max(name) < "\U00010000")
    return plain


def _check_string(value: str) -> None:
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise NotCanonical("A string holds a lone surrogate.")


def _check_integer(value: int) -> None:
    if not -_MAX_INT <= value <= _MAX_INT:
        raise NotCanonical(_TOO_BIG)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotCanonical("An object names the same member twice.")
    return value


def _integer(text: str) -> int:
    # Python itself refuses to read very long numbers, as if they were no JSON.
    if len(text) > _MAX_DIGITS:
        raise NotCanonical(_TOO_BIG)
    return int(text)


def _no_float(text: str) -> NoReturn:
    raise NotCanonical(f"The number {text[:40]} is not an integer; send decimals as strings.")
