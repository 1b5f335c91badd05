"""Ranks tools by relevance to an intent, when a registry holds more than a session may be shown (R-MC-20).

1. A tool is known by the words of its name, of its argument names and of what its description says that it is for; what
   the description says it is NOT for does not count for it.
2. Words are compared without case and by their stem, so that `refunds`, `refunded` and `refund` are one.
3. A word weighs by how few of the tools have it (inverse document frequency): what every tool says tells nothing.
4. A word in the name counts three times, in an argument name twice, in the description once.
5. Equally near tools stay in the order of the registry: the same registry and intent give the same tools every time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from approvals.gate.rules.malformed import safe_name

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_FOR = re.compile(r"\bnot for\b.*?(?=\buse when\b|\Z)", re.IGNORECASE | re.DOTALL)
_ENDINGS = ("ations", "ation", "ions", "ings", "ing", "ion", "ies", "ed", "es", "e", "s", "y")
_LEAST_STEM = 3
# fmt: off
_EMPTY = frozenset(
    (
        "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "i", "in", "is", "it",
        "of", "on", "or", "please", "that", "the", "this", "to", "use", "was", "when", "which", "with", "you",
    )
)
# fmt: on
_NAME, _ARGUMENT, _DESCRIPTION = 3, 2, 1


@dataclass(frozen=True)
class ToolText:
    """A tool as far as an intent can be compared with it."""

    description: str
    arguments: tuple[str, ...] = ()


def nearest_tools(intent: str, tools: Mapping[str, ToolText], *, among: Sequence[str], most: int) -> list[str]:
    """Return at most `most` of the names in `among`, those nearest to the intent, in the order of `among`."""
    weights = {name: _weights(name, tools[name]) for name in among}
    spread = Counter(word for each in weights.values() for word in each)
    rare = {word: math.log(1 + len(weights) / count) for word, count in spread.items()}
    wanted = set(stems(intent))
    near = {name: sum(each[word] * rare[word] for word in wanted & each.keys()) for name, each in weights.items()}
    chosen = set(sorted(among, key=lambda name: -near[name])[:most])
    return [name for name in among if name in chosen]


def stems(text: str) -> list[str]:
    """Return the significant words of a text, stemmed."""
    words = _WORD.findall(_CAMEL.sub(" ", text).lower())
    return [_stem(word) for word in words if word not in _EMPTY]


def _weights(name: str, tool: ToolText) -> Mapping[str, int]:
    found: dict[str, int] = {}
    told = _NOT_FOR.sub(" ", tool.description)
    for text, weight in ((told, _DESCRIPTION), (" ".join(tool.arguments), _ARGUMENT), (name, _NAME)):
        found |= {word: found.get(word, 0) + weight for word in set(stems(text))}
    return found


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
            return word[: -len(ending)]
    return word


MOST = 200
"""How many withheld tools one report names."""
_MOST_WHY = 200


class WithheldReason(StrEnum):
    """The reason why a tool is withheld."""

    CHANGED = "changed"
    UNREGISTERED = "unregistered"


@dataclass(frozen=True, order=True)
class WithheldTool:
    """One tool that a gateway withholds from its agent; `why` describes the difference.

    The report is the gateway's word about a server and lets nothing through that the gate would refuse.
    """

    fate: WithheldReason
    tool: str
    why: str = ""

    def document(self) -> dict[str, Any]:
        """The form in which it is stored and returned."""
        return {"tool": self.tool, "fate": self.fate.value, "why": self.why}


def normalise_report(found: Iterable[WithheldTool]) -> tuple[WithheldTool, ...]:
    """Normalise a gateway's report for storage.

    Tool names come from the server and are made harmless first. A tool that is named twice counts once, with the graver
    finding.
    """
    plain = sorted(WithheldTool(one.fate, safe_name(one.tool), _plain(one.why)) for one in found)
    kept: dict[str, WithheldTool] = {}
    for one in plain:
        kept.setdefault(one.tool, one)
    return tuple(kept.values())[:MOST]


def read_report(kept: Iterable[Mapping[str, Any]]) -> tuple[WithheldTool, ...]:
    """Read a stored report."""
    return tuple(WithheldTool(WithheldReason(one["fate"]), str(one["tool"]), str(one["why"])) for one in kept)


def _plain(why: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in why)[:_MOST_WHY]
