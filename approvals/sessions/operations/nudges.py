"""The nudge for a session as it stands now."""

from __future__ import annotations

from collections.abc import Iterable

from approvals.models import Session
from approvals.sessions.queries import disclosed_contract
from approvals.sessions.rules import nudge
from approvals.sessions.rules.nudge import Nudge
from ledger.actions.queries import freezes, sessions


def session_nudge(session: Session, *, refused: Iterable[str] = ()) -> Nudge:
    """What the session's agent is to do next; `refused` are the codes of the calls that were refused just now."""
    refused = tuple(refused)
    states = sessions.open_states(session.tenant_id, session.id)
    if not states and not refused and _is_frozen(session):
        refused = ("TARGET_FROZEN",)
    steps = () if states or refused else _steps(session)
    return nudge.choose_nudge(states, refused=refused, steps=steps, forced=session.forced_at is not None)


def _is_frozen(session: Session) -> bool:
    """Whether all that the session could do is frozen."""
    return bool(freezes.freezes_on(session.tenant_id, agent=session.agent_id, tool="", target=""))


def _steps(session: Session) -> tuple[str, ...]:
    """The tools that the newest result leads to, where it is a success that stands."""
    action = sessions.newest_action(session.tenant_id, session.id)
    if action is None or action.state != "RECONCILED_SUCCESS" or action.reversed:
        return ()
    producer = disclosed_contract(session.tenant_id, action.contract_digest)
    if not producer.next_tools:
        return ()
    named = sessions.suggested_next_tool(session.tenant_id, action.id)
    disclosed = session.contract["sub_tools_disclosed"]
    return nudge.next_steps(producer, named["name"] if named is not None else None, disclosed)
