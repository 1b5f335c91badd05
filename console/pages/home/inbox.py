"""The inbox: everything that waits for this person, of every kind, with one rule for list, badge and API.

1. Approvals that they may decide (`eligibility.ineligibility_reasons`); whatever waits for them as the second person
   (`confirmations_for`); for operators, cases that they own or nobody does, and open incidents.
2. What they may not decide is not there, whatever their roles are.
3. Like items (the same kind, tool and agent, or the same finding) stand together, with what they come to.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from console.api.auth import Caller
from console.pages.actions.action_record import payloads_of
from console.pages.approvals import eligibility
from console.web import labels
from console.web.confirmations import confirmations_for
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue.rules.money import amount_of, money_at_stake
from reviews import queries as after

if TYPE_CHECKING:
    from ledger.models import Action, Tenant
    from reviews.models import Case

MOST = 100
ALIKE = 3
"""From how many like items on they stand together."""
SETTLED = ("RECONCILED_SUCCESS", "FAILED", "COMPENSATED", "ROLLED_BACK", "ABANDONED")


@dataclass(frozen=True, kw_only=True)
class AwaitedDecision:
    """One thing that waits for somebody. `like` is the same for items that are decided alike."""

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
    """The items in their order, like ones together in the place of the oldest of them."""
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
                "together": _together(members, slug),
            }
        )
    return sorted(found, key=lambda group: group["items"][0].since)


def _together(members: list[AwaitedDecision], slug: str) -> str:
    """The page on which these are decided at once; empty where the policy wants each decided alone."""
    if not all(each.may_batch for each in members):
        return ""
    return f"{reverse('approvals-batch', args=[slug])}?{urlencode([('item', str(each.id)) for each in members])}"


def _approvals(tenant: Tenant, caller: Caller, *, at: datetime) -> list[AwaitedDecision]:
    waiting = approvals_queries.approvals(tenant.id)
    bars = eligibility.ineligibility_reasons(tenant.id, waiting, caller.actor.id, caller.roles, at=at)
    asked = [each for each in waiting if not bars[each.id]][:MOST]
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
            sub="Proposed by somebody else; it takes effect with your confirmation."
            if each.kind != "emergency"
            else "Somebody approved it alone; others must review it.",
            since=each.since,
        )
        for each in confirmations_for(caller, tenant.id)
    ]


def _cases(tenant: Tenant, caller: Caller, *, at: datetime) -> list[AwaitedDecision]:
    """Cases that nobody owns, and this person's own; what a second person must confirm waits for that person."""
    awake = after.cases_on_tab(tenant.id, "open", sort="", at=at, limit=MOST)
    mine = [each for each in awake if each.claimed_by in (None, caller.actor.id) and each.state == "OPEN"]
    actions = actions_queries.actions_by_id(tenant.id, [each.action_id for each in mine if each.action_id])
    payloads = payloads_of(tenant.id, actions.values())
    return [
        AwaitedDecision(
            kind="case",
            id=each.id,
            icon="cases",
            href=reverse("case", args=[tenant.slug, each.id]),
            title=_title(actions[each.action_id], payloads.get(each.action_id)) if each.action_id else each.target,
            sub=_case_words(each, actions.get(each.action_id) if each.action_id else None),
            since=each.opened_at,
            like=f"cases: {_found(each).lower()}, {each.tool}",
            payload=payloads.get(each.action_id, {}) if each.action_id else {},
        )
        for each in mine
    ]


def _incidents(tenant: Tenant) -> list[AwaitedDecision]:
    return [
        AwaitedDecision(
            kind="incident",
            id=each.id,
            icon="incidents",
            href=reverse("incident", args=[tenant.slug, each.id]),
            title=each.title,
            sub=f"{labels.SEVERITIES[each.severity]} severity.",
            since=each.opened_at,
        )
        for each in after.open_incidents(tenant.id)
    ]


def _title(action: Action, payload: dict[str, Any] | None = None) -> str:
    return action_title(action.operation_kind, action.target, payload)


def _found(case: Case) -> str:
    return labels.discrepancy_label(case.discrepancy) if case.discrepancy else labels.case_reason_label(case.reason)


def _case_words(case: Case, action: Action | None) -> str:
    owned = "Owned by you." if case.claimed_by else "Unassigned."
    return f"{_found(case)}{_by_now(action)}. {owned}"


def _by_now(action: Action | None) -> str:
    """What became of the action without the person who is asked."""
    if action is None or action.contradicted or action.state not in SETTLED:
        return ""
    return f", {labels.outcome_label(action).lower()} by now"
