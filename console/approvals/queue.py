"""Work on approvals for pages and API: queue cards, assignees, missing votes, the thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from django.urls import reverse

from approvals.requests.queries import approvals, deadlines
from approvals.requests.rules import assignments, clocks, threads
from approvals.sessions import queries as sessions_read
from approvals.voting.operations import batch_votes
from approvals.voting.operations import eligibility as standing
from approvals.voting.queries import votes as votes_queries
from approvals.voting.rules import batches, quorum
from console.accounts.queries import actor_names
from console.actions.action_record import payloads_of
from console.approvals import eligibility
from console.edge.http import TenantRequest
from console.standing_approvals.context import pass_sentences
from console.templatetags.console import span
from console.web import labels, presence
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries

if TYPE_CHECKING:
    from approvals.models import Approval
    from approvals.voting.operations.eligibility import EligibilityContext
    from ledger.models import Action


@dataclass(frozen=True, kw_only=True)
class QueueCard:
    """One approval of a list, in the page's texts."""

    id: UUID
    row: Any
    href: str
    title: str
    goal: str
    payload: dict[str, Any]
    action: Any
    decision: dict[str, str]
    waits: bool
    risk: str
    standing: str
    missing: str
    holder: str
    looking: str
    stopped: str
    passed: str
    may_batch: bool
    batch_most: int
    may_claim: bool


def queue_cards(request: TenantRequest, found: Sequence[Any]) -> list[QueueCard]:
    """The cards of a list of approvals, everything read once for all of them."""
    tenant = request.tenant.id
    actions = actions_queries.actions_by_id(tenant, [each.action_id for each in found])
    sessions = sessions_read.sessions_by_id(tenant, {each.session_id for each in actions.values()})
    called = actor_names(tenant)
    told = missing_votes(tenant, found)
    seen = presence.present_viewers(tenant, [each.id for each in found], at=request.as_of)
    bars = eligibility.ineligibility_reasons(
        tenant, found, request.caller.actor.id, request.caller.roles, at=request.as_of
    )
    passed = pass_sentences(tenant, found)
    payloads = payloads_of(tenant, actions.values())
    return [
        _card(
            request,
            each,
            actions[each.action_id],
            payloads.get(each.action_id, {}),
            passed=passed.get(each.id, ""),
            goal=sessions[actions[each.action_id].session_id].goal,
            missing=told[each.id],
            holder=_holder(each, called, me=request.caller.actor.id, at=request.as_of),
            looking=viewers_text(seen, each.id, called, me=request.caller.actor.id),
            why_not=bars[each.id],
        )
        for each in found
    ]


def _card(
    request: TenantRequest, approval: Approval, action: Action, payload: dict[str, Any], *, why_not: str, **said: str
) -> QueueCard:
    icon, word = labels.approval_label(approval, action)
    waits, item = approval.state == "REQUESTED", batch_votes.batch_item(approval, action)
    claim = active_claim(approval, at=request.as_of)
    return QueueCard(
        id=approval.id,
        row=approval,
        href=reverse("approval", args=[request.tenant.slug, approval.id]),
        title=action_title(action.operation_kind, action.target, payload),
        payload=payload,
        action=action,
        decision={"icon": icon, "word": word},
        waits=waits,
        risk=labels.RISKS.get(approval.risk, ""),
        standing=why_not or "You can decide.",
        stopped=_pause_text(approval),
        may_batch=waits and not why_not and not batches.exclusion_reason(item),
        batch_most=min(item.most, batches.MOST),
        may_claim=waits
        and bool(request.caller.roles & {"reviewer", "operator"})
        and (claim is None or claim.by != request.caller.actor.id),
        **said,
    )


def _pause_text(approval: Approval) -> str:
    if approval.paused_at is None or approval.state not in ("REQUESTED", "APPROVED"):
        return ""
    return "Deadline paused"


def _holder(approval: Approval, names: dict[UUID, str], *, me: UUID, at: datetime) -> str:
    """Return the person who works on it: a claim outranks an assignment."""
    claim = active_claim(approval, at=at)
    if claim is not None:
        return "claimed by you" if claim.by == me else f"claimed by {names.get(claim.by, 'somebody')}"
    if approval.assigned_to is not None:
        return (
            "assigned to you" if approval.assigned_to == me else f"assigned to {names.get(approval.assigned_to, '?')}"
        )
    return ""


def active_claim(approval: Approval, *, at: datetime) -> assignments.Claim | None:
    """The claim that holds now."""
    return assignments.active_claim(approval.claimed_by, approval.claimed_until, at=at)


def viewers_text(seen: Mapping[UUID, Sequence[UUID]] | None, one: UUID, names: dict[UUID, str], *, me: UUID) -> str:
    """'Mara and Paul are looking at this'; empty if nobody else is, and a sentence of its own if that is not known."""
    if seen is None:
        return "Who else is looking is not known now"
    others = sorted(names.get(actor, "somebody") for actor in seen.get(one, ()) if actor != me)
    if not others:
        return ""
    if len(others) == 1:
        return f"{others[0]} is looking at this"
    return f"{', '.join(others[:-1])} and {others[-1]} are looking at this"


def missing_votes(tenant_id: UUID, found: Sequence[Any]) -> dict[UUID, str]:
    """The missing votes of each approval, in words; empty for decided ones."""
    votes = votes_queries.votes_by_approval(tenant_id, [each.id for each in found])
    return {each.id: _missing(each, votes.get(each.id, [])) for each in found}


def _missing(approval: Approval, votes: Sequence[Any]) -> str:
    if approval.state != "REQUESTED":
        return ""
    owed = quorum.tally_votes(quorum.read_terms(approval.terms), [standing.ballot_of(vote) for vote in votes]).missing
    return ", ".join(f"{count} {'vote' if count == 1 else 'votes'} from {group}" for group, count in owed.items())


# One approval


def assignment_panel(
    request: TenantRequest, approval: Approval, eligible: EligibilityContext, called: Mapping[UUID, str]
) -> dict[str, Any]:
    """The data of an approval's assignment panel."""
    tenant, me, at = request.tenant, request.caller.actor.id, request.as_of
    lines = votes_queries.thread_lines(tenant.id, approval.id)
    is_open = approval.state in ("PREPARING", "REQUESTED")
    works = is_open and bool(request.caller.roles & {"reviewer", "operator"})
    claim = active_claim(approval, at=at) if is_open else None
    other = assignments.claim_of_another(claim, me=me)
    clock = deadlines.clock_of(approval, at=at) if approval.state in ("REQUESTED", "APPROVED") else None
    among = eligible_assignees(approval, eligible, at=at) if works else []
    load = approvals.workload(tenant.id, at=at) if works else {}
    return {
        "claim": claim,
        "claimed_by": called.get(claim.by, "somebody") if claim else "",
        "other": called.get(other.by, "somebody") if other else "",
        "may_claim": works and (claim is None or other is not None),
        "may_release": works and claim is not None and other is None,
        "assigned_to": called.get(approval.assigned_to, "") if approval.assigned_to else "",
        "people": [(actor, called.get(actor, "somebody"), load.get(actor, 0)) for actor in among],
        "suggested": assignments.least_loaded(among, load),
        "clock": clock,
        "stopped": _why(clock),
        "left": span(clock.left) if clock else "",
        "escalated_to": deadlines.schedule_of(approval).escalate_to if approval.escalated_at else "",
        "thread": _thread(lines, called),
        "may_comment": bool(request.caller.roles & {"reviewer", "operator", "compliance"}),
        "may_ask": works,
        "asked": len(threads.open_questions(lines)) if is_open else 0,
        "page": {
            name: reverse(f"approval-{name}", args=[tenant.slug, approval.id])
            for name in ("claim", "release", "assign", "comment", "ask", "looking")
        },
        "next": f"{reverse('approvals-next', args=[tenant.slug])}?after={approval.id}",
    }


def _why(clock: clocks.Clock | None) -> str:
    if clock is None or clock.stopped_at is None:
        return ""
    if clock.why is clocks.StopReason.FREEZE:
        return "Frozen; deadline paused until the freeze is lifted."
    return "Waiting for the agent; deadline paused, as long as the policy allows."


def _thread(lines: Sequence[Any], names: Mapping[UUID, str]) -> list[dict[str, Any]]:
    asked = {line.id: line.text for line in lines if line.kind == "question"}
    waiting = {line.id for line in threads.open_questions(lines)}
    return [
        {
            "row": line,
            "by": names.get(line.author, "The agent" if line.author_kind == "agent" else "somebody"),
            "by_agent": line.author_kind == "agent",
            "is_question": line.kind == "question",
            "waits": line.id in waiting,
            "to": asked.get(line.answers, "") if line.answers else "",
        }
        for line in lines
    ]


def eligible_assignees(approval: Approval, context: EligibilityContext | None = None, *, at: datetime) -> list[UUID]:
    """Return the people whose vote may still decide an approval and who are present, in the order of the roster."""
    context = context or standing.load_context(approval, at=at)
    voters = standing.voting_status(approval, at=at, context=context).may_vote
    present = {place.actor for place in voters if not place.away}
    return [actor for actor, place in context.people.roster.items() if place.active and actor in present]


def refuse_no_assignee() -> NoReturn:
    """Refuse: there is no person to suggest."""
    raise assignments.AssigneeNotEligible("Nobody here may decide this.")
