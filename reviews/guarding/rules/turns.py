"""Finds the actions that a sentence is about.

1. Of several tries of the same tool on the same target the last one counts, whatever its arguments. A refused call of
   which no target is known is replaced by any later call of its tool.
2. A sentence that names targets or confirmation codes is about those actions, however old they are.
3. Any other sentence is about what changed since the agent last spoke; where nothing did, about the tool's last action.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reviews.guarding.rules.records import Ground, Record

_WORD = re.compile(r"[^\s,;!?()\[\]{}\"'<>*`]+")


def last_tries(records: Iterable[Record]) -> tuple[Record, ...]:
    """The last try of each tool on each target, in the order in which they were made (rule 1)."""
    tries: dict[tuple[str, str], Record] = {}
    for record in records:
        key = (record.tool, record.target)
        tries.pop((record.tool, ""), None)
        tries.pop(key, None)
        tries[key] = record
    return tuple(tries.values())


def last_changes(ground: Ground) -> tuple[Record, ...]:
    """The last tries of the changes of a session, found once."""
    found = ground.derived.get("last changes")
    if found is None:
        found = ground.derived["last changes"] = last_tries(filter(ground.changes, ground.records))
    return found


def named_in(sentence: str, records: Sequence[Record]) -> tuple[Record, ...]:
    """The records that a sentence in lower case names by a target or a code, and by more of it than the others."""
    words = {word.strip("#.:") for word in _WORD.findall(sentence)}
    words |= {part for word in words for part in word.split("/")}
    shares = [(len(words.intersection(record.names)), record) for record in records]
    most = max((share for share, _ in shares), default=0)
    return tuple(record for share, record in shares if most and share == most)


def meant_by(sentence: str, records: Sequence[Record]) -> tuple[Record, ...]:
    """The records that a sentence is about (rules 2 and 3)."""
    if len(records) < 2:
        return tuple(records)
    named = named_in(sentence, records)
    if named:
        return named
    return tuple(record for record in records if record.is_new) or tuple(records[-1:])
