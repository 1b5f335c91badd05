"""Search the record by person, event, object and time: newest or oldest first, page by page, never counted.

Two orders, for what each can be found by. A search over all events goes by event id, which is their time. A search
that names an agent, a tool or a target goes over those actions, the newest first, and each one's events, the newest
first. Both go on behind the last row that was seen, so a page costs the same at the end of the record as at its begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from django.db import OperationalError

from ledger.db import execute, savepoint
from ledger.log.queries.log import LogPosition
from ledger.record.rules.ids import lower_bound
from ledger.record.rules.refusals import Refused

PATIENCE_MS = 5000
PEOPLE = ("person", "operator", "auditor")
"""The kinds of actors whose events have an index of their own; those of machines are found by their actions."""
USUAL = (
    "proposed",
    "validated",
    "grant_minted",
    "execution_started",
    "observed",
    "verification_started",
    "verified",
    "reconciled",
    "session_opened",
)
"""Kinds that nearly every action has: so frequent that reading from the newest on finds them at once."""


class SearchTooWide(Refused):
    """The search took too long; narrow the period or the filters."""

    code = "SEARCH_TOO_WIDE"
    status = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """The conditions of a search; unset ones do not matter."""

    actor: UUID | None = None
    actor_kind: str = ""
    kind: str = ""
    subject_kind: str = ""
    subjects: tuple[UUID, ...] = ()
    agent: str = ""
    tool: str = ""
    target: str = ""
    since: datetime | None = None
    until: datetime | None = None
    upwards: bool = False
    """The oldest first, in either order."""

    @property
    def behind(self) -> LiteralString:
        """The SQL comparison that selects rows after the cursor."""
        return " > " if self.upwards else " < "

    @property
    def way(self) -> LiteralString:
        """The direction of the order."""
        return "" if self.upwards else " DESC"

    @property
    def by_action(self) -> bool:
        """Return whether the search goes over actions rather than over time."""
        return bool(self.agent or self.tool or self.target)


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """One event, as far as a list shows it."""

    subject_id: UUID
    seq: int
    id: UUID
    subject_kind: str
    kind: str
    from_state: str
    state: str
    actor_kind: str
    actor_id: UUID
    at: datetime


_COLUMNS: LiteralString = (
    "e.subject_id, e.seq, e.id, e.subject_kind, e.kind, e.from_state, e.state, e.actor_kind, e.actor_id, e.at"
)


class _Statement:
    """A statement that grows by conditions, each with its values."""

    def __init__(self, tenant_id: UUID) -> None:
        self.values: list[Any] = [tenant_id]
        self.where: LiteralString = ""

    def add(self, before: LiteralString, value: object, after: LiteralString = "") -> None:
        self.values.append(value)
        mark: LiteralString = _MARKS[len(self.values)]
        self.where += before + mark + after


_MARKS: tuple[LiteralString, ...] = (
    *("$0", "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$16"),
)


def search_events(tenant_id: UUID, wanted: SearchQuery, *, before: str = "", limit: int = 50) -> list[FoundEvent]:
    """A page of events after the position `before` (from `next_cursor` of the last row of the previous page)."""
    try:
        with savepoint():
            execute("SELECT set_config('statement_timeout', $1, true)", str(PATIENCE_MS))
            rows = (_over_actions if wanted.by_action else _over_time)(tenant_id, wanted, before, limit)
            execute("SELECT set_config('statement_timeout', '0', true)")
    except OperationalError as error:
        if "statement timeout" in str(error):
            raise SearchTooWide from None
        raise
    return [FoundEvent(*row) for row in rows]


def next_cursor(wanted: SearchQuery, last: FoundEvent) -> str:
    """The cursor of the next page."""
    return f"{last.subject_id}.{last.seq}" if wanted.by_action else str(last.id)


def _over_time(tenant_id: UUID, wanted: SearchQuery, before: str, limit: int) -> list[tuple[Any, ...]]:
    found = _conditions(tenant_id, wanted)
    if before:
        found.add(" AND e.id" + wanted.behind, UUID(before.partition(".")[0]))
    source: LiteralString = "ledger_event e"
    if wanted.subjects:
        # Few rows in all: read whole, so that no plan goes through the record by time to find them.
        source = "(SELECT * FROM ledger_event WHERE tenant_id = $1 AND subject_id = ANY("
        found.values.append(list(wanted.subjects))
        source += _MARKS[len(found.values)] + ") OFFSET 0) e"
    found.values.append(limit)
    end = _MARKS[len(found.values)]
    return execute(
        "SELECT "
        + _COLUMNS
        + " FROM "
        + source
        + " WHERE e.tenant_id = $1"
        + found.where
        + " ORDER BY e.id"
        + wanted.way
        + " LIMIT "
        + end,
        *found.values,
    )


def _over_actions(tenant_id: UUID, wanted: SearchQuery, before: str, limit: int) -> list[tuple[Any, ...]]:
    found = _conditions(tenant_id, wanted)
    if wanted.agent:
        found.add(" AND a.agent = ", wanted.agent)
    if wanted.tool:
        found.add(" AND a.tool = ", wanted.tool)
    if wanted.target and _is_target(tenant_id, wanted.target):
        found.add(" AND a.target = ", wanted.target)
    elif wanted.target:
        found.add(" AND a.target ILIKE ", f"%{_plain(wanted.target)}%")
    if wanted.until:
        found.add(" AND a.id < ", lower_bound(wanted.until))
    if before:
        subject, _, seq = before.partition(".")
        found.add(" AND a.id" + wanted.behind.rstrip() + "= ", UUID(subject))
        found.add(" AND (a.id, e.seq)" + wanted.behind + "(", UUID(subject), ", ")
        found.values.append(int(seq or 0))
        found.where += _MARKS[len(found.values)] + ")"
    found.values.append(limit)
    end = _MARKS[len(found.values)]
    return execute(
        "SELECT " + _COLUMNS + " FROM ledger_action a JOIN ledger_event e ON e.tenant_id = a.tenant_id"
        " AND e.subject_id = a.id WHERE a.tenant_id = $1"
        + found.where
        + f" ORDER BY a.id{wanted.way}, e.seq{wanted.way} LIMIT "
        + end,
        *found.values,
    )


def _conditions(tenant_id: UUID, wanted: SearchQuery) -> _Statement:
    found = _Statement(tenant_id)
    if wanted.actor:
        found.add(" AND e.actor_id = ", wanted.actor)
        if wanted.actor_kind in PEOPLE:
            # So that the planner knows that the index of what people did holds all of it.
            found.where += " AND e.actor_kind IN ('person', 'operator', 'auditor')"
    if wanted.kind:
        found.add(" AND e.kind = ", wanted.kind)
    if wanted.subject_kind:
        found.add(" AND e.subject_kind = ", wanted.subject_kind)
    if wanted.since:
        found.add(" AND e.id >= ", lower_bound(wanted.since))
    if wanted.until:
        found.add(" AND e.id < ", lower_bound(wanted.until))
    return found


def _is_target(tenant_id: UUID, target: str) -> bool:
    """Return True if this is the full name of a target. Part of a name is searched action by action, because row-level
    security prevents using an index of words.
    """
    return bool(execute("SELECT 1 FROM ledger_action WHERE tenant_id = $1 AND target = $2 LIMIT 1", tenant_id, target))


def _plain(text: str) -> str:
    """Text without wildcards."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def log_positions(tenant_id: UUID, events: Iterable[tuple[UUID, int]]) -> dict[tuple[UUID, int], LogPosition]:
    """Return the positions of these events (subject, seq) in their logs; events without a leaf are left out."""
    wanted = list(events)
    rows = execute(
        "SELECT l.subject_id, l.seq, l.log, l.index, coalesce(l.index < t.signed_size, false)"
        " FROM ledger_leaf l LEFT JOIN ledger_tip t ON t.tenant_id = l.tenant_id AND t.log = l.log"
        " WHERE l.tenant_id = $1 AND (l.subject_id, l.seq) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))",
        *(tenant_id, [subject for subject, _ in wanted], [seq for _, seq in wanted]),
    )
    return {(subject, seq): LogPosition(log, index, sealed) for subject, seq, log, index, sealed in rows}
