"""Proposes ordered recovery actions as ordinary actions (architecture, "Orders").

A recovery action runs as the tenant's `recovery` agent, in a session pinned to the original goal. It passes the same
gate and needs its own approval where its own contract says so; its requester is the person who ordered it, who may
therefore not approve it. A unique key of the record allows one action per ordering event. After a crash, the next tick
finds the order without an action.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.agents import queries as agents_read
from approvals.agents.operations import agents
from approvals.agents.rules.registry import RegistryEntry
from approvals.execution.operations import executions
from approvals.gate.operations import actions, calls
from approvals.sessions import queries as sessions_read
from approvals.sessions.operations import sessions
from approvals.sessions.operations.sessions import RECOVERY_AGENT
from ledger.actions import operations as ledger_orders
from ledger.actions.queries import actions as actions_queries
from ledger.actions.queries import runs
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.remedies import Relation
from ledger.record import operations as ledger

if TYPE_CHECKING:
    from ledger.models import Action

TTL_S = 86_400
# Refusals that time or a person can remove: the order waits instead of failing.
_TEMPORARY_REFUSALS = frozenset({"TARGET_FROZEN", "DUPLICATE_BLOCKED"})
_ENTRY_FIELDS = {
    Relation.COMPENSATION: "compensation_action_id",
    Relation.ROLLBACK: "rollback_action_id",
    Relation.FORWARD: "recovery_action_id",
    Relation.CORRECTION: "recovery_action_id",
}


class OrderNotReady(Exception):
    """The recovery action cannot be proposed now; the attempt is rolled back."""


def propose_order(*, tenant_id: UUID, action_id: UUID, event_id: UUID, at: datetime) -> UUID | None:
    """Propose the action that an event ordered; return its id, or None if it exists or was refused.

    `OrderNotReady` rolls back the caller's transaction and leaves the order as it is.
    """
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    ledger_orders.mark_order_proposed(tenant_id=tenant_id, event_id=event_id, at=at)
    detail = runs.order_details(tenant_id, action_id).get(event_id)
    if detail is None or detail["refused"] or actions_queries.child_of(tenant_id, event_id) is not None:
        return None
    parent = actions_queries.action(tenant_id, action_id)
    assert parent is not None
    step = runs.order_plan(tenant_id, detail)["steps"][detail["number"]]
    answer = _propose_recovery(parent, event_id, detail, step, at=at)
    if not answer["accepted"]:
        _record_refusal(head, event_id, answer["result"]["error"], at=at)
        return None
    block = {"recovery": {_ENTRY_FIELDS[Relation(detail["relation"])]: answer["action_id"]}}
    event = ledger.NewEvent(
        kind="recovery_proposed",
        changes=block,
        detail={"order": str(event_id), "action_id": answer["action_id"], "tool": step["tool"]},
    )
    ledger.append(head, event, actor=ledger.SYSTEM, at=at)
    return UUID(answer["action_id"])


def _propose_recovery(
    parent: Action, event_id: UUID, detail: dict[str, Any], step: dict[str, Any], *, at: datetime
) -> Any:
    """Propose the recovery action in its own session, which is closed afterwards; return the gate's answer."""
    tenant_id = parent.tenant_id
    if not _may_call(tenant_id, step["tool"], at=at):
        return _refused_answer("AGENT_NOT_REGISTERED", "The recovery agent is revoked, or the tool is not registered.")
    goal = sessions_read.session(tenant_id, parent.session_id)
    assert goal is not None
    wanted = sessions.SessionRequest(
        agent_id=RECOVERY_AGENT, goal=goal.goal, ttl_seconds=TTL_S, tools=(step["tool"],), run_id=parent.run_id
    )
    session = sessions.open_session(tenant_id=tenant_id, wanted=wanted, key_actor=ledger.SYSTEM.id, at=at)
    call = {
        "call_id": str(event_id),
        "tool": step["tool"],
        "arguments": step["arguments"],
        "pin_hash": session.pin_hash,
    }
    answers, _ = calls.propose_calls(
        tenant_id=tenant_id,
        session_id=session.id,
        key_actor=ledger.SYSTEM.id,
        raw_calls=[call],
        trace=actions.trace_of(parent),
        compile_predicate=lambda _contract, _text: None,
        at=at,
        origin=calls.RecoveryOrigin(
            ordered_by=event_id,
            parent_id=parent.id,
            relation=detail["relation"],
            requester=UUID(detail["requester"]),
        ),
    )
    document = answers[0].document
    if not document["accepted"] and document["result"]["error"]["code"] in _TEMPORARY_REFUSALS:
        raise OrderNotReady(document["result"]["error"]["message"])
    sessions.close_session(tenant_id=tenant_id, session_id=session.id, key_actor=ledger.SYSTEM.id, at=at)
    return document


def _refused_answer(code: str, message: str) -> dict[str, Any]:
    return {"accepted": False, "result": {"error": {"code": code, "message": message}}}


def _may_call(tenant_id: UUID, tool: str, *, at: datetime) -> bool:
    """Return whether the recovery agent may call a tool; registers it for the tool if it is not yet.

    A revoked recovery agent is not registered again: a tenant revokes it to stop automatic recovery at once.
    """
    agent = agents_read.agent(tenant_id, RECOVERY_AGENT)
    if agent is not None and agent.revoked_at is not None:
        return False
    if not catalogue_queries.newest_contracts(tenant_id, [tool]):
        return False
    version = agents_read.agent_version(tenant_id, RECOVERY_AGENT, agent.version) if agent else None
    known = frozenset(version.tools) if version else frozenset()
    if tool in known:
        return True
    entry = RegistryEntry(
        tenant=str(tenant_id),
        agent_id=RECOVERY_AGENT,
        version=_next_version(tenant_id, agent.version if agent else "0"),
        registered_by="the recovery policy",
        tools=tuple(sorted(known | {tool})),
        output_tags=(),
        model_tier="",
        registered_at=at,
    )
    agents.register_agent(tenant_id=tenant_id, entry=entry, by=ledger.SYSTEM, at=at)
    return True


def _next_version(tenant_id: UUID, current: str) -> str:
    """A version number of the recovery agent that is not taken; versions that people registered may have any name."""
    number = int(current) if current.isdecimal() and len(current) < 10 else 0
    while True:
        number += 1
        if agents_read.agent_version(tenant_id, RECOVERY_AGENT, str(number)) is None:
            return str(number)


def _record_refusal(head: ledger.SubjectHead, event_id: UUID, error: dict[str, Any], *, at: datetime) -> None:
    event = ledger.NewEvent(
        kind="order_refused", detail={"order": str(event_id), "code": error["code"], "reason": error["message"]}
    )
    ledger.append(head, event, actor=ledger.SYSTEM, at=at)


def cancel_step(*, tenant_id: UUID, action_id: UUID, run_id: str, at: datetime) -> bool:
    """Cancel an unstarted step of a run in rollback; return True if there was one to cancel."""
    action = actions_queries.action(tenant_id, action_id)
    if action is None or action.state != "VALIDATED" or action.relation or not runs.is_unwinding(tenant_id, run_id):
        return False
    executions.cancel_action(
        tenant_id=tenant_id, action_id=action_id, reason="The run is being taken back.", by=ledger.SYSTEM, at=at
    )
    return True
