"""End the open work of an agent that is revoked, or that loses a tool by a registration.

What may no longer be done is refused from the commit of the revocation or registration on, by one look at the registry
(`registry_entry.refusal_to_act`). What follows here is in order: actions that have not started end, their approvals are
withdrawn, their grants are void, the agent's sessions end. The first portion is part of the same transaction; a row of
`approvals_due`, written in it too, stands for the rest. After a crash the next tick finds that row and goes on. The row
stays as long as something of before may still come to be started, such as an attempt that is to be repeated.

An attempt that has started is left alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import DatabaseError

from approvals.agents import queries as agents_queries
from approvals.agents.operations.registry_entry import refusal_to_act
from approvals.agents.rules.registry import CapabilityNotRegistered, RegistryFingerprintMismatch
from approvals.models import Agent, AgentVersion, Deadline, Session
from approvals.requests.operations.requests import LIVE, end_unexecuted_action, void_approval, void_grants
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from ledger.db import execute, savepoint
from ledger.record import operations as ledger
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from ledger.models import Action

DUE = "stop"
PAGE = 200
PORTION = 50
"""The number of actions, and of sessions, that one transaction ends."""
_AGAIN = timedelta(seconds=30)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Ended:
    """The actions, requests, grants and sessions that one portion has ended."""

    actions: list[UUID] = field(default_factory=list)
    requests: list[UUID] = field(default_factory=list)
    grants: int = 0
    sessions: list[UUID] = field(default_factory=list)


def begin(agent: Agent, *, at: datetime) -> None:
    """Start ending the work that an agent may no longer have done; the caller has locked its record and changed its
    row.
    """
    execute(
        "INSERT INTO approvals_due (tenant_id, subject_id, what, due_at) VALUES ($1, $2, $3, $4)"
        " ON CONFLICT (tenant_id, subject_id, what) DO UPDATE SET due_at = excluded.due_at",
        *(agent.tenant_id, agent.id, DUE, at),
    )
    go_on(tenant_id=agent.tenant_id, agent_row=agent.id, at=at)


def go_on(*, tenant_id: UUID, agent_row: UUID, at: datetime) -> bool:
    """End one portion of the work that an agent may no longer have done; return True if more remains."""
    # The agent's record first, then actions: as in a revocation, so that no two wait for each other.
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=agent_row, kind="agent")
    agent, current = agents_queries.agent_with_registration(tenant_id, agent_row)
    ended = _end_actions(agent, current, at=at)
    for session_id in agents_queries.stopped_sessions(agent, at=at, limit=PORTION):
        _end_session(agent, session_id, at=at)
        ended.sessions.append(session_id)
    if ended.actions or ended.sessions:
        ledger.append(head, _ended_event(ended), actor=ledger.SYSTEM, at=at)
    more = PORTION in (len(ended.actions), len(ended.sessions))
    if more or agents_queries.may_leave_more(agent, at=at):
        due_at = at if more else at + _AGAIN
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=agent.id, what=DUE).update(due_at=due_at)
    else:
        Deadline.objects.filter(tenant_id=tenant_id, subject_id=agent.id, what=DUE).delete()
    return more


def _end_actions(agent: Agent, current: AgentVersion | None, *, at: datetime) -> _Ended:
    """End the agent's forbidden actions that have not started; an action that cannot be ended does not delay the
    others.
    """
    ended, after = _Ended(), None
    while True:
        page = agents_queries.stopped_actions(agent, after=after, limit=PAGE)
        for action, session in page:
            refusal = refusal_to_act(session, agent, current, tool=action.tool, version=action.tool_version)
            if refusal is None or isinstance(refusal, RegistryFingerprintMismatch):
                # An altered entry starts nothing either, but whether the agent has lost anything is not known.
                continue
            try:
                with savepoint():
                    _end_action(action, refusal, ended, at=at)
            except (DatabaseError, Refused):
                log.exception("the action %s of a stopped agent was not ended", action.id)
            if len(ended.actions) == PORTION:
                return ended
        if len(page) < PAGE:
            return ended
        after = page[-1][0].id


def _end_action(action: Action, refusal: Refused, ended: _Ended, *, at: datetime) -> None:
    tenant_id = action.tenant_id
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action.id, kind="action")
    if head.state != "VALIDATED":
        return
    is_tool = isinstance(refusal, CapabilityNotRegistered)
    why = refusal.detail if is_tool else "The agent was revoked."
    approval = approvals.approval(tenant_id, action.approval_id) if action.approval_id else None
    withdrawn = approval is not None and approval.state in LIVE
    if approval is not None and withdrawn:
        # Before its target was read nobody was asked, so nobody needs to hear of it.
        kind = "approval_voided" if approval.state == "PREPARING" else "approval_withdrawn"
        void_approval(approval=approval, reason=why, kind=kind, at=at)
    grants = void_grants(tenant_id=tenant_id, action_id=action.id, at=at)
    end_unexecuted_action(
        head,
        action,
        code="TOOL_WITHDRAWN" if is_tool else "AGENT_REVOKED",
        reason=f"{why} This had not started{' again' if action.attempt_count else ''}, and will not.",
        at=at,
    )
    ended.actions.append(action.id)
    ended.grants += grants
    if approval is not None and withdrawn:
        ended.requests.append(approval.id)


def _end_session(agent: Agent, session_id: UUID, *, at: datetime) -> None:
    # Its row first, as a call does: no call is in the middle of it.
    sessions_queries.lock_session(agent.tenant_id, session_id)
    head = ledger.lock_subject(tenant_id=agent.tenant_id, subject_id=session_id, kind="session")
    if head.state == "OPEN":
        happening = ledger.NewEvent(kind="session_ended", to="CLOSED", detail={"reason": "The agent was revoked."})
        ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
        Session.objects.filter(tenant_id=agent.tenant_id, id=session_id).update(closed_at=at)


def _ended_event(ended: _Ended) -> ledger.NewEvent:
    return ledger.NewEvent(
        kind="agent_work_ended",
        detail={
            "actions": [str(each) for each in ended.actions],
            "requests": [str(each) for each in ended.requests],
            "grants": ended.grants,
            "sessions": [str(each) for each in ended.sessions],
        },
    )
