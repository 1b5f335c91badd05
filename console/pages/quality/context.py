"""How people were given the chance to decide, over a period, as far as the tenant lets a reader see it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from approvals.policy.rules import policy
from approvals.requests.queries import approvals as approvals_queries
from approvals.voting.queries import votes as votes_queries
from approvals.voting.rules import quality
from console.accounts import queries as directory
from console.api.auth import Caller
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue import queries as catalogue_queries

if TYPE_CHECKING:
    from approvals.models import Approval, Vote
    from ledger.models import Action

MOST_VOTES = 20_000


def reviewer_quality(caller: Caller, *, since: datetime, until: datetime) -> dict[str, Any]:
    """The figures by rule, agent, tool and reviewer; empty where the tenant keeps none."""
    privacy = privacy_setting(caller)
    votes = _votes(caller, since, until) if privacy != "off" else []
    told = quality.quality_reports(
        votes,
        privacy=privacy,
        may_name="administrator" in caller.roles,
        me=str(caller.actor.id),
        by=quality.DIMENSIONS,
    )
    names = directory.names_of(caller.tenant_id) if privacy == "person" else {}
    known = {str(actor): name for actor, name in names.items()}
    return {
        "privacy": privacy,
        "from": since,
        "to": until,
        "cut_off": len(votes) >= MOST_VOTES,
        "reports": [
            {
                "by": each.by,
                "withheld": each.withheld,
                "rows": [asdict(row) | {"name": known.get(row.name, row.name)} for row in each.rows],
            }
            for each in told
        ],
    }


def privacy_setting(caller: Caller) -> str:
    """What the approval policy in force says."""
    version = catalogue_queries.active_policies(caller.tenant_id)["approval"]
    return policy.load_stored(bytes(version.document)).reviewer_quality


def _votes(caller: Caller, since: datetime, until: datetime) -> list[quality.VoteFacts]:
    cast = votes_queries.votes_between(caller.tenant_id, since=since, until=until, limit=MOST_VOTES)
    approvals = {
        each.id: each
        for each in approvals_queries.approvals_by_id(caller.tenant_id, {vote.approval_id for vote in cast})
    }
    actions = actions_queries.actions_by_id(caller.tenant_id, [each.action_id for each in approvals.values()])
    seen = approvals_queries.attentions(caller.tenant_id, approvals)
    return [
        _vote(vote, approvals[vote.approval_id], actions[approvals[vote.approval_id].action_id], seen)
        for vote in cast
        if vote.approval_id in approvals
    ]


def _vote(vote: Vote, approval: Approval, action: Action, seen: dict[Any, Any]) -> quality.VoteFacts:
    attention = seen.get((approval.id, vote.voter))
    return quality.VoteFacts(
        voter=str(vote.voter),
        rule=approval.policy_row,
        agent=action.agent,
        tool=action.tool,
        verdict=vote.verdict,
        payload_bytes=attention.payload_bytes if attention else 0,
        served_s=max((vote.at - attention.served_at).total_seconds(), 0.0) if attention else None,
        visible_s=attention.visible_s if attention else None,
        opened=len(attention.opened) if attention and attention.opened is not None else None,
        state=action.state,
        contradicted=action.contradicted,
    )
