"""The inbox: everything that waits for this person, of every kind, with one rule for list, badge and API.

1. Approvals that they may decide (`eligibility.ineligibility_reasons`); whatever waits for them as the second person
   (`confirmations_for`); for operators, cases that they own or nobody does, and open incidents.
2. What they may not decide is not there, whatever their roles are.
3. Like items (the same kind, tool and agent, or the same finding) stand together, with what they come to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from approvals.requests.queries import approvals as approvals_queries
from approvals.sessions import queries as sessions_read
from approvals.voting.operations import batch_votes
from approvals.voting.rules import batches
from console.actions.action_record import payloads_of
from console.approvals import eligibility
from console.edge.auth import Caller
from console.web import labels
from console.web.confirmations import confirmations_for
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue.rules.money import amount_of, money_at_stake
from reviews import queries as after

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action, Tenant
    from reviews.models import Case, Incident

MOST = 100
ALIKE = 3
"""From how many like items on they stand together."""
SETTLED = ("RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED")


@dataclass(frozen=True, kw_only=True)
class AwaitedDecision:
    """One item that waits for a decision. `like` is equal for items that are decided alike."""

    kind: str
    id: UUID
    icon: str
    href: str
    title: str
    since: datetime
    sub: str = ""
    decide_by: datetime | None = None
    like: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    may_batch: bool = False
    action: Action | None = None
    became: str = ""
    """What was decided about it; empty while it waits."""

    @property
    def word(self) -> str:
        return KINDS[self.kind]

    @property
    def amount(self) -> str:
        return amount_of(self.payload)


KINDS = {"approval": "Approval", "confirmation": "Second person", "case": "Case", "incident": "Incident"}


def inbox_items(tenant: Tenant, caller: Caller, *, at: datetime) -> list[AwaitedDecision]:
    """Everything that waits for this person, the oldest first."""
    items = _approvals(tenant, caller, at=at) if "reviewer" in caller.roles else []
    items += _confirmations(tenant, caller)
    items += _cases(tenant, caller, at=at) + _incidents(tenant) if "operator" in caller.roles else []
    return sorted(items, key=lambda item: item.since)[:MOST]


def group_like_items(items: Iterable[AwaitedDecision], slug: str) -> list[dict[str, Any]]:
    """The items in order, with similar ones grouped at the position of the oldest."""
    alike: dict[str, list[AwaitedDecision]] = {}
    for item in items:
        alike.setdefault(item.like or str(item.id), []).append(item)
    found: list[dict[str, Any]] = []
    for members in alike.values():
        if len(members) < ALIKE:
            found += [{"items": [each]} for each in members]
            continue
        found.append(
            {
                "items": members,
                "word": f"{len(members)} {members[0].like}",
                "at_stake": money_at_stake(each.payload for each in members),
                "stake": "Requested" if members[0].kind == "case" else "At stake",
                "together": _batch_page(members, slug),
            }
        )
    return sorted(found, key=lambda group: group["items"][0].since)


def _batch_page(members: list[AwaitedDecision], slug: str) -> str:
    """The page on which these are decided together; empty if the policy requires separate decisions."""
    if not all(each.may_batch for each in members):
        return ""
    return f"{reverse('approvals-batch', args=[slug])}?{urlencode([('item', str(each.id)) for each in members])}"


def _approvals(tenant: Tenant, caller: Caller, *, at: datetime) -> list[AwaitedDecision]:
    waiting = approvals_queries.approvals(tenant.id)
    bars = eligibility.ineligibility_reasons(tenant.id, waiting, caller.actor.id, caller.roles, at=at)
    return approval_items(tenant, [each for each in waiting if not bars[each.id]][:MOST])


def approval_items(tenant: Tenant, asked: Sequence[Approval]) -> list[AwaitedDecision]:
    """Approvals as items of a list, in their order, everything read once for all of them."""
    actions = actions_queries.actions_by_id(tenant.id, [each.action_id for each in asked])
    sessions = sessions_read.sessions_by_id(tenant.id, {each.session_id for each in actions.values()})
    payloads = payloads_of(tenant.id, actions.values())
    found = []
    for each in asked:
        action = actions[each.action_id]
        payload = payloads.get(action.id, {})
        found.append(
            AwaitedDecision(
                kind="approval",
                id=each.id,
                icon="approvals",
                href=reverse("approval", args=[tenant.slug, each.id]),
                title=action_title(action.operation_kind, action.target, payload),
                sub=f"{action.agent}: {sessions[action.session_id].goal}",
                since=each.requested_at,
                decide_by=each.decide_by,
                like=f"approvals: {action.tool}, by {action.agent}",
                payload=payload,
                may_batch=not batches.exclusion_reason(batch_votes.batch_item(each, action)),
                action=action,
                became="" if each.state == "REQUESTED" else labels.approval_label(each, action)[1],
            )
        )
    return found


def _confirmations(tenant: Tenant, caller: Caller) -> list[AwaitedDecision]:
    return [
        AwaitedDecision(
            kind="confirmation",
            id=each.id,
            icon=each.icon,
            href=each.page(tenant.slug),
            title=each.title,
            sub="Proposed by someone else; your confirmation puts it into effect."
            if each.kind != "emergency"
            else "Somebody approved it alone; others must review it.",
            since=each.since,
        )
        for each in confirmations_for(caller, tenant.id)
    ]


def _cases(tenant: Tenant, caller: Caller, *, at: datetime) -> list[AwaitedDecision]:
    """Unassigned cases, this person's own, and those that wait for this person as the second one."""
    awake = after.cases_on_tab(tenant.id, "open", sort="", at=at, limit=MOST)
    mine = [each for each in awake if each.claimed_by in (None, caller.actor.id) and each.state == "OPEN"]
    return case_items(tenant, caller, mine)


def case_items(tenant: Tenant, caller: Caller, found: Sequence[Case]) -> list[AwaitedDecision]:
    """Cases as items of a list, in their order, everything read once for all of them."""
    actions = actions_queries.actions_by_id(tenant.id, [each.action_id for each in found if each.action_id])
    payloads = payloads_of(tenant.id, actions.values())
    return [
        AwaitedDecision(
            kind="case",
            id=each.id,
            icon="cases",
            href=reverse("case", args=[tenant.slug, each.id]),
            title=_title(actions[each.action_id], payloads.get(each.action_id)) if each.action_id else each.target,
            sub=_case_words(each, actions.get(each.action_id) if each.action_id else None, me=caller.actor.id),
            since=each.opened_at,
            like=f"cases: {labels.case_label(each).lower()}, {each.tool}",
            payload=payloads.get(each.action_id, {}) if each.action_id else {},
            action=actions.get(each.action_id) if each.action_id else None,
            became=_case_outcome(each),
        )
        for each in found
    ]


def _case_outcome(case: Case) -> str:
    if case.state == "OPEN":
        return ""
    if case.state == "AWAITING_SECOND":
        return "Waiting for the second approver"
    return labels.settled_label(case.resolution)


def _incidents(tenant: Tenant) -> list[AwaitedDecision]:
    return _incident_items(tenant, after.open_incidents(tenant.id))


def _incident_items(tenant: Tenant, found: Iterable[Incident]) -> list[AwaitedDecision]:
    return [
        AwaitedDecision(
            kind="incident",
            id=each.id,
            icon="incidents",
            href=reverse("incident", args=[tenant.slug, each.id]),
            title=each.title,
            sub=f"{labels.SEVERITIES[each.severity]} severity.",
            since=each.opened_at,
            became="" if each.state == "OPEN" else "Closed",
        )
        for each in found
    ]


def decided_items(tenant: Tenant, caller: Caller, ids: Collection[UUID]) -> list[AwaitedDecision]:
    """Return the approvals, cases and incidents that no longer wait for this person, with their outcome."""
    named = list(ids)
    incidents = (after.incident(tenant.id, each) for each in named)
    return [
        *approval_items(tenant, list(approvals_queries.approvals_named(tenant.id, named).values())),
        *case_items(tenant, caller, list(after.cases_by_id(tenant.id, named).values())),
        *_incident_items(tenant, [each for each in incidents if each is not None]),
    ]


def _title(action: Action, payload: dict[str, Any] | None = None) -> str:
    return action_title(action.operation_kind, action.target, payload)


def _case_words(case: Case, action: Action | None, *, me: UUID) -> str:
    owner = "you" if case.claimed_by == me else "somebody else"
    owned = f"Owned by {owner}." if case.claimed_by else "Unassigned."
    return f"{labels.case_label(case)}{_by_now(action)}. {owned}"


def _by_now(action: Action | None) -> str:
    """Return the outcome of the action, if it ended without the person who was asked."""
    if action is None or action.contradicted or action.state not in SETTLED:
        return ""
    return f", {labels.outcome_label(action).lower()} by now"
