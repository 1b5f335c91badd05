"""The verdict on an action as its agent is told it: what was decided, why, and what it may do next; never by whom."""

from __future__ import annotations

from typing import Any

from approvals.policy.rules import policy
from approvals.requests.queries import approvals
from approvals.voting.rules.outcome import Decision, decision_outcome
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.record.queries import events
from ledger.record.rules.envelope import instant

REPLACED = frozenset({Decision.VOIDED, Decision.CHANGES_REQUESTED, Decision.SUPERSEDED})


def verdict_for_agent(action: Any) -> dict[str, Any] | None:
    """What became of the request to people; nothing where nobody was asked."""
    approval = approvals.approval(action.tenant_id, action.approval_id) if action.approval_id else None
    if approval is None:
        return None
    ended = events.end_before_execution(action.tenant_id, action.id) if action.state == "FAILED" else None
    reasons = _reasons(approval)
    said = decision_outcome(approval.state, ended=ended, reasons=reasons)
    successor = _successor(action) if said.decision in REPLACED else None
    if successor is not None:
        said = decision_outcome(approval.state, ended=ended, superseded=True, reasons=reasons)
    return {
        "approval_id": str(approval.id),
        "decision": str(said.decision),
        "waiting": said.waiting,
        "reason": said.reason or None,
        "next": {"code": said.next, "text": said.advice},
        "superseded_by": str(successor.id) if successor is not None else None,
        "more": dict(said.more),
        "decide_by": instant(approval.decide_by),
        "release_by": instant(approval.release_by) if approval.release_by else None,
    }


def _reasons(approval: Any) -> bool:
    """Whether the policy that asked lets the agent read the reviewers' words."""
    version = catalogue_queries.policy_version(approval.tenant_id, "approval", approval.policy_version)
    return version is None or policy.load_stored(bytes(version.document)).reasons_to_agents


def _successor(action: Any) -> Any:
    """The action that stands in the place of this one."""
    return next((each for each, _ in actions.related_actions(action) if each.supersedes == action.id), None)
