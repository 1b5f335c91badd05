"""Proposes ordered recovery actions as ordinary actions (architecture, "Orders").

It runs as the tenant's `recovery` agent, in a session pinned to the original goal, passes the same gate, and asks for
its own approval where its own contract does; the requester is whoever ordered it, who may therefore not approve it.
Each ordering event leads to one action at most: a unique key of the record sees to that. Crash anywhere, and the next
tick finds the order without an action.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
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

TTL_S = 86_400
# What only time or a person changes: the order waits for it instead of failing.
_PASSES = frozenset({"TARGET_FROZEN", "DUPLICATE_BLOCKED"})
_BLOCK = {
    Relation.COMPENSATION: "compensation_action_id",
    Relation.ROLLBACK: "rollback_action_id",
    Relation.FORWARD: "recovery_action_id",
}


class OrderNotReady(Exception):
    """The recovery action cannot be proposed now; nothing of the try is kept."""


def propose_order(*, tenant_id: UUID, action_id: UUID, event_id: UUID, at: datetime) -> UUID | None:
    """Propose what an event ordered; the new action's id, or None where it exists or was refused.

    `NotYet` leaves the order as it is; the caller's transaction is rolled back by it.
    """
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    ledger_orders.mark_order_proposed(event_id=event_id, at=at)
    detail = runs.order_details(tenant_id, action_id).get(event_id)
    if detail is None or detail["refused"] or actions_queries.child_of(tenant_id, event_id) is not None:
        return None
    parent = actions_queries.action(tenant_id, action_id)
    assert parent is not None
    step = runs.order_plan(tenant_id, detail)["steps"][detail["number"]]
    answer = _proposed(parent, event_id, detail, step, at=at)
    if not answer["accepted"]:
        _refused(head, event_id, answer["result"]["error"], at=at)
        return None
    block = {"recovery": {_BLOCK[Relation(detail["relation"])]: answer["action_id"]}}
    happening = ledger.NewEvent(
        kind="recovery_proposed",
        changes=block,
        detail={"order": str(event_id), "action_id": answer["action_id"], "tool": step["tool"]},
    )
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)
    return UUID(answer["action_id"])


def _proposed(parent: Any, event_id: UUID, detail: dict[str, Any], step: dict[str, Any], *, at: datetime) -> Any:
    """The gate's answer to the recovery action, in a session of its own that takes no further call."""
    tenant_id = parent.tenant_id
    if not _may_call(tenant_id, step["tool"], at=at):
        return _error("AGENT_NOT_REGISTERED", "The recovery agent is revoked, or the tool is not registered.")
    goal = sessions_read.session(tenant_id, parent.session_id)
    assert goal is not None
    wish = sessions.SessionRequest(
        agent_id=RECOVERY_AGENT, goal=goal.goal, ttl_seconds=TTL_S, tools=(step["tool"],), run_id=parent.run_id
    )
    session = sessions.open_session(tenant_id=tenant_id, wish=wish, key_actor=ledger.SYSTEM.id, at=at)
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
    if not document["accepted"] and document["result"]["error"]["code"] in _PASSES:
        raise OrderNotReady(document["result"]["error"]["message"])
    sessions.close_session(tenant_id=tenant_id, session_id=session.id, key_actor=ledger.SYSTEM.id, at=at)
    return document


def _error(code: str, message: str) -> dict[str, Any]:
    return {"accepted": False, "result": {"error": {"code": code, "message": message}}}


def _may_call(tenant_id: UUID, tool: str, *, at: datetime) -> bool:
    """Whether the recovery agent may call a tool; its registry entry grows with the tools that contracts name.

    A revoked recovery agent is not brought back: revoking it is how a tenant stops automatic recovery at once.
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
    """A version of the recovery agent that nobody has registered; people may have named theirs in any way."""
    number = int(current) if current.isdecimal() and len(current) < 10 else 0
    while True:
        number += 1
        if agents_read.agent_version(tenant_id, RECOVERY_AGENT, str(number)) is None:
            return str(number)


def _refused(head: ledger.SubjectHead, event_id: UUID, error: dict[str, Any], *, at: datetime) -> None:
    happening = ledger.NewEvent(
        kind="order_refused", detail={"order": str(event_id), "code": error["code"], "reason": error["message"]}
    )
    ledger.append(head, happening, actor=ledger.SYSTEM, at=at)


def cancel_step(*, tenant_id: UUID, action_id: UUID, run_id: str, at: datetime) -> bool:
    """Cancel a step that has not started of a run that is taken back; whether there was something to cancel."""
    action = actions_queries.action(tenant_id, action_id)
    if action is None or action.state != "VALIDATED" or action.relation or not runs.is_unwinding(tenant_id, run_id):
        return False
    executions.cancel_action(
        tenant_id=tenant_id, action_id=action_id, reason="The run is being taken back.", by=ledger.SYSTEM, at=at
    )
    return True
