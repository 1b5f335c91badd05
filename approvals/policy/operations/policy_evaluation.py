"""Evaluates the approval policy for one call, with the facts that its conditions may use."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from approvals.agents import queries as agents_queries
from approvals.models import Session
from approvals.policy.rules import policy
from approvals.policy.rules.autonomy import Charge
from approvals.policy.rules.policy import ApprovalPolicy, PolicyDecision
from approvals.policy.rules.policy_facts import Facts
from approvals.sessions import queries as sessions_queries
from approvals.sessions.queries import disclosed_contract
from ledger.catalogue.rules.contract import Contract
from ledger.catalogue.rules.policies import DecidingPolicy
from ledger.db import execute, savepoint
from ledger.record.queries import evidence
from ledger.record.rules.canonical import parse

if TYPE_CHECKING:
    from ledger.models import Action


def evaluate_policy(
    session: Session, *, contract: Contract, rules: ApprovalPolicy, payload: bytes, target: str, at: datetime
) -> PolicyDecision:
    """Decide a call of this session under a policy."""
    if rules.rules:
        return policy.decide_call(contract, rules, gather_facts(session, payload=payload, target=target, at=at))
    return policy.decide_call(contract, rules, Facts(at=at, target=target, session=_session_counts(session)))


def gather_facts(session: Session, *, payload: bytes, target: str, at: datetime) -> Facts:
    """Gather the facts that the conditions of a policy may use."""
    args = parse(payload)
    return Facts(
        at=at,
        args=args if isinstance(args, dict) else {},
        target=target,
        agent=_agent_facts(session),
        session=_session_counts(session),
    )


def reevaluate_policy(action: Action, *, rules: ApprovalPolicy, at: datetime) -> tuple[PolicyDecision, bytes]:
    """Decide an action that is on record already; returns its payload too."""
    session = sessions_queries.session(action.tenant_id, action.session_id)
    assert session is not None
    pointer = action.payload_pointer
    payload = (evidence.open_evidence(action.tenant_id, pointer) if pointer is not None else None) or b"null"
    contract = disclosed_contract(action.tenant_id, action.contract_digest)
    wanted = evaluate_policy(session, contract=contract, rules=rules, payload=payload, target=action.target, at=at)
    return wanted, payload


def rules_of(version: DecidingPolicy) -> ApprovalPolicy:
    """The rules of a stored version."""
    return policy.load_stored(bytes(version.document))


def _agent_facts(session: Session) -> dict[str, str]:
    version = agents_queries.agent_version(session.tenant_id, session.agent_id, session.agent_version)
    tier = version.model_tier if version else ""
    return {"id": session.agent_id, "version": session.agent_version, "model_tier": tier}


def _session_counts(session: Session) -> dict[str, int]:
    """Return the session's counters from its row, without reading its calls."""
    return {
        "accepted": session.calls_accepted,
        "refused": session.calls_refused,
        "undisclosed_attempts": session.undisclosed_attempts,
        "drifts": session.drifts,
        "calls": session.calls_accepted + session.calls_refused,
    }


_TAKE = (
    "INSERT INTO approvals_spending AS s (tenant_id, holder, budget, unit, window_from, used)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant_id, holder, budget, unit, window_from)"
    " DO UPDATE SET used = s.used + excluded.used WHERE s.used + excluded.used <= $7 RETURNING used"
)


class _NotEnough(Exception):
    def __init__(self, charge: Charge) -> None:
        self.charge = charge


def charge_budgets(*, tenant_id: UUID, agent_id: str, charges: tuple[Charge, ...], kept: bool) -> Charge | None:
    """Charge the budgets atomically; if one is too low, return its charge and take none.

    Unless `kept`, they are given back at once: a dry run spends nothing. The caller has locked the call's session;
    figures per agent are behind the lock of the agent's row. Every call takes the locks in this order, so no two wait
    for each other.
    """
    if not charges:
        return None
    execute(
        "SELECT id FROM approvals_agent WHERE tenant_id = $1 AND agent_id = $2 FOR NO KEY UPDATE", tenant_id, agent_id
    )
    try:
        with savepoint():
            for charge in charges:
                _charge(tenant_id, charge)
            if not kept:
                raise _GivenBack
    except _NotEnough as refusal:
        return refusal.charge
    except _GivenBack:
        return None
    return None


class _GivenBack(Exception):
    pass


def _charge(tenant_id: UUID, charge: Charge) -> None:
    # A row that is not there yet holds nothing; what one call needs alone was never more than there is.
    if charge.amount > charge.most:
        raise _NotEnough(charge)
    place = (tenant_id, charge.holder, charge.budget, charge.unit, charge.window_from)
    if not execute(_TAKE, *place, charge.amount, charge.most):
        raise _NotEnough(charge)
