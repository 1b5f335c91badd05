"""Who is about to speak: a session with its tools and the calls that the gate refused, as the guard asks for them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from approvals.gate import queries as gate_queries
from approvals.sessions.queries import disclosed_contract
from ledger.catalogue import queries as catalogue_queries
from reviews.operations.guarding import Speaker
from reviews.rules.guard.records import Record, Tool

NOT_EXECUTED = ("NOT_EXECUTED", "Not executed. Nothing has been attempted.")


def build_speaker(session: Any) -> Speaker:
    """The session as the guard needs it."""
    disclosed = [_tool(session.tenant_id, tool["digest"]) for tool in session.contract["tools"]]
    given = {tool.name for tool in disclosed}
    others = [Tool(name, disclosed=False) for name in sorted(catalogue_queries.tool_names(session.tenant_id) - given)]
    return Speaker(
        tenant_id=session.tenant_id,
        session_id=session.id,
        run_id=session.run_id,
        agent_id=session.agent_id,
        actor_id=session.actor_id,
        tools=(*disclosed, *others),
        refused=tuple(
            _refused(call) for call in gate_queries.calls_of(session.tenant_id, session.id) if _is_refused(call)
        ),
    )


def _tool(tenant_id: UUID, digest: str) -> Tool:
    contract = disclosed_contract(tenant_id, digest)
    return Tool(
        name=contract.name,
        description=contract.description,
        mutating=contract.mutating,
        done=contract.claims.done,
        object=contract.claims.object,
        target_template=contract.target_template,
    )


def _is_refused(call: Any) -> bool:
    return not call.accepted and call.action_id is None and bool(call.tool)


def _refused(call: Any) -> Record:
    code, text = NOT_EXECUTED
    return Record(
        action_id=str(call.id),
        tool=call.tool,
        target="",
        arguments={},
        state=None,
        completed=False,
        code=code,
        text=text,
        reason=call.reason,
        at=call.at,
    )
