"""The result of stopping an agent: what was stopped, what still runs, and what can be reversed; for page and API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.agents import queries as agents_queries
from approvals.execution import queries as execution_queries
from approvals.sessions.queries import disclosed_contract
from ledger.actions.queries import actions
from ledger.record.queries import events

if TYPE_CHECKING:
    from approvals.models import Agent, Attempt
    from ledger.models import Action, Event

MOST_LISTED = 100


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The ended work, by the events that ended it; `left` counts unstarted work that is still to be ended."""

    actions: Sequence[UUID]
    requests: Sequence[UUID]
    grants: int
    sessions: Sequence[UUID]
    left: int


@dataclass(frozen=True, kw_only=True)
class StartedWork:
    """An action that has started and not ended, with its newest attempt."""

    action: Action
    attempt: Attempt


@dataclass(frozen=True, kw_only=True)
class UndoableWork:
    """A verified change of the agent, and the tool by which its contract reverses it."""

    action: Action
    tool: str


@dataclass(frozen=True, kw_only=True)
class StopResult:
    """The present result of an agent's newest revocation; each list has the newest hundred."""

    at: datetime
    by: UUID
    reason: str
    stopped: Stopped
    running: Sequence[StartedWork]
    undoable: Sequence[UndoableWork]


def stop_result(agent: Agent) -> StopResult | None:
    """The result of stopping the agent; None if it was never stopped."""
    history = events.history(agent.tenant_id, agent.id)
    places = [place for place, (event, _, _) in enumerate(history) if event.kind == "agent_revoked"]
    if not places:
        return None
    event, _, detail = history[places[-1]]
    since = history[places[-1] + 1 :]
    later = [place for place, (each, _, _) in enumerate(since) if each.kind == "agent_registered"]
    # The first registration brings the agent back; what a later one takes from it is another story.
    since = since[: later[1]] if len(later) > 1 else since
    running = execution_queries.started_work(agent.tenant_id, agent.agent_id, limit=MOST_LISTED)
    return StopResult(
        at=event.at,
        by=event.actor_id,
        reason=str((detail or {}).get("reason") or ""),
        stopped=_ended_work(agent, since),
        running=[StartedWork(action=action, attempt=attempt) for action, attempt in running],
        undoable=_undoable(agent),
    )


def _ended_work(agent: Agent, since: Sequence[tuple[Event, Any, Mapping[str, Any] | None]]) -> Stopped:
    ended = [detail for event, _, detail in since if event.kind == "agent_work_ended" and detail is not None]
    ids = {
        name: [UUID(each) for detail in ended for each in detail[name]] for name in ("actions", "requests", "sessions")
    }
    left = len(agents_queries.stopped_actions(agent, after=None, limit=MOST_LISTED)) if agent.revoked_at else 0
    return Stopped(
        actions=ids["actions"],
        requests=ids["requests"],
        grants=sum(detail["grants"] for detail in ended),
        sessions=ids["sessions"],
        left=left,
    )


def _undoable(agent: Agent) -> list[UndoableWork]:
    newest = actions.actions(
        agent.tenant_id, agent=agent.agent_id, state="RECONCILED_SUCCESS", before=None, limit=MOST_LISTED
    )
    found = []
    for action in newest:
        recovery = disclosed_contract(action.tenant_id, action.contract_digest).recovery
        tool = recovery.rollback_tool or recovery.compensation_tool
        if action.mutating and tool and not action.reversed:
            found.append(UndoableWork(action=action, tool=tool))
    return found
