"""Reads a tool's result as an executor sends it: malformed results are kept too (C-31)."""

from __future__ import annotations

import json
from typing import Any

from ledger.record.rules.canonical import NotJson

MAX_DEPTH = 64
_MAX_INT = 2**53 - 1


def read_result(body: bytes) -> tuple[dict[str, Any], bytes | None]:
    """Return the observation in a body, and its raw output separately.

    A result of any shape is taken; the rules call it malformed where it is. Numbers that have no exact place in the
    record become text, and what cannot be text at all is replaced: it is evidence of what came, not a value to use.
    """
    try:
        document = _plain(json.loads(body, parse_float=str, parse_constant=str, parse_int=_integer), 0)
    except RecursionError:
        # Nested beyond reading; all of it is kept as raw output.
        return {"result": None}, body
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise NotJson("The body is not a JSON object with a `result`.")
    raw = document.pop("raw", None)
    if raw is None:
        return document, None
    return document, (raw if isinstance(raw, str) else json.dumps(raw)).encode("utf-8", "replace")


def raw_evidence(body: bytes) -> Any:
    """The evidence in a result as sent, with its numbers; None if there is none, or it cannot be read."""
    try:
        result = json.loads(body)["result"]
    except (ValueError, RecursionError, KeyError):
        return None
    return result.get("evidence") if isinstance(result, dict) else None


def _integer(text: str) -> int | str:
    # Python itself refuses to read very long numbers.
    return int(text) if len(text) < 18 and abs(int(text)) <= _MAX_INT else text


def _plain(value: Any, depth: int) -> Any:
    """Return the value with only text that can be stored; raise `RecursionError` if it is nested too deeply."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if not isinstance(value, dict | list):
        return value
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    return {_plain(name, depth): _plain(each, depth + 1) for name, each in value.items()}
