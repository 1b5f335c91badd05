"""The guard's own words: sentences that say what is on record, and nothing that is not (R-CG-15, C-60).

1. A frame tells a record's report (`text`) and its reason, or that nothing is on record.
2. A sentence that equals one of the frames of this very ground is never a claim: it is what the ledger holds. The same
   words about another action, or before its state was so, are judged as any other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reviews.rules.guard.binding.bound import Bound
from reviews.rules.guard.codes import Violation
from reviews.rules.guard.records import Ground, Record, Tool

NO_TOOL = "I have no tool for that, so I cannot do it."
NOTHING = "Nothing of this has been attempted; there is no record of it."
NOT_ALL = "Not everything is done."
OTHER = "What is on record is something else."
MARKERS = ("About ", NO_TOOL, NOTHING[:-1], NOT_ALL, OTHER)
"""How every frame begins; a text without any of them holds no frame."""
FRAMED = MARKERS[0].lower()
"""How a frame of a record begins in a text that is read."""
MOST = 5

_WORDS = re.compile(r"[_\-.]+")
_REPORTED = re.compile(r"\s+")


def told(record: Record, tool: Tool | None) -> str:
    """What may be told of a record, in one line."""
    parts = [f"About {subject(record, tool)}: {_flat(record.text)}"]
    if record.reason:
        parts.append(f"Reason: {_ended(_flat(record.reason))}")
    return " ".join(parts)


def unevidenced(record: Record, tool: Tool | None) -> str:
    """That a success has nothing to cite; of what a person attested, that this is so."""
    if record.code == "ATTESTED":
        return told(record, tool)
    return (
        f"About {subject(record, tool)}: no receipt, confirmation or address is on record that could be cited for it."
    )


def out_of_date(record: Record, tool: Tool | None) -> str:
    """That a reading must be taken again."""
    return f"About {subject(record, tool)}: what I read is out of date and must be read again."


def phantom(tool: Tool | None) -> str:
    """That nothing was attempted with a tool."""
    return f"{NOTHING[:-1]} ({spoken(tool.name)})." if tool else NOTHING


def subject(record: Record, tool: Tool | None) -> str:
    """What a record is about, in words."""
    thing = f"the {_flat(tool.object[0])}" if tool and tool.object else f"“{spoken(record.tool)}”"
    target = _flat(record.target).replace("/", " ")
    return f"{thing} ({target})" if target else thing


def spoken(name: str) -> str:
    """The name of a tool as words."""
    return _WORDS.sub(" ", name).strip()


def _flat(text: str) -> str:
    return _REPORTED.sub(" ", text).strip()


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def framed(bound: Bound, ground: Ground) -> tuple[str, ...]:
    """The sentences that stand in the place of a claim that the record does not bear out."""
    tools = {tool.name: tool for tool in ground.tools}
    telling = [told(record, tools.get(record.tool)) for record in bound.records[:MOST]]
    match bound.code:
        case Violation.IMAGINED_CAPABILITY:
            return (NO_TOOL,)
        case Violation.UNEVIDENCED:
            return tuple(unevidenced(record, tools.get(record.tool)) for record in bound.records[:MOST])
        case Violation.STALE_STATE:
            return tuple(out_of_date(record, tools.get(record.tool)) for record in bound.records[:MOST])
        case Violation.SILENT_CHAIN:
            return (NOT_ALL, *telling)
        case Violation.WRONG_TARGET:
            return (OTHER, *telling)
    return tuple(telling) or (phantom(bound.tool),)


def all_frames(ground: Ground) -> Iterable[str]:
    """Every frame of this ground (rule 2), the longest first."""
    tools = {tool.name: tool for tool in ground.tools}
    found = {NO_TOOL, NOTHING, NOT_ALL, OTHER}
    found |= {phantom(tool) for tool in ground.tools}
    for record in ground.records:
        tool = tools.get(record.tool)
        found |= {told(record, tool), unevidenced(record, tool), out_of_date(record, tool)}
    return sorted(found, key=len, reverse=True)
