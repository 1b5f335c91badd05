"""Evidence that an agent gives with its call: unverified statements, shown to reviewers (R-AP-04).

A call may bring `evidence`: at most 20 items, each with a `statement`, a `link` or an `id`. It is kept with the
proposal and committed in its first event; the statement that a voter signs names that commitment, because it was on
their screen. No rule of the gate, of a policy or of a verdict reads it, and no executor gets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledger.record.rules.canonical import NotCanonical, canonical, parse

PURPOSE = "agent_evidence"
MAX_ITEMS = 20
LONGEST = {"statement": 2000, "link": 512, "id": 512}
"""The members of an item, and how many characters each may have."""

SHAPE = (
    f"`evidence` is a list of at most {MAX_ITEMS} items, each with `statement` (at most {LONGEST['statement']}"
    f" characters), `link` or `id` (at most {LONGEST['link']} each) as text, and nothing else."
)


@dataclass(frozen=True)
class EvidenceItem:
    """One item of an agent's evidence; what it left out is empty."""

    statement: str = ""
    link: str = ""
    id: str = ""

    def document(self) -> dict[str, str]:
        """The item as it was sent."""
        return {name: value for name in LONGEST if (value := getattr(self, name))}


def read_evidence(raw: object) -> tuple[EvidenceItem, ...] | None:
    """Return the items of `evidence`, or None if it is malformed (`SHAPE`)."""
    if raw is None:
        return ()
    if not isinstance(raw, list) or len(raw) > MAX_ITEMS or not all(_is_item(each) for each in raw):
        return None
    return tuple(EvidenceItem(**each) for each in raw)


def write_evidence(items: tuple[EvidenceItem, ...]) -> bytes:
    """The items in stored form."""
    return canonical([each.document() for each in items])


def parse_evidence(data: bytes) -> tuple[EvidenceItem, ...]:
    """Read stored items: the inverse of `write_evidence`."""
    return tuple(EvidenceItem(**each) for each in parse(data))


def _is_item(raw: Any) -> bool:
    if not isinstance(raw, dict) or not raw or not raw.keys() <= LONGEST.keys():
        return False
    if any(not isinstance(value, str) or not 0 < len(value) <= LONGEST[name] for name, value in raw.items()):
        return False
    try:
        canonical(raw)
    except NotCanonical:
        return False
    return True
