"""Voting eligibility on an approval, for page and API: requirements, votes so far, eligible reviewers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.voting.operations import eligibility
from approvals.voting.operations.eligibility import EligibilityContext, VotingStatus
from approvals.voting.rules import binding
from approvals.voting.rules.quorum import EVERYBODY
from console.web import labels
from ledger.record.rules.refusals import Refused

if TYPE_CHECKING:
    from approvals.models import Approval


def ineligibility_reason(
    approval: Approval,
    actor_id: UUID,
    roles: frozenset[str],
    *,
    at: datetime,
    context: EligibilityContext | None = None,
) -> str:
    """The reason why this person's vote would be refused now; empty if it would be accepted."""
    bar = binding.voter_refusal(state=approval.state, decide_by=approval.decide_by, roles=roles, at=at)
    if bar is None:
        try:
            eligibility.eligible_voter(approval, actor_id, at=at, context=context)
        except Refused as found:
            bar = found
    return bar.detail if bar is not None else ""


def ineligibility_reasons(
    tenant_id: UUID, found: Sequence[Any], actor_id: UUID, roles: frozenset[str], *, at: datetime
) -> dict[UUID, str]:
    """The same for many approvals; nothing is read that can be determined without reading."""
    asked = [each for each in found if each.state == "REQUESTED"] if binding.REVIEWER in roles else []
    contexts = eligibility.load_contexts(tenant_id, asked, at=at) if asked else {}
    return {
        each.id: ineligibility_reason(each, actor_id, roles, at=at, context=contexts.get(each.id)) for each in found
    }


def eligibility_panel(status: VotingStatus, names: Mapping[UUID, str]) -> dict[str, Any]:
    """For the page; people are named."""
    return {
        "thresholds": [
            {
                "group": "reviewers" if count.threshold.group == EVERYBODY else count.threshold.group,
                "count": count.threshold.count,
                "votes": count.votes,
                "missing": count.missing,
                "met": not count.missing,
            }
            for count in status.tally.counts
        ],
        "may_vote": [
            {
                "name": names.get(place.actor, "somebody"),
                "for_whom": names.get(place.lender, "somebody else") if place.lender else "",
                "away": place.away,
            }
            for place in status.may_vote
        ],
        "barred": [
            {"name": names.get(actor, "somebody"), "why": labels.NOT_ELIGIBLE[role]}
            for actor, role in status.barred.items()
        ],
        "fallen": frozenset(vote.id for vote in status.fallen),
        "stranded": status.stranded,
    }
