"""What the calls of telling answer, for the OpenAPI document: context, summary, and what to do next."""

from __future__ import annotations

from datetime import datetime

from console.api.answers import Answer, CallResult, Part


class Next(Answer):
    code: str
    text: str
    tools: list[str]


class Behaviour(Answer):
    code: str
    text: str


class Fact(Answer):
    action_id: str
    tool: str
    target: str
    state: str
    result: str
    code: str
    statement: str
    trust_level: int
    as_of: datetime
    trace_id: str
    discrepancy: str | None
    parts: list[Part]
    version: str | None
    next_behaviour: Behaviour


class Tool(Answer):
    name: str
    version: str
    description: str
    mutating: bool


class More(Answer):
    facts: int
    unresolved: int
    unseen: int


class Context(Answer):
    session_id: str
    as_of: datetime
    text: str
    facts: list[Fact]
    unresolved: list[Fact]
    more: More
    manifest: list[Tool]
    stops: list[str]
    refused: dict[str, int]
    next: Next


class Summary(Answer):
    lines: list[str]
    text: str
    complete: bool
    forced: bool


class CallResults(Answer):
    results: list[CallResult]
    nudge: str
    next: Next
    summary: Summary | None
