"""Load the facts that a message's lines refer to, at sending time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from approvals.agents import queries as agents_queries
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from approvals.standing import queries as standing
from approvals.voting.queries import approvers, votes
from console.accounts import queries as directory
from console.costs import queries as cost_queries
from console.metrics import queries as metrics_queries
from console.notifications.messages import NoticeFact, format_moment, operation_verb
from console.notifications.rules import WAITS, Occasion
from console.web.labels import action_title, approval_label
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue import queries as catalogue_queries
from ledger.exports import queries as exports_queries
from ledger.retention import queries as retention_queries
from reviews import queries as after

if TYPE_CHECKING:
    from approvals.models import Approval, Vote
    from ledger.models import Action, Tenant

# Where to go for what has no page of its own; in a link that leaves the console no name stands either.
_PAGES = {
    "emergency": "emergencies",
    "approval": "approvals",
    "agent": "agents",
    "approver_key": "people",
    "member": "people",
    "erasure": "holds",
    "retention": "holds",
    "case": "cases",
    "action": "actions",
    "contract": "contracts",
    "system": "systems",
    "alert": "metrics",
    "cost_budget": "costs",
    "standing_approval": "standing-approvals",
    "incident": "incidents",
    "release": "releases",
    "export": "exports",
}
_OWN_PAGES = {
    "approval": "approval",
    "case": "case",
    "action": "action",
    "standing_approval": "standing-approval",
    "incident": "incident",
    "release": "release",
}
# What each is called in the console; of an action, and of what is about one, the action's own title.
_TITLES: Mapping[str, Callable[[Any], str]] = {
    "case": lambda row: row.target,
    "standing_approval": lambda row: f"{row.tool} by agent {row.agent}",
    "agent": lambda row: row.agent_id,
    "session": lambda row: f"of {row.agent_id}",
    "approver_key": lambda row: row.name,
    "member": directory.name_of,
    "credential": lambda row: row.name,
    "erasure": lambda row: row.legal_basis,
    "contract": lambda row: f"{row.name} {row.version}",
    "system": lambda row: row.name,
    "alert": lambda row: row.cleared_said or row.said,
    "cost_budget": lambda row: row.said,
    "incident": lambda row: row.title,
    "policy": lambda row: f"{row.kind} {row.version}",
    "release": lambda row: f"{row.tool or f'{row.kind} policy'} {row.version}",
    "export": lambda row: f"requested {format_moment(row.requested_at)}",
}
OPEN = frozenset({"PREPARING", "REQUESTED"})
UNKNOWN = ("UNKNOWN", "VERIFICATION_TIMEOUT")
# In which state a thing still waits for what the notice was about.
_WAITING: Mapping[str, Collection[str]] = {
    Occasion.CASE_OPENED: ("OPEN", "AWAITING_SECOND"),
    Occasion.CASE_REOPENED: ("OPEN", "AWAITING_SECOND"),
    Occasion.CASE_ASSIGNED: ("OPEN", "AWAITING_SECOND"),
    Occasion.SETTLEMENT_WAITS: ("AWAITING_SECOND",),
    Occasion.UNKNOWN: UNKNOWN,
    Occasion.KEY_WAITS: ("PENDING",),
    Occasion.ERASURE_WAITS: ("REQUESTED",),
    Occasion.RETENTION_WAITS: ("PROPOSED",),
    Occasion.STANDING_APPROVAL_WAITS: ("PROPOSED",),
    Occasion.RELEASE_WAITS: ("DRAFT", "CHECKED", "CANARY", "READY"),
    Occasion.INCIDENT_OPENED: ("OPEN",),
}
_UNDECIDED = ("EXPIRED", "VOIDED")
_READERS: Mapping[str, Callable[[UUID, list[UUID]], Iterable[Any]]] = {
    "approval": approvals.approvals_by_id,
    "case": lambda tenant_id, ids: after.cases_by_id(tenant_id, ids).values(),
    "action": lambda tenant_id, ids: actions_queries.actions_by_id(tenant_id, ids).values(),
    "standing_approval": lambda tenant_id, ids: standing.standing_approvals_named(tenant_id, ids).values(),
    "approver_key": lambda tenant_id, ids: [each for each in approvers.approver_keys(tenant_id) if each.id in ids],
    "member": lambda tenant_id, ids: [each for each in directory.members(tenant_id) if each.id in ids],
    "credential": lambda tenant_id, ids: [each for each in directory.api_keys(tenant_id) if each.id in ids],
    "erasure": retention_queries.erasures_by_id,
    "retention": lambda tenant_id, ids: [each for each in retention_queries.retentions(tenant_id) if each.id in ids],
    "contract": lambda tenant_id, ids: catalogue_queries.contract_versions_by_id(tenant_id, ids).values(),
    "system": lambda tenant_id, ids: [each for each in catalogue_queries.systems(tenant_id) if each.id in ids],
    "agent": lambda tenant_id, ids: [each for each in agents_queries.agents(tenant_id) if each.id in ids],
    "session": lambda tenant_id, ids: sessions_queries.sessions_by_id(tenant_id, set(ids)).values(),
    "cost_budget": cost_queries.budgets_by_id,
    "alert": lambda tenant_id, ids: metrics_queries.alerts_by_id(tenant_id, ids).values(),
    "incident": after.incidents_by_id,
    "policy": catalogue_queries.policy_versions_by_id,
    "release": catalogue_queries.releases_by_id,
    "export": exports_queries.exports_by_id,
}


def load_facts(tenant: Tenant, lines: Iterable[dict[str, Any]], *, absolute: bool = True) -> list[NoticeFact]:
    """One fact for each line, in their order."""
    asked = list(lines)
    rows, actions = _read_things(tenant.id, [(line["about_kind"], UUID(line["about"])) for line in asked])
    origin = settings.COUNTERFOIL_PUBLIC_URL if absolute else ""
    return [_fact(tenant.slug, line, rows.get(line["about_kind"], {}), actions, origin) for line in asked]


def titles_of(tenant_id: UUID, things: Iterable[tuple[str, UUID]]) -> dict[UUID, str]:
    """The names of things in the console, by id; those that have none, or are gone, are left out."""
    rows, actions = _read_things(tenant_id, list(things))
    found = {row.id: _title(kind, row, actions) for kind, those in rows.items() for row in those.values()}
    return {thing: title for thing, title in found.items() if title}


def _read_things(
    tenant_id: UUID, things: Collection[tuple[str, UUID]]
) -> tuple[dict[str, dict[UUID, Any]], dict[UUID, Action]]:
    """The rows of these things by kind, and the actions that they are or are about."""
    rows: dict[str, dict[UUID, Any]] = {}
    for kind, read in _READERS.items():
        ids = {thing for each, thing in things if each == kind}
        rows[kind] = {each.id: each for each in read(tenant_id, sorted(ids))} if ids else {}
    concerned = [each.action_id for kind in ("approval", "case") for each in rows[kind].values() if each.action_id]
    return rows, actions_queries.actions_by_id(tenant_id, concerned) | rows["action"]


def _title(kind: str, row: Any, actions: Mapping[UUID, Action]) -> str:
    action_id = _action_of(kind, row)
    action = actions.get(action_id) if action_id is not None else None
    if action is not None:
        return action_title(action.operation_kind, action.target)
    return _TITLES[kind](row) if kind in _TITLES else ""


def load_endings(tenant: Tenant, lines: Iterable[dict[str, Any]]) -> list[str]:
    """The ending of each line's request: what, by whom and when, without reasons; empty for others."""
    about = [UUID(line["about"]) if line["about_kind"] == "approval" else None for line in lines]
    ids = {each for each in about if each}
    rows = {each.id: each for each in approvals.approvals_by_id(tenant.id, sorted(ids))}
    cast, names = votes.votes_by_approval(tenant.id, ids), directory.names_of(tenant.id)
    actions = actions_queries.actions_by_id(tenant.id, [each.action_id for each in rows.values()])
    return [
        _ending(rows[each], actions[rows[each].action_id], cast.get(each, []), names) if each in rows else ""
        for each in about
    ]


def _ending(row: Approval, action: Action, cast: Sequence[Vote], names: Mapping[UUID, str]) -> str:
    given = {vote.verdict for vote in cast}
    rejected = ("Rejected", {"reject"}) if "reject" in given else ("Changes requested", {"request_changes"})
    approved = ("Approved", {"approve", "break_glass"})
    ways = {"APPROVED": approved, "CONSUMED": approved, "REJECTED": rejected}
    word, verdicts = ways.get(row.state, (approval_label(row, action)[1] if row.state in _UNDECIDED else "", set()))
    by = dict.fromkeys(names.get(vote.voter, "somebody who has left") for vote in cast if vote.verdict in verdicts)
    who = f" by {' and '.join(by)}" if by else ""
    when = f", {format_moment(row.decided_at)}" if verdicts and row.decided_at else ""
    return f"{word}{who}{when}"


def is_obsolete(fact: NoticeFact) -> bool:
    """Return True if a notice is no longer needed because its request was decided."""
    return fact.kind in WAITS and not fact.still_waits


def _fact(slug: str, line: dict[str, Any], rows: dict[UUID, Any], actions: dict[UUID, Any], origin: str) -> NoticeFact:
    kind, row = line["about_kind"], rows.get(UUID(line["about"]))
    waits = row is not None and _waits(line["kind"], row)
    if row is None or kind not in _OWN_PAGES:
        page = reverse(_PAGES[kind], args=[slug])
    else:
        page = reverse(_OWN_PAGES[kind], args=[slug, row.id])
    book = f"{origin}{reverse('runbooks', args=[slug])}#phantom-rate"
    action_id = _action_of(kind, row) if row is not None else None
    action = actions.get(action_id) if action_id is not None else None
    if row is None or action is None:
        return NoticeFact(
            kind=line["kind"],
            href=f"{origin}{page}",
            still_waits=waits,
            title=_title(kind, row, actions) if row is not None else "",
            runbook=book if line["kind"] == Occasion.AGENT_FLAGGED else "",
        )
    asked = {}
    if kind == "approval":
        asked = {"risk": row.risk, "asked_at": row.requested_at, "decide_by": row.decide_by}
    return NoticeFact(
        kind=line["kind"],
        href=f"{origin}{page}",
        verb=operation_verb(action.operation_kind),
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        still_waits=waits,
        title=_title(kind, row, actions),
        **asked,
    )


def _action_of(kind: str, row: Any) -> UUID | None:
    """The action that an approval or a case is about, or that this is."""
    if kind in ("approval", "case"):
        return cast("UUID | None", row.action_id)
    return cast("UUID", row.id) if kind == "action" else None


def _waits(kind: str, row: Any) -> bool:
    """Return whether the awaited decision is still to be made."""
    if kind in (Occasion.ROLES_WAIT, Occasion.SEPARATION_WAITS, Occasion.SYSTEM_WAITS):
        return row.proposal is not None
    if kind == Occasion.RELEASE_WAITS and row.promoted_by is not None:
        return False
    return getattr(row, "state", "") in _WAITING.get(kind, OPEN)
