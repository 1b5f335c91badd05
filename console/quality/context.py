"""The quality of reviewers' decisions over a period, as far as the tenant lets a reader see it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from approvals.policy.rules import policy
from approvals.voting.queries import votes as votes_queries
from approvals.voting.rules import quality
from console.accounts import queries as directory
from console.edge.auth import Caller
from ledger.catalogue import queries as catalogue_queries

MOST_VOTES = 2_000


def reviewer_quality(caller: Caller, *, since: datetime, until: datetime) -> dict[str, Any]:
    """The figures by rule, agent, tool and reviewer; empty if the tenant stores none."""
    privacy = privacy_setting(caller)
    votes = []
    if privacy != "off":
        votes = votes_queries.vote_facts(caller.tenant_id, since=since, until=until, limit=MOST_VOTES)
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
        "most": MOST_VOTES,
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
    """The setting of the approval policy in force."""
    version = catalogue_queries.active_policies(caller.tenant_id)["approval"]
    return policy.load_stored(bytes(version.document)).reviewer_quality
