"""What the approval policy in force wants of one call, with everything that its conditions may speak about."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from approvals.agents import queries as agents_queries
from approvals.models import Session
from approvals.policy.rules import policy
from approvals.policy.rules.policy import ApprovalPolicy, PolicyDecision
from approvals.policy.rules.policy_facts import Facts
from approvals.sessions import queries as sessions_queries
from approvals.sessions.queries import disclosed_contract
from ledger.catalogue.rules.contract import Contract
from ledger.record.queries import evidence
from ledger.record.rules.canonical import parse


def evaluate_policy(
    session: Session, *, contract: Contract, rules: ApprovalPolicy, payload: bytes, target: str, at: datetime
) -> PolicyDecision:
    """What a policy wants of a call of this session."""
    if rules.rules:
        return policy.decide_call(contract, rules, gather_facts(session, payload=payload, target=target, at=at))
    return policy.decide_call(contract, rules, Facts(at=at, target=target, session=_counted(session)))


def gather_facts(session: Session, *, payload: bytes, target: str, at: datetime) -> Facts:
    """All that the conditions of a policy may speak about."""
    args = parse(payload)
    return Facts(
        at=at,
        args=args if isinstance(args, dict) else {},
        target=target,
        agent=_agent(session),
        session=_counted(session),
    )


def reevaluate_policy(action: Any, *, rules: ApprovalPolicy, at: datetime) -> tuple[PolicyDecision, bytes]:
    """The same for an action that is on record already; with it its payload."""
    session = sessions_queries.session(action.tenant_id, action.session_id)
    assert session is not None
    payload = evidence.open_evidence(action.tenant_id, action.payload_pointer) or b"null"
    contract = disclosed_contract(action.tenant_id, action.contract_digest)
    wanted = evaluate_policy(session, contract=contract, rules=rules, payload=payload, target=action.target, at=at)
    return wanted, payload


def rules_of(version: Any) -> ApprovalPolicy:
    """The rules of a stored version."""
    return policy.load_stored(bytes(version.document))


def _agent(session: Session) -> dict[str, str]:
    version = agents_queries.agent_version(session.tenant_id, session.agent_id, session.agent_version)
    tier = version.model_tier if version else ""
    return {"id": session.agent_id, "version": session.agent_version, "model_tier": tier}


def _counted(session: Session) -> dict[str, int]:
    """What the session did so far, as its row counts it: nothing is asked of its calls."""
    return {
        "accepted": session.calls_accepted,
        "refused": session.calls_refused,
        "undisclosed_attempts": session.undisclosed_attempts,
        "drifts": session.drifts,
        "calls": session.calls_accepted + session.calls_refused,
    }
