"""Systems of record: on the page, as CSV and in the API."""

from __future__ import annotations

from typing import Final

from console.systems import schemas
from console.systems.context import SystemStatus, all_systems
from console.systems.forms import pattern_title
from console.web.list_page import Column, GetRoute, ListPage, sortable

OPERATORS: Final = ("oper", "operator", "administrator")
WORDS: Final = {"CLOSED": "Answers", "HALF_OPEN": "Recovering", "OPEN": "Down", "NEVER": "Not read yet"}
STOPS: Final = {
    "BY_PERSON": "Paused by a person",
    "CIRCUIT_OPEN": "Paused while it is down",
    "TOO_MANY_WAIT": "Too many unverified actions",
    "WAITED_TOO_LONG": "An action has been unverified too long",
}


def standing_of(seen: SystemStatus) -> str:
    """The state of a system's circuit, or that it was never read."""
    return "NEVER" if seen.health.last_read_at is None else str(seen.standing)


def _answer(seen: SystemStatus) -> schemas.SystemSeen:
    health = schemas.SystemHealth.of(
        seen.health,
        standing=seen.standing,
        stop=seen.stop,
        limits=seen.limits,
        waiting=seen.debt.waiting,
        due=seen.debt.due,
        oldest_at=seen.debt.oldest_at,
    )
    return schemas.SystemSeen.of(seen, health=health)


SYSTEMS: Final = ListPage(
    "systems",
    columns=(
        sortable("system", "System", lambda row: row.name),
        sortable("pattern", "Pattern", lambda row: pattern_title(row.pattern)),
        sortable("state", "State", lambda row: WORDS[standing_of(row)]),
        sortable("read", "Last read", lambda row: row.health.last_read_at),
        Column("answered", "Last answer", lambda row: row.health.last_success_at),
        Column("latency", "Recent latency, ms", lambda row: row.health.latency_ms),
        Column("reads", "Reads", lambda row: row.health.reads),
        Column("unanswered", "Unanswered", lambda row: row.health.unanswered),
        Column("failures", "Consecutive failures", lambda row: row.health.failures),
        sortable("unverified", "Unverified actions", lambda row: row.debt.waiting),
        Column("due", "Reads due", lambda row: row.debt.due),
        Column("oldest", "Oldest", lambda row: row.debt.oldest_at),
        Column(
            "irreversible",
            "Irreversible actions",
            lambda row: STOPS.get(str(row.stop), "Paused") if row.stop is not None else "allowed",
        ),
        Column("id", "Id", lambda row: row.id),
    ),
    query=all_systems,
    get=GetRoute(
        path="/systems",
        operation="list_systems",
        summary="Registered systems and their health",
        answer=schemas.SystemSeen,
        told=lambda *_: _answer,
        readers=(*OPERATORS, "audit", "person"),
    ),
)
