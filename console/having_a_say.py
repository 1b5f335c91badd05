"""Who has a say in an approval, as the page and the API tell it: what it takes, what is there, who may still vote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.operations import standing
from approvals.operations.standing import ROLES, Standing
from approvals.rules.quorum import EVERYBODY
from ledger.rules.refusals import Refused


def refusal(approval: Any, actor_id: UUID, *, at: datetime) -> Refused | None:
    """Why this account's vote would not be taken now, as far as the person is concerned."""
    try:
        standing.admit(approval, actor_id, at=at)
    except Refused as found:
        return found
    return None


def document(seen: Standing) -> dict[str, Any]:
    """For the API; people are named by their pseudonyms."""
    terms = seen.terms
    return {
        "state": seen.tally.state,
        "thresholds": [
            {
                "group": count.threshold.group,
                "count": count.threshold.count,
                "votes": count.votes,
                "deny": count.threshold.deny,
                "against": count.against,
            }
            for count in seen.tally.counts
        ],
        "step_up": terms.step_up,
        "independence": sorted(terms.independence),
        "hours": [each.document() for each in terms.hours],
        "may_vote": [
            {"actor": str(place.actor), "groups": sorted(place.groups), "for": _text(place.lender), "away": place.away}
            for place in seen.may_vote
        ],
        "barred": [{"actor": str(actor), "as": role} for actor, role in seen.barred.items()],
        "fallen": [str(vote.id) for vote in seen.fallen],
        "stranded": seen.stranded,
    }


def shown(seen: Standing, names: Mapping[UUID, str]) -> dict[str, Any]:
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
            for count in seen.tally.counts
        ],
        "may_vote": [
            {
                "name": names.get(place.actor, "somebody"),
                "for_whom": names.get(place.lender, "somebody else") if place.lender else "",
                "away": place.away,
            }
            for place in seen.may_vote
        ],
        "barred": [{"name": names.get(actor, "somebody"), "why": ROLES[role]} for actor, role in seen.barred.items()],
        "fallen": frozenset(vote.id for vote in seen.fallen),
        "stranded": seen.stranded,
    }


def _text(actor: UUID | None) -> str | None:
    return str(actor) if actor is not None else None
