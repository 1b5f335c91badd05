"""Predicates as sentences, made from the names of the fields; the expression itself is one click away.

1. `sa` is what the system of record shows, `sr` what was requested, `so` what the tool reported, `pre` the state
   before, `scope` what the console knows of the action.
2. A part that is no comparison of two plain sides is not guessed at: it reads "Custom check", beside its expression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from ledger.catalogue.rules.contract import Contract

_PATH: Final = re.compile(r"(sa|sr|so|pre|scope)((?:\.[A-Za-z_]\w*)+)", re.ASCII)
_COMPARISON: Final = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|<|>|\bin\b)\s*(.+?)\s*", re.ASCII)
_SIZE: Final = re.compile(r"size\((?:bytes\()?((?:sa|sr|so|pre)(?:\.\w+)+)\)?\)", re.ASCII)
_LITERAL: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"|(-?\d+(?:\.\d+)?)|(true|false)", re.ASCII)
_LIST: Final = re.compile(r"\[(.*)\]", re.ASCII)
_OPERATORS: Final = {
    "==": "equals",
    "!=": "differs from",
    "<": "is below",
    ">": "is above",
    "<=": "is at most",
    ">=": "is at least",
    "in": "is one of",
}
_IS: Final = {"==": "is", "!=": "is not"}
_WHOSE: Final = {"sr": "requested ", "so": "reported ", "scope": "expected "}
_DONE: Final = {
    "refund": "refunded",
    "charge": "charged",
    "pay": "paid",
    "transfer": "transferred",
    "credit": "credited",
}
_INITIALS: Final = re.compile(r"\b(id|sku|url|iban|sha256)\b", re.ASCII)
_SUMS: Final = frozenset({"amount", "total", "currency"})
CUSTOM: Final = "Custom check"


def predicate_sentence(text: str, contract: Contract) -> str:
    """The condition of a predicate in words: 'Refunded amount equals requested amount'."""
    verification = contract.verification
    lookup = verification.lookup if verification is not None else {}
    gone = frozenset(_absent_effects(lookup))
    target = contract.target_template.partition("/")[0].replace("_", " ").replace("-", " ")
    return _sentence(text, contract.operation_kind, target, gone, tuple(contract.required_effects))


@lru_cache(maxsize=4096)
def _sentence(text: str, operation: str, target: str, gone: frozenset[str], effects: tuple[str, ...]) -> str:
    said = [_Subject(operation, target, gone, effects).part(part) for part in _parts(text)]
    if not said or CUSTOM in said:
        return CUSTOM
    return said[0] + "".join(f", and {each[:1].lower()}{each[1:]}" for each in said[1:])


def _absent_effects(lookup: Mapping[str, Any]) -> list[str]:
    """The effects whose success is an absence."""
    effects = lookup.get("effects", {})
    found = [name for name, one in effects.items() if isinstance(one, Mapping) and one.get("expect") == "absent"]
    return [*found, ""] if found and len(effects) == 1 else found


def _parts(text: str) -> list[str]:
    """The parts that must all hold; a text with quotes or brackets around an `&&` stays whole."""
    parts = text.split("&&")
    return parts if all(part.count("'") % 2 == 0 and part.count("(") == part.count(")") for part in parts) else [text]


class _Subject:
    """The subject of a predicate's fields."""

    def __init__(self, operation: str, target: str, gone: frozenset[str], effects: tuple[str, ...]) -> None:
        self.operation, self.target, self.gone, self.effects = operation, target, gone, effects

    def part(self, text: str) -> str:
        text = text.strip()
        alone = _PATH.fullmatch(text.removeprefix("!"))
        if alone:
            return self._alone(alone, negated=text.startswith("!"))
        found = _COMPARISON.fullmatch(text)
        if not found or re.search(r"\|\||\?", text):
            return CUSTOM
        left, operator, right = found.groups()
        path = _PATH.fullmatch(left)
        if path and path[1] == "sa" and path[2].endswith(".count") and right == "1" and operator == "==":
            return f"Exactly one {self._effect(path[2].removesuffix('.count'))} exists"
        one, other = self._side(left, first=True), self._side(right, first=False)
        if not one or not other:
            return CUSTOM
        word = _OPERATORS[operator]
        if operator in _IS and _LITERAL.fullmatch(right):
            word = _IS[operator]
        return f"{one[:1].upper()}{one[1:]} {word} {other}"

    def _alone(self, path: re.Match[str], *, negated: bool) -> str:
        if path[1] == "sa" and path[2].endswith(".exists"):
            where = path[2].removesuffix(".exists")
            is_gone = where.rpartition(".")[2] in self.gone
            thing = self.target if is_gone or not (where or self.effects) else self._effect(where)
            state = ("exists" if negated else "is gone") if is_gone else ("does not exist" if negated else "exists")
            return f"{thing[:1].upper()}{thing[1:]} {state}"
        said = self._side(path[0], first=True)
        return f"{said[:1].upper()}{said[1:]} is {'false' if negated else 'true'}"

    def _effect(self, where: str) -> str:
        name = where.rpartition(".")[2] or (self.effects[0] if len(self.effects) == 1 else "effect")
        return name.replace("_", " ")

    def _side(self, text: str, *, first: bool) -> str:
        path, size, literal, listed = (each.fullmatch(text) for each in (_PATH, _SIZE, _LITERAL, _LIST))
        if path:
            return self._field(path[1], path[2], first=first)
        if size:
            inner = _PATH.fullmatch(size[1])
            return f"size of {self._field(inner[1], inner[2], first=first)}" if inner else ""
        if literal:
            quoted = literal[1] if literal[1] is not None else literal[2]
            return f"\u201c{quoted}\u201d" if quoted is not None else text
        if listed:
            items = [self._side(each.strip(), first=False) for each in listed[1].split(",")]
            return ", ".join(items) if all(items) else ""
        return ""

    def _field(self, variable: str, path: str, *, first: bool) -> str:
        names = [name for name in path.strip(".").split(".") if name != "effects"]
        field = _INITIALS.sub(lambda found: found[0].upper(), names[-1].replace("_", " "))
        within = f"{' '.join(names[:-1]).replace('_', ' ')} " if len(names) > 1 and names[:-1] != ["target"] else ""
        if variable == "sa" and first and not within and names[-1] in _SUMS and self.operation in _DONE:
            return f"{_DONE[self.operation]} {field}"
        if variable == "sa" and names[:-1] == ["target"]:
            return f"{field} of the target"
        if variable == "pre":
            return f"{within}{field} before execution"
        return f"{_WHOSE.get(variable, '')}{within}{field}"
