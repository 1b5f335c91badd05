"""Load the facts that a message's lines refer to, at sending time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from approvals.requests.queries import approvals
from approvals.standing import queries as standing
from approvals.voting.queries import approvers
from console.accounts import queries as directory
from console.notifications.messages import NoticeFact, operation_verb
from console.notifications.rules import WAITS, Occasion
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.retention import queries as retention_queries
from reviews import queries as after

if TYPE_CHECKING:
    from ledger.models import Tenant

# Where to go for what has no page of its own.
_PAGES = {
    "emergency": "approvals",
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
    "standing_approval": "standing-approvals",
}
_OWN_PAGES = {
    "approval": "approval",
    "case": "case",
    "action": "action",
    "standing_approval": "standing-approval",
}
OPEN = frozenset({"PREPARING", "REQUESTED"})
UNKNOWN = ("UNKNOWN", "VERIFICATION_TIMEOUT")
# In which state a thing still waits for what people were told of.
_WAITING: Mapping[str, Collection[str]] = {
    Occasion.CASE_OPENED: ("OPEN", "AWAITING_SECOND"),
    Occasion.CASE_REOPENED: ("OPEN", "AWAITING_SECOND"),
    Occasion.CASE_ASSIGNED: ("OPEN", "AWAITING_SECOND"),
    Occasion.SETTLEMENT_WAITS: ("AWAITING_SECOND",),
    Occasion.UNKNOWN: UNKNOWN,
    Occasion.KEY_WAITS: ("PENDING",),
    Occasion.ERASURE_WAITS: ("REQUESTED",),
    Occasion.RETENTION_WAITS: ("PROPOSED",),
}
_READERS: Mapping[str, Callable[[UUID, list[UUID]], Iterable[Any]]] = {
    "approval": approvals.approvals_by_id,
    "case": lambda tenant_id, ids: after.cases_by_id(tenant_id, ids).values(),
    "action": lambda tenant_id, ids: actions_queries.actions_by_id(tenant_id, ids).values(),
    "standing_approval": lambda tenant_id, ids: standing.standing_approvals_named(tenant_id, ids).values(),
    "approver_key": lambda tenant_id, ids: [each for each in approvers.approver_keys(tenant_id) if each.id in ids],
    "member": lambda tenant_id, ids: [each for each in directory.members(tenant_id) if each.id in ids],
    "erasure": lambda tenant_id, ids: filter(None, (retention_queries.erasure(tenant_id, each) for each in ids)),
    "retention": lambda tenant_id, ids: [each for each in retention_queries.retentions(tenant_id) if each.id in ids],
}


def load_facts(tenant: Tenant, lines: Iterable[dict[str, Any]], *, absolute: bool = True) -> list[NoticeFact]:
    """One fact for each line, in their order."""
    asked = list(lines)
    rows: dict[str, dict[UUID, Any]] = {}
    for kind, read in _READERS.items():
        ids = {UUID(line["about"]) for line in asked if line["about_kind"] == kind}
        rows[kind] = {each.id: each for each in read(tenant.id, sorted(ids))} if ids else {}
    concerned = [each.action_id for kind in ("approval", "case") for each in rows[kind].values() if each.action_id]
    actions = actions_queries.actions_by_id(tenant.id, concerned) | rows["action"]
    origin = settings.COUNTERFOIL_PUBLIC_URL if absolute else ""
    return [_fact(tenant.slug, line, rows.get(line["about_kind"], {}), actions, origin) for line in asked]


def is_obsolete(fact: NoticeFact) -> bool:
    """Whether nobody has to be told any more: it asked for a decision, and there is one."""
    return fact.kind in WAITS and not fact.still_waits


def _fact(slug: str, line: dict[str, Any], rows: dict[UUID, Any], actions: dict[UUID, Any], origin: str) -> NoticeFact:
    kind, row = line["about_kind"], rows.get(UUID(line["about"]))
    waits = row is not None and _waits(line["kind"], row)
    if row is None or kind not in _OWN_PAGES:
        href = f"{origin}{reverse(_PAGES[kind], args=[slug])}"
        book = f"{origin}{reverse('runbooks', args=[slug])}#phantom-rate"
        runbook = book if line["kind"] == Occasion.AGENT_FLAGGED else ""
        return NoticeFact(kind=line["kind"], href=href, still_waits=waits, runbook=runbook)
    href = f"{origin}{reverse(_OWN_PAGES[kind], args=[slug, row.id])}"
    if kind == "standing_approval":
        return NoticeFact(kind=line["kind"], href=href, title=f"{row.tool} by agent {row.agent}")
    action = actions.get(row.id if kind == "action" else row.action_id)
    if action is None:
        return NoticeFact(kind=line["kind"], href=href, still_waits=waits, title=row.target)
    asked = {}
    if kind == "approval":
        asked = {"risk": row.risk, "asked_at": row.requested_at, "decide_by": row.decide_by}
    return NoticeFact(
        kind=line["kind"],
        href=href,
        verb=operation_verb(action.operation_kind),
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        still_waits=waits,
        title=action_title(action.operation_kind, action.target),
        **asked,
    )


def _waits(kind: str, row: Any) -> bool:
    """Whether what a thing waited for is still to be done."""
    if kind in (Occasion.ROLES_WAIT, Occasion.SEPARATION_WAITS):
        return row.proposal is not None
    return getattr(row, "state", "") in _WAITING.get(kind, OPEN)
