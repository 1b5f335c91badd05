"""Reports word for word: what the record itself says of an action is no claim of the agent's (R-RI-14, R-FB-03).

1. The words of a report that completes nothing are quoted where they are said of their own action: its target stands
   before them on the same line, or there is no other action to mistake it for.
2. The words of a report of completion are quoted only behind the names (`tool on target`) of actions that all are
   reported in these words, as a summary lists them; else they are judged like any claim, so that nobody lends them to
   another action.
3. A claim is passed over where all of it lies in quoted words, or in these and the action's name before them. What
   begins before or ends behind is judged as ever.
"""

from __future__ import annotations

import re

from reviews.rules.guard.reading.claims import Claim
from reviews.rules.guard.records import Ground, Record

_MORE = re.compile(r" and \d+ more$")


def unquoted(claims: list[Claim], message: str, ground: Ground) -> list[Claim]:
    """The claims that are the agent's own (rules 1 to 3)."""
    spans = [span for record in ground.records for span in _spans(message, record, ground)] if claims else []
    return [claim for claim in claims if not any(begin <= claim.start and claim.end <= end for begin, end in spans)]


def _spans(message: str, record: Record, ground: Ground) -> list[tuple[int, int]]:
    """Where the record's report is quoted, with its name where that leads it."""
    spans = []
    start = message.find(record.text) if record.text else -1
    while start >= 0:
        before = message[message.rfind("\n", 0, start) + 1 : start]
        if _is_its_own(before, record, ground):
            name = f"{record.tool} on {record.target}: "
            spans.append((start - len(name) if before.endswith(name) else start, start + len(record.text)))
        start = message.find(record.text, start + 1)
    return spans


def _is_its_own(before: str, record: Record, ground: Ground) -> bool:
    if not record.completed:
        return len(ground.records) == 1 or bool(record.target and record.target in before)
    told_so = {f"{each.tool} on {each.target}" for each in ground.records if each.text == record.text}
    names = before.rpartition(". ")[2].removesuffix(": ").rpartition(": ")[2]
    return before.endswith(": ") and all(name in told_so for name in _MORE.sub("", names).split(", "))
