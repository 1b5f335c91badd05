"""Target resources: the one object of a call, rendered from its arguments.

Freezes, duplicate blocking and the binding of an approval all compare targets as text, so that two
different calls must never render to one text, and one thing should not have two spellings:

1. A template is literal text with `{argument}` places, each naming a required string or integer
   argument. `{*}` stands for all arguments together, by the first 32 hex digits of the SHA-256 over
   their canonical JSON: for tools of which no argument alone says what a call is about.
2. A value loses nothing: `%`, control characters and, except in a place that ends the template, `/`
   are percent-encoded. Text is NFC, so that two encodings of one letter name one target.
3. A value that is empty, or a path with empty, `.` or `..` segments, is refused: it would name
   another target than the one it shows (B31: retargeting).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from ledger.record.rules.canonical import NotCanonical, canonical, digest

MAX_TARGET = 512

_ALL = "*"
_RESERVED = "%/{}"
_ESCAPED = re.compile("%(" + "|".join(f"{ord(one):02X}" for one in _RESERVED) + ")")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*|\*)\}")


class BadTarget(ValueError):
    """The arguments do not name a target; `argument` is the name of the one at fault."""

    def __init__(self, argument: str, detail: str) -> None:
        self.argument = argument
        super().__init__(detail)


def template_arguments(template: str) -> tuple[str, ...]:
    """The arguments that a template names; `ValueError` for a stray brace or control character."""
    literal = _PLACE.sub("", template)
    if "{" in literal or "}" in literal:
        raise ValueError("The template has a brace that does not enclose one argument name.")
    if any(unicodedata.category(character).startswith("C") for character in literal):
        raise ValueError("The template holds a control character.")
    return tuple(name for name in _PLACE.findall(template) if name != _ALL)


def render_target(template: str, arguments: Mapping[str, Any]) -> str:
    """The target of a call with these validated arguments; `BadTarget` when they name none."""
    tail = template.rindex("{") if template.endswith("}") else -1

    def fill(match: re.Match[str]) -> str:
        if match.group(1) == _ALL:
            return _digest(arguments)
        return _segment(match.group(1), arguments, keep_slashes=match.start() == tail)

    target = _PLACE.sub(fill, template)
    if len(target) > MAX_TARGET:
        raise BadTarget(
            next(reversed(template_arguments(template)), ""), f"The target is longer than {MAX_TARGET} characters."
        )
    return target


def _digest(arguments: Mapping[str, Any]) -> str:
    try:
        return digest(canonical(dict(arguments)))[:32]
    except NotCanonical as fault:
        raise BadTarget("", "The arguments, which name the target together, have no canonical form.") from fault


def _segment(name: str, arguments: Mapping[str, Any], *, keep_slashes: bool) -> str:
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadTarget(name, f"`{name}` must be text or an integer, because it names the target.")
    text = normal_form(str(value))
    parts = text.split("/") if keep_slashes else [text]
    if any(part.strip() in {"", ".", ".."} for part in parts):
        raise BadTarget(
            name,
            f"`{name}` names the target and may not be empty or hold empty, `.` or `..` segments.",
        )
    return "/".join(_escape(part) for part in parts)


def normal_form(text: str) -> str:
    """Return the canonical spelling of a target, used by agents in their calls and by people in freezes
    and searches.
    """
    return unicodedata.normalize("NFC", text)


def target_text(target: str) -> str:
    """A target as people read and sign it, with the characters that stand escaped in its values written out.

    Characters that nobody could see stay escaped. Two targets may read alike; where it matters which one is meant, the
    target itself or the payload's hash stands beside it. A refused call whose arguments name no target has the
    contract's template for one: an empty place is shown as not given.
    """
    return "/".join(_part_text(part) for part in target.split("/"))


def _part_text(part: str) -> str:
    if empty := _PLACE.fullmatch(part):
        return f"({'arguments' if empty[1] == _ALL else empty[1]} not given)"
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), part)


def _escape(text: str) -> str:
    return "".join(_octets(one) if one in _RESERVED or _is_invisible(one) else one for one in text)


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character)[0] == "C"


def _octets(character: str) -> str:
    return "".join(f"%{octet:02X}" for octet in character.encode("utf-8"))
