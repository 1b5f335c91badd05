"""The ground of a judgement: the session's tools and the records of its actions (R-CG-16).

1. A record is one action, or one call that the gate refused (`state` None). Its report (`code`, `text`, `completed`) is
   that of `reviews.reporting.rules.report`: the only words that may be told.
2. `fields` set what was asked beside what is shown; `answer` is what the tool said, `reading` what the system of record
   said. Nothing in here comes from the agent's own account of itself.
3. `is_new` says that something became of it since the agent last spoke.
4. What a rule derives from a record alone it keeps there (`derived`): a session's records are asked for every message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from ledger.catalogue.rules.contract import Saying
from reviews.guarding.rules.folding import fold
from reviews.guarding.rules.once import once

_PARTS = re.compile(r"[/\s,;]+")
PLAIN = (str, int, float)
DEPTH = 8
_EXACT = frozenset({str, int, float, bool})
_NAMES = re.compile(r"(?=[^\s]*\d)\S{2,}|\S{5,}")


class Field(Protocol):
    """One field of an action: the requested value, the shown value, and whether they are equal."""

    @property
    def name(self) -> str: ...
    @property
    def asked(self) -> Any: ...
    @property
    def shown(self) -> Any: ...
    @property
    def same(self) -> bool | None: ...


@dataclass(frozen=True)
class Tool:
    """A tool of the session; `disclosed` False is one that exists and that the agent was not given.

    `done`, `object` and `sayings` are the claim phrases of its contract, `report` its receipt templates by language.
    """

    name: str
    description: str = ""
    mutating: bool = True
    done: tuple[str, ...] = ()
    object: tuple[str, ...] = ()
    target_template: str = ""
    disclosed: bool = True
    sayings: tuple[Saying, ...] = ()
    report: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        # Of its texts alone, whose hashes Python keeps: the tools of a session are looked up for every message.
        return hash((self.name, self.description, self.target_template))


@dataclass(frozen=True)
class Record:
    """One action on record, or a refused call.

    `completed`: its report says that it was done, or that it was a read and was answered. `stale`: a read whose
    freshness has run out, or that a later change has overtaken.
    """

    action_id: str
    tool: str
    target: str
    arguments: Mapping[str, Any]
    state: str | None
    completed: bool
    code: str
    text: str
    reason: str = ""
    evidence: tuple[str, ...] = ()
    contradicted: bool = False
    stale: bool = False
    at: datetime | None = None
    outcome: str = ""
    call_id: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)
    fields: Sequence[Field] = ()
    is_new: bool = True

    def marked(self, *, is_new: bool) -> Record:
        """The same record, new or not, with everything that was derived from it."""
        if is_new is self.is_new:
            return self
        made = copy(self)
        object.__setattr__(made, "is_new", is_new)
        return made

    @once
    def derived(self) -> dict[str, Any]:
        """A place for what other rules derive from this record alone, by name; it never depends on `is_new`."""
        return {}

    @once
    def differing(self) -> tuple[Field, ...]:
        """The fields whose shown value differs from the requested one."""
        return tuple(each for each in self.fields if each.same is False)

    @once
    def names(self) -> tuple[str, ...]:
        """The words with which a sentence can name it: those of its target, without the kind, and of its evidence."""
        kind, _, thing = self.target.partition("/")
        parts = [part for text in (thing or kind, *self.evidence) for part in _PARTS.split(fold(text).lower)]
        return tuple(dict.fromkeys(part.strip("#.") for part in parts if _NAMES.fullmatch(part)))

    @once
    def said(self) -> str:
        """Everything that it holds as one text in lower case, for whoever looks for a value."""
        parts = [self.target, *self.evidence, self.reason, *map(str, leaves(self.arguments)), self.shown]
        return "\n".join(parts).lower()

    @once
    def shown(self) -> str:
        """The values of its answer and its reading as one text in lower case."""
        return "\n".join(map(str, (*leaves(self.answer), *leaves(self.reading)))).lower()


@dataclass(frozen=True, slots=True)
class Note:
    """A statement of a message that the record does not support; it is shown in the receipt and changes nothing.

    `rule`: value, method, deed, promise, failure. `span` is the sentence, or the value, in the message.
    """

    rule: str
    text: str
    span: tuple[int, int]
    action_id: str | None = None


@dataclass(frozen=True)
class Ground:
    """Everything that a message is judged against.

    `heard`: what the user and the system said, where that is known. `is_whole` says that all tools of the agent that
    change something pass the console; otherwise it may have done what is not on record.
    """

    tools: tuple[Tool, ...]
    records: tuple[Record, ...]
    heard: str = ""
    is_whole: bool = True

    @once
    def derived(self) -> dict[str, Any]:
        """A cache for what other rules derive from this record, by name."""
        return {}

    @once
    def by_name(self) -> Mapping[str, Tool]:
        """The tools by name; one that the agent was given takes precedence over one that it was not."""
        return {tool.name: tool for tool in sorted(self.tools, key=lambda tool: tool.disclosed)}

    @once
    def changing(self) -> frozenset[str]:
        """The names of the tools that change something; an unknown tool counts as one."""
        return frozenset(tool.name for tool in self.tools if tool.mutating)

    @once
    def reads(self) -> tuple[Record, ...]:
        """The records of tools that change nothing."""
        return tuple(record for record in self.records if not self.changes(record))

    def changes(self, record: Record) -> bool:
        """Return whether an action was to change something."""
        return record.tool in self.changing or record.tool not in self.by_name

    @once
    def read_text(self) -> str:
        """All that readings showed, in lower case; what they were asked is the agent's own."""
        return "\n".join("\n".join((each.shown, *each.evidence)).lower() for each in self.reads)


@dataclass(frozen=True)
class Stated:
    """A claim that the agent makes in fields, about the message or a part of it (`span`)."""

    tool: str
    statement: str
    action_id: str | None = None
    target: str | None = None
    span: tuple[int, int] | None = None


def leaves(value: object) -> list[Any]:
    """The plain values in nested ones; what is nested deeper than eight levels is left out."""
    found: list[Any] = []
    _add_leaves(value, found, DEPTH)
    return found


def _add_leaves(value: object, found: list[Any], depth: int) -> None:
    # What JSON gives is of exactly these types: asking for them first costs a fraction of asking for a Mapping.
    if type(value) in _EXACT:
        found.append(value)
    elif isinstance(value, dict | Mapping):
        for each in value.values() if depth else ():
            _add_leaves(each, found, depth - 1)
    elif isinstance(value, list | tuple):
        for each in value if depth else ():
            _add_leaves(each, found, depth - 1)
    elif value is not None:
        found.append(value)
