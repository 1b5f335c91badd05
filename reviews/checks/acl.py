"""Access policies of Vault and OpenBao: the text as rules that can be compared.

The text is HCL or JSON. What is not understood is `UnreadablePolicy`, never an empty policy: a rule that was
passed over could be the one that gives everything away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_NESTING = 12
DENY = "deny"

_TOKEN = re.compile(
    r'(?P<space>\s+|\#[^\n]*|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:\\.|[^"\\\n])*")'
    r"|(?P<name>[A-Za-z_][\w.-]*)|(?P<number>-?\d+)|(?P<mark>[{}\[\]=,:])",
    re.DOTALL,
)
_WILD = re.compile(r"[*+]")
_OLD = {
    "deny": {DENY},
    "read": {"read", "list"},
    "write": {"create", "read", "update", "delete", "list"},
    "sudo": {"create", "read", "update", "delete", "list", "sudo"},
}


class UnreadablePolicy(Exception):
    """The policy's text is not understood."""


@dataclass(frozen=True)
class PathRule:
    """The capabilities at one path, and their further conditions."""

    capabilities: frozenset[str]
    conditions: str = ""


Rules = dict[str, PathRule]


def parse_policy(text: str) -> Rules:
    """The rules of a policy by path."""
    try:
        document = json.loads(text, object_pairs_hook=_once)
    except ValueError:
        document = _parse_document(text)
    except RecursionError:
        raise UnreadablePolicy("The policy is nested too deeply.") from None
    paths = document.get("path", {}) if isinstance(document, dict) else None
    if not isinstance(paths, dict) or set(document) - {"path", "name"}:
        raise UnreadablePolicy("The policy holds more than paths.")
    return {path: _rule(path, body) for path, body in paths.items()}


def grants_more(found: Mapping[str, PathRule], wanted: Mapping[str, PathRule]) -> bool:
    """Return True if the found rules allow anything that the wanted ones do not."""
    none = PathRule(frozenset())
    for path in {*found, *wanted}:
        has, asked = found.get(path, none), wanted.get(path, none)
        if has.capabilities - asked.capabilities - {DENY}:
            return True
        if DENY in asked.capabilities and DENY not in has.capabilities:
            return True
        if asked.conditions and not has.conditions and has.capabilities:
            return True
    return False


def is_overbroad(found: Mapping[str, PathRule], depth: int) -> bool:
    """Return whether a rule that allows something has a wildcard among the first segments of its path."""
    return any(
        rule.capabilities - {DENY} and any(map(_WILD.search, path.split("/")[:depth])) for path, rule in found.items()
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise UnreadablePolicy("A name stands twice in the policy.")
    return dict(pairs)


def _rule(path: str, body: Any) -> PathRule:
    # The same path twice: what both allow together, and a denial of one denies.
    bodies = body if isinstance(body, list) else [body]
    if not all(isinstance(one, dict) for one in bodies):
        raise UnreadablePolicy(f"The rule for {path} is no block.")
    allowed = frozenset[str]().union(*map(_capabilities, bodies))
    rest = [{name: one[name] for name in sorted(one) if name not in {"capabilities", "policy"}} for one in bodies]
    conditions = json.dumps(rest, sort_keys=True) if any(rest) else ""
    return PathRule(frozenset({DENY}) if DENY in allowed else allowed, conditions)


def _capabilities(body: Mapping[str, Any]) -> frozenset[str]:
    given = body.get("capabilities", [])
    old = body.get("policy")
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise UnreadablePolicy("Capabilities must be a list of names.")
    if old is not None and old not in _OLD:
        raise UnreadablePolicy(f"{old!r} is no policy of a path.")
    return frozenset(given) | frozenset(_OLD.get(str(old), ()))


# HCL


def _parse_document(text: str) -> dict[str, Any]:
    tokens = list(_tokens(text))
    body, rest = _body(tokens, 0, 0)
    if rest != len(tokens):
        raise UnreadablePolicy("The policy ends in the middle of something.")
    return body


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise UnreadablePolicy(f"The policy is not understood at character {at}.")
        at = found.end()
        if found.lastgroup != "space":
            yield str(found.lastgroup), found.group()


def _token_at(tokens: list[tuple[str, str]], at: int) -> tuple[str, str]:
    return tokens[at] if at < len(tokens) else ("end", "")


def _body(tokens: list[tuple[str, str]], at: int, depth: int) -> tuple[dict[str, Any], int]:
    """Everything up to the closing brace or the end: values, and blocks with or without a label."""
    if depth > MAX_NESTING:
        raise UnreadablePolicy("The policy is nested too deeply.")
    found: dict[str, Any] = {}
    while _token_at(tokens, at)[0] in {"name", "text"}:
        kind, word = tokens[at]
        name, at = _plain(kind, word), at + 1
        if _token_at(tokens, at)[1] in {"=", ":"}:
            value, at = _value(tokens, at + 1, depth)
            _add(found, name, value)
        elif _token_at(tokens, at)[0] == "text":
            label = _plain(*tokens[at])
            value, at = _value(tokens, at + 1, depth)
            _add(found.setdefault(name, {}), label, value)
        else:
            value, at = _value(tokens, at, depth)
            _add(found, name, value)
        at += _token_at(tokens, at)[1] == ","
    return found, at


def _add(found: Any, name: str, value: Any) -> None:
    if not isinstance(found, dict):
        raise UnreadablePolicy(f"{name} stands twice in two forms.")
    if name in found:
        kept = found[name] if isinstance(found[name], list) else [found[name]]
        value = [*kept, value]
    found[name] = value


def _value(tokens: list[tuple[str, str]], at: int, depth: int) -> tuple[Any, int]:
    kind, word = _token_at(tokens, at)
    if word == "{":
        found, at = _body(tokens, at + 1, depth + 1)
        if _token_at(tokens, at)[1] != "}":
            raise UnreadablePolicy("A block does not end.")
        return found, at + 1
    if word == "[":
        return _list(tokens, at + 1, depth + 1)
    if kind in {"text", "number"} or word in {"true", "false"}:
        return _plain(kind, word), at + 1
    raise UnreadablePolicy(f"{word or 'the end'} stands where a value should.")


def _list(tokens: list[tuple[str, str]], at: int, depth: int) -> tuple[list[Any], int]:
    if depth > MAX_NESTING:
        raise UnreadablePolicy("The policy is nested too deeply.")
    found: list[Any] = []
    while _token_at(tokens, at)[1] != "]":
        value, at = _value(tokens, at, depth)
        found.append(value)
        if _token_at(tokens, at)[1] == ",":
            at += 1
        elif _token_at(tokens, at)[1] != "]":
            raise UnreadablePolicy("A list does not end.")
    return found, at + 1


def _plain(kind: str, word: str) -> str:
    if kind != "text":
        return word
    try:
        return str(json.loads(word))
    except ValueError:
        raise UnreadablePolicy(f"{word} is no text.") from None
