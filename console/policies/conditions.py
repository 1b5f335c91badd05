"""A rule's condition as comparisons that are picked, and back: `amount.minor > 5000 && target.kind == "order"`.

What is not a conjunction of such comparisons stays the expression that it is; nothing of it is reworded or lost.
Pure: no clock, no database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from approvals.policy.rules.policy_facts import VARIABLES

COMPARISONS: Final[Mapping[str, str]] = {
    "==": "is",
    "!=": "is not",
    ">": "is more than",
    ">=": "is at least",
    "<": "is less than",
    "<=": "is at most",
    "startsWith": "begins with",
}
FIELDS: Final[Mapping[str, str]] = {
    "contract.name": "the tool",
    "contract.side_effect_class": "the side-effect class",
    "contract.reversibility": "the reversibility",
    "contract.effect_domain": "the effect domain",
    "contract.operation_kind": "the kind of operation",
    "contract.mutating": "the tool changes something",
    "contract.externally_visible": "the effect is visible outside",
    "contract.pivot": "the point of no return",
    "contract.verifiable": "the effect can be read back",
    "contract.approval_required": "the contract requires approval",
    "contract.version": "the contract's version",
    "contract.rank": "the rank of the class",
    "amount.minor": "the amount in the smallest unit of its currency",
    "amount.currency": "the currency",
    "target.resource": "the target",
    "target.kind": "the kind of target",
    "target.name": "the target's name",
    "agent.id": "the agent",
    "agent.version": "the agent's version",
    "agent.model_tier": "the agent's model tier",
    "session.calls": "the number of calls of the session so far",
    "session.accepted": "the number of accepted calls of the session so far",
    "session.refused": "the number of refused calls of the session so far",
    "session.undisclosed_attempts": "the number of undisclosed tools that the session tried",
    "session.drifts": "the number of drifted goals of the session",
    "now.date": "the date (UTC)",
    "now.hour": "the hour (UTC)",
    "now.minute": "the minute (UTC)",
    "now.weekday": "the weekday",
}
"""Every field of `policy_facts.VARIABLES` in words; the arguments of the tools come from their contracts."""

_CLAUSE: Final = re.compile(r'([a-z]+\.[A-Za-z_]\w*)\s*(==|!=|>=|<=|>|<)\s*("(?:[^"\\]|\\.)*"|-?\d+|true|false)')
_BEGINNING: Final = re.compile(r'([a-z]+\.[A-Za-z_]\w*)\.startsWith\(("(?:[^"\\]|\\.)*")\)')
_AND: Final = " && "


@dataclass(frozen=True)
class Comparison:
    """One comparison of a field with a fixed value; `value` is text, a whole number or a truth value."""

    field: str
    comparison: str
    value: str | int | bool

    @property
    def text(self) -> str:
        """The expression of this comparison."""
        literal = json.dumps(self.value, ensure_ascii=False)
        if self.comparison == "startsWith":
            return f"{self.field}.startsWith({literal})"
        return f"{self.field} {self.comparison} {literal}"

    @property
    def sentence(self) -> str:
        """This comparison in words."""
        name = FIELDS.get(self.field) or f"the argument {self.field.partition('.')[2]}"
        if isinstance(self.value, bool):
            return f"“{name}” {COMPARISONS[self.comparison]} {'true' if self.value else 'false'}"
        value = f"“{self.value}”" if isinstance(self.value, str) else f"{self.value:,}"
        return f"{name} {COMPARISONS[self.comparison]} {value}"


def read_comparisons(text: str) -> tuple[Comparison, ...] | None:
    """The comparisons that a condition consists of; None for any other condition."""
    found = [_read_comparison(part.strip()) for part in text.split("&&")]
    return None if None in found else tuple(each for each in found if each is not None)


def _read_comparison(text: str) -> Comparison | None:
    if match := _BEGINNING.fullmatch(text):
        name, comparison, literal = match[1], "startsWith", match[2]
    elif match := _CLAUSE.fullmatch(text):
        name, comparison, literal = match[1], match[2], match[3]
    else:
        return None
    try:
        return Comparison(name, comparison, json.loads(literal))
    except ValueError:
        return None


def write_condition(comparisons: tuple[Comparison, ...], further: str = "") -> str:
    """The condition under which all comparisons hold, and `further`, an expression, too; empty for every call."""
    further = further.strip()
    parts = [each.text for each in comparisons]
    # Whatever it is made of, it is one operand beside the comparisons; only further comparisons need no brackets.
    if further and parts and read_comparisons(further) is None:
        further = f"({further})"
    return _AND.join([*parts, *([further] if further else [])])


def condition_sentence(text: str) -> str:
    """A condition in words, where it consists of comparisons; else as the expression that it is."""
    comparisons = read_comparisons(text)
    return text if comparisons is None else " and ".join(each.sentence for each in comparisons)


def type_of(field: str, arguments: Mapping[str, str]) -> str:
    """The JSON type of a field; `arguments` are those of the tools' arguments, as `args.name`. Empty if unknown."""
    variable, _, name = field.partition(".")
    schema = VARIABLES.get(variable)
    known = schema["properties"].get(name, {}) if schema is not None else {"type": arguments.get(field, "")}
    return str(known.get("type", ""))
