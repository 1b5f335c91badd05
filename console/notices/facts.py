"""What the lines of a message stand for: loaded when it is sent, so that nothing of the record is copied into it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from approvals.queries import asking
from console.notices.occasions import WAITS
from console.notices.wording import Fact, verb
from ledger.queries import acting

# Where to go for what is about no approval.
_PAGES = {"approver_key": "people", "emergency": "approvals", "approval": "approvals", "agent": "agents"}
OPEN = frozenset({"PREPARING", "REQUESTED"})


def facts(tenant: Any, lines: Iterable[dict[str, Any]], *, absolute: bool = True) -> list[Fact]:
    """One fact for each line, in their order."""
    asked = list(lines)
    wanted = {UUID(line["about"]) for line in asked if line["about_kind"] == "approval"}
    approvals = {each.id: each for each in asking.approvals_by_id(tenant.id, wanted)}
    actions = acting.actions_by_id(tenant.id, [each.action_id for each in approvals.values()])
    origin = settings.COUNTERFOIL_PUBLIC_URL if absolute else ""
    return [_fact(tenant.slug, line, approvals.get(UUID(line["about"])), actions, origin) for line in asked]


def outdated(fact: Fact) -> bool:
    """Whether nobody has to be told any more: it asked for a decision, and there is one."""
    return fact.kind in WAITS and not fact.still_waits


def _fact(slug: str, line: dict[str, Any], approval: Any, actions: dict[UUID, Any], origin: str) -> Fact:
    if approval is None:
        return Fact(kind=line["kind"], href=f"{origin}{reverse(_PAGES[line['about_kind']], args=[slug])}")
    action = actions[approval.action_id]
    return Fact(
        kind=line["kind"],
        href=f"{origin}{reverse('approval', args=[slug, approval.id])}",
        verb=verb(action.operation_kind),
        side_effect_class=action.side_effect_class,
        reversibility=action.reversibility,
        risk=approval.risk,
        asked_at=approval.requested_at,
        decide_by=approval.decide_by,
        still_waits=approval.state in OPEN,
    )
