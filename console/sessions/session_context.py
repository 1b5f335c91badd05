"""The texts about a session or a run for an agent and its user: context, summary, and next steps.

The words on actions are the reports' (`reviews.reporting.rules.report`); `approvals` knows the session. Both meet here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.sessions import queries as sessions_read
from ledger.actions.queries import actions as actions_queries
from ledger.actions.queries import freezes
from ledger.db import savepoint
from reviews.reporting.operations import session_reports
from reviews.reporting.rules import summary as rules
from reviews.reporting.rules.context import Capability, ReportedAction, SessionScene
from reviews.reporting.rules.results import SETTLED_STATES
from reviews.reporting.rules.summary import SessionSummary

if TYPE_CHECKING:
    from approvals.models import Session

log = logging.getLogger(__name__)
MOST = 500


@dataclass(frozen=True)
class SessionActions:
    """The actions of a session or a run, oldest first, and their context."""

    actions: tuple[Any, ...]
    items: tuple[ReportedAction, ...]
    scene: SessionScene


def actions_of_session(session: Session) -> SessionActions:
    """The reports of a session."""
    actions, made = _actions(session.tenant_id, session=session.id)
    items = session_reports.reported_actions(session.tenant_id, actions)
    return SessionActions(tuple(actions), tuple(items), _scene(session, items, unseen=made - len(items)))


def actions_of_run(tenant_id: UUID, run_id: str) -> SessionActions:
    """The reports of a run: its own steps, without those of recovery."""
    actions, made = _actions(tenant_id, run=run_id, relation="")
    items = session_reports.reported_actions(tenant_id, actions)
    return SessionActions(tuple(actions), tuple(items), SessionScene(unseen=made - len(items)))


def summary_document(session: Session) -> dict[str, Any]:
    """Return the summary of a session; the static text if none can be made (R-FB-05)."""
    scene = SessionScene(forced=session.forced_at is not None, limit=session.iteration_limit)
    try:
        with savepoint():
            told = actions_of_session(session)
            made = rules.build_summary(told.items, told.scene)
    except Exception:
        log.exception("no summary could be made of session %s", session.id)
        made = rules.fallback_summary(scene)
    return summary_fields(made, forced=scene.forced)


def summary_fields(made: SessionSummary, *, forced: bool) -> dict[str, Any]:
    """A summary as the API answers it."""
    return {"lines": list(made.lines), "text": made.text, "complete": made.complete, "forced": forced}


def remember_reported(
    session: Session, session_actions: SessionActions, found: Iterable[str], *, to: UUID, at: datetime
) -> None:
    """Record that these reports were given (R-RI-15)."""
    ids = set(found)
    by_id = {item.action_id: item.report for item in session_actions.items if item.action_id in ids}
    pairs = [(action, by_id[str(action.id)]) for action in session_actions.actions if str(action.id) in by_id]
    session_reports.remember_reports(tenant_id=session.tenant_id, told=pairs, to=to, at=at)


def _actions(tenant_id: UUID, **where: Any) -> tuple[list[Any], int]:
    """The newest actions, oldest first, with every older open one; and the total number."""
    newest = actions_queries.actions(tenant_id, limit=MOST, **where)
    if len(newest) < MOST:
        return newest[::-1], len(newest)
    older = actions_queries.open_actions_before(tenant_id, SETTLED_STATES, before=newest[-1].id, **where)
    return [*older, *reversed(newest)], actions_queries.count_actions(tenant_id, **where)


def _scene(session: Session, items: list[ReportedAction], *, unseen: int) -> SessionScene:
    return SessionScene(
        tools=tuple(_tools(session)),
        stops=tuple(_stops(session, items)),
        refused=sessions_read.count_refused_calls(session.tenant_id, session.id),
        unseen=unseen,
        forced=session.forced_at is not None,
        limit=session.iteration_limit,
    )


def _tools(session: Session) -> Iterable[Capability]:
    for tool in session.contract["tools"]:
        known = sessions_read.disclosed_contract(session.tenant_id, tool["digest"])
        yield Capability(
            name=tool["name"], version=tool["version"], description=known.description, mutating=known.mutating
        )


def _stops(session: Session, items: list[ReportedAction]) -> Iterable[str]:
    """The freezes that affect this session; their reasons are for people only."""
    touched = {
        "agent": {session.agent_id},
        "tool": set(session.contract["sub_tools_disclosed"]),
        "target": {item.target for item in items},
    }
    for freeze in freezes.freezes_in_force(session.tenant_id):
        if freeze.scope in ("all", "tenant"):
            yield "everything"
        elif freeze.value in touched.get(freeze.scope, ()):
            yield f"{freeze.scope} {freeze.value}"
