"""Render the post-mortem of an incident from ledger facts only (R-RB-09).

1. Every line comes from an event or from what events lead to; nobody writes in it what is not on record.
2. Text from outside stands as text: nothing of it can become a heading, a link, a table or HTML.
3. Each event is named by its place and hash, so that the document can be checked against the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

_MARKS = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>&~])")


@dataclass(frozen=True, kw_only=True)
class TimelineEvent:
    """One event: its subject, what happened, its actor, and its position in the record."""

    at: datetime
    about: str
    what: str
    who: str
    detail: str
    seq: int
    hash: str


@dataclass(frozen=True, kw_only=True)
class AffectedSubject:
    """An action or a case that belongs to the incident."""

    id: str
    title: str
    state: str
    found: str


@dataclass(frozen=True, kw_only=True)
class PlacedFreeze:
    """A freeze that was placed because of it."""

    what: str
    reason: str
    placed_at: datetime
    lifted_at: datetime | None
    decision: str


@dataclass(frozen=True, kw_only=True)
class CompletedStep:
    """A step of the runbook."""

    text: str
    who: str
    at: datetime | None
    evidence: str


@dataclass(frozen=True, kw_only=True)
class PostmortemFacts:
    """The content of a post-mortem."""

    id: str
    title: str
    kind: str
    severity: str
    state: str
    opened_at: datetime
    closed_at: datetime | None
    note: str
    runbook: str
    as_of: datetime
    actions: tuple[AffectedSubject, ...] = ()
    cases: tuple[AffectedSubject, ...] = ()
    freezes: tuple[PlacedFreeze, ...] = ()
    steps: tuple[CompletedStep, ...] = ()
    lines: tuple[TimelineEvent, ...] = ()


def render_markdown(facts: PostmortemFacts) -> str:
    """The post-mortem as Markdown."""
    parts = [
        f"# {_safe(facts.title)}\n",
        _bullets(_summary(facts)),
        _section("Closing note", [_safe(facts.note)] if facts.note else []),
        _section("Actions", [_bullets(_affected_line(each) for each in facts.actions)] if facts.actions else []),
        _section("Cases", [_bullets(_affected_line(each) for each in facts.cases)] if facts.cases else []),
        _section("Containment", [_bullets(_freeze_line(each) for each in facts.freezes)] if facts.freezes else []),
        _section(f"Runbook: {_safe(facts.runbook)}", [_bullets(map(_step, facts.steps))] if facts.steps else []),
        _section("Timeline", [_table(facts.lines)]),
        f"Made from the ledger as of {_time(facts.as_of)}. The timeline names each event by number and hash.\n",
    ]
    return "\n".join(part for part in parts if part)


def _summary(facts: PostmortemFacts) -> list[str]:
    closed = _time(facts.closed_at) if facts.closed_at else "not closed"
    return [
        f"Incident: {facts.id}",
        f"Kind: {facts.kind}",
        f"Severity: {facts.severity}",
        f"State: {facts.state}",
        f"Opened: {_time(facts.opened_at)}",
        f"Closed: {closed}",
    ]


def _affected_line(one: AffectedSubject) -> str:
    found = f", {_safe(one.found)}" if one.found else ""
    return f"{_safe(one.title)} ({one.id}): {_safe(one.state)}{found}"


def _freeze_line(one: PlacedFreeze) -> str:
    until = f"lifted {_time(one.lifted_at)}" if one.lifted_at else "in force"
    decision = f"; {one.decision}" if one.decision else ""
    return f"{_safe(one.what)}, frozen {_time(one.placed_at)}, {until}{decision}: {_safe(one.reason)}"


def _step(one: CompletedStep) -> str:
    if one.at is None:
        return f"[ ] {_safe(one.text)}"
    evidence = f": {_safe(one.evidence)}" if one.evidence else ""
    return f"[x] {_safe(one.text)} ({_safe(one.who)}, {_time(one.at)}{evidence})"


def _table(lines: Iterable[TimelineEvent]) -> str:
    rows = [
        f"| {_time(each.at)} | {_safe(each.about)} | {_safe(each.what)} | {_safe(each.who)}"
        f" | {_safe(each.detail)} | {each.seq}, {each.hash[:16]} |"
        for each in lines
    ]
    head = ["| Time | About | What | Who | Detail | Event |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) + "\n"


def _section(title: str, parts: list[str]) -> str:
    return f"## {title}\n\n" + "\n".join(part.rstrip("\n") + "\n" for part in parts) if parts else ""


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC") if at else ""


def _safe(text: str) -> str:
    """Text that stays text (rule 2)."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))
