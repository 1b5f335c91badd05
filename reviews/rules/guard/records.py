"""What the guard judges a message against: the tools of the session, and what is on record (R-CG-16).

1. A record is one action, or one call that the gate refused (`state` None). Its report (`code`, `text`, `completed`) is
   that of `reviews.reporting.rules.report`: the only words that may be told.
2. Nothing in here comes from the agent's own account of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from reviews.rules.guard.text.values import Held, held


@dataclass(frozen=True)
class Tool:
    """A tool of the session; `disclosed` False is one that exists and that the agent was not given.

    `done` and `object` are the claim phrases of its contract.
    """

    name: str
    description: str = ""
    mutating: bool = True
    done: tuple[str, ...] = ()
    object: tuple[str, ...] = ()
    target_template: str = ""
    disclosed: bool = True


@dataclass(frozen=True)
class Record:
    """One action on record, or a refused call. `done` and `open` are the parts of a partial one.

    `stale`: a read whose freshness has run out, or that a later change has overtaken.
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
    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    contradicted: bool = False
    stale: bool = False
    at: datetime | None = None

    @cached_property
    def held(self) -> Held:
        """The values that it holds, its evidence among them."""
        return held(self.target, self.arguments, self.evidence)


@dataclass(frozen=True)
class Ground:
    """All that a message is judged against."""

    tools: tuple[Tool, ...]
    records: tuple[Record, ...]

    @cached_property
    def disclosed(self) -> Mapping[str, Tool]:
        """The tools that the agent was given, by name."""
        return {tool.name: tool for tool in reversed(self.tools) if tool.disclosed}

    @cached_property
    def changing(self) -> frozenset[str]:
        """The names of the tools that change something."""
        return frozenset(tool.name for tool in self.tools if tool.mutating)

    @cached_property
    def reading(self) -> frozenset[str]:
        """The names of the tools that only read."""
        return frozenset(tool.name for tool in self.tools if not tool.mutating)

    @cached_property
    def reads(self) -> tuple[Record, ...]:
        """What is on record of tools that change nothing, or are not known."""
        return tuple(record for record in self.records if record.tool not in self.changing)


@dataclass(frozen=True)
class Stated:
    """A claim that the agent makes in so many fields, beside the message."""

    tool: str
    statement: str
    action_id: str | None = None
    target: str | None = None
