"""The guard's input: a session with its tools and the calls that the gate refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from approvals.agents.queries import agent_version
from approvals.gate import queries as gate_queries
from approvals.sessions.queries import disclosed_contract
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.record.rules.outcomes import Outcome
from reviews.guarding.queries import Speaker
from reviews.guarding.rules.records import Record, Tool

if TYPE_CHECKING:
    from approvals.models import Session

NOT_EXECUTED = ("NOT_EXECUTED", "Not executed. Nothing has been attempted.")


def build_speaker(session: Session) -> Speaker:
    """The session as the guard needs it."""
    given = {tool["name"]: disclosed_contract(session.tenant_id, tool["digest"]) for tool in session.contract["tools"]}
    others = [
        Tool(name, disclosed=False) for name in sorted(catalogue_queries.tool_names(session.tenant_id) - set(given))
    ]
    made = gate_queries.calls_of(session.tenant_id, session.id)
    return Speaker(
        tenant_id=session.tenant_id,
        session_id=session.id,
        run_id=session.run_id,
        agent_id=session.agent_id,
        actor_id=session.actor_id,
        tools=(*map(tool, given.values()), *others),
        contracts=given,
        call_ids={call.action_id: call.call_id for call in made if call.action_id is not None},
        refusals={call.action_id: call.reason for call in made if call.action_id is not None and not call.accepted},
        refused=tuple(_refused_record(call) for call in made if _is_refused(call)),
        goal=session.goal,
        is_whole=not acts_elsewhere(session),
    )


def acts_elsewhere(session: Session) -> bool:
    """Return whether the agent, by the registration of its session, also acts past the console."""
    version = agent_version(session.tenant_id, session.agent_id, session.agent_version)
    return version is not None and version.acts_elsewhere


def tool(contract: Contract) -> Tool:
    """A contract's tool as the guard sees it."""
    return Tool(
        name=contract.name,
        description=contract.description,
        mutating=contract.mutating,
        done=contract.claims.done,
        object=contract.claims.object,
        target_template=contract.target_template,
        sayings=contract.claims.sayings,
        report=contract.report,
    )


def _is_refused(call: Any) -> bool:
    return not call.accepted and call.action_id is None and bool(call.tool)


def _refused_record(call: Any) -> Record:
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
        outcome=Outcome.BLOCKED,
        call_id=call.call_id,
    )
