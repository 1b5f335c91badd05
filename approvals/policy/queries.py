"""Past calls with the facts on which the approval and autonomy policies decided. Inside `tenancy`."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import orjson

from approvals.agents.rules.acceptance import UNDISCLOSED_NAMES
from approvals.policy.rules import autonomy, policy
from approvals.policy.rules.autonomy import AutonomyPolicy
from approvals.policy.rules.policy import ApprovalPolicy
from approvals.policy.rules.policy_facts import Facts
from approvals.policy.rules.simulation import PastCall, PolicyOutcome
from approvals.sessions.queries import disclosed_contract
from ledger.catalogue import queries as catalogue_queries
from ledger.db import execute
from ledger.record.queries import events, evidence
from ledger.record.rules.encryption import CannotOpen
from ledger.record.rules.ids import lower_bound

REFUSED_BY_POLICY = ["OUTSIDE_AUTONOMY", "BUDGET_EXCEEDED"]

_CALLS = (
    "SELECT c.id, c.at, c.accepted, c.agent_id, s.agent_version, coalesce(v.model_tier, ''), c.session_id, a.id,"
    " a.contract_digest, a.payload_pointer, a.target, a.relation <> '', a.approval_id IS NOT NULL,"
    " p.accepted, p.refused, p.undisclosed, p.drifts"
    " FROM approvals_call c JOIN ledger_action a ON a.tenant_id = c.tenant_id AND a.id = c.action_id"
    " JOIN approvals_session s ON s.tenant_id = c.tenant_id AND s.id = c.session_id"
    " LEFT JOIN approvals_agentversion v ON v.tenant_id = c.tenant_id AND v.agent_id = c.agent_id"
    " AND v.version = s.agent_version"
    " CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE accepted) AS accepted,"
    " count(*) FILTER (WHERE NOT accepted) AS refused,"
    " count(*) FILTER (WHERE NOT accepted AND code = ANY($6)) AS undisclosed,"
    " count(*) FILTER (WHERE NOT accepted AND code = 'ASK_DRIFT') AS drifts FROM approvals_call b"
    " WHERE b.tenant_id = c.tenant_id AND b.session_id = c.session_id AND b.id < c.id) p"
    " WHERE c.tenant_id = $1 AND c.id >= $2 AND c.id < $3 AND (c.accepted OR c.code = ANY($4))"
    " ORDER BY c.id DESC LIMIT $5"
)


def past_calls(tenant_id: UUID, *, since: datetime, until: datetime, limit: int) -> tuple[list[PastCall], int]:
    """The newest calls of a period that the policies decided about, oldest first; and how many of those cannot be
    decided again, because their arguments were erased or a policy of their time is not there.
    """
    period = (lower_bound(since), lower_bound(until))
    rows = execute(_CALLS, tenant_id, *period, REFUSED_BY_POLICY, limit, list(UNDISCLOSED_NAMES))
    entries = events.entries(tenant_id, [(row[7], 1) for row in rows])
    policies = _PoliciesThen(tenant_id)
    found = [_past_call(tenant_id, row, entries.get(row[7]), policies) for row in reversed(rows)]
    return [each for each in found if each is not None], sum(each is None for each in found)


class _PoliciesThen:
    """Versions by their digest, each read once."""

    def __init__(self, tenant_id: UUID) -> None:
        self.approval = cache(lambda digest: self._read("approval", digest, policy.load_stored))
        self.autonomy = cache(lambda digest: self._read("autonomy", digest, autonomy.load_stored))
        self.contract = cache(lambda digest: disclosed_contract(tenant_id, digest))
        self._tenant_id = tenant_id

    def _read(self, kind: str, digest: str, load: Any) -> Any:
        row = catalogue_queries.policy_by_digest(self._tenant_id, kind, digest)
        return load(bytes(row.document)) if row is not None else None


def _past_call(
    tenant_id: UUID, row: tuple[Any, ...], entry: dict[str, Any] | None, policies: _PoliciesThen
) -> PastCall | None:
    _, at, accepted, agent, agent_version, tier, session, action_id, digest, pointer, target, remedy, held, *did = row
    context = (entry or {}).get("policy_context", {})
    approval: ApprovalPolicy | None = policies.approval(context.get("approval_policy_digest", ""))
    boundary: AutonomyPolicy | None = policies.autonomy(context.get("autonomy_boundary_digest", ""))
    try:
        payload = evidence.open_evidence(tenant_id, pointer) if pointer is not None else None
    except CannotOpen:
        payload = None
    if approval is None or boundary is None or payload is None:
        return None
    args = orjson.loads(payload)
    before, refused, undisclosed, drifts = did
    outcome = PolicyOutcome.REFUSED
    if accepted:
        outcome = PolicyOutcome.HELD if held else PolicyOutcome.LET_THROUGH
    return PastCall(
        action_id=action_id,
        at=at,
        contract=policies.contract(digest),
        facts=Facts(
            at=at,
            args=args if isinstance(args, dict) else {},
            target=target,
            agent={"id": agent, "version": agent_version, "model_tier": tier},
            session={
                "accepted": before,
                "refused": refused,
                "undisclosed_attempts": undisclosed,
                "drifts": drifts,
                "calls": before + refused,
            },
        ),
        session=str(session),
        is_remedy=remedy,
        outcome=outcome,
        approval=approval,
        autonomy=boundary,
    )
