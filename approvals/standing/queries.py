"""Standing approvals, the actions that passed under them, and the decided actions by which one can be earned."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from approvals.models import Approval, StandingApproval, StandingPass
from approvals.standing.rules.standing import DecidedAction
from ledger.db import execute, fetch_one, page_in_order

LIVE = ("PROPOSED", "ACTIVE", "PAUSED")
READ_BACK = 2000
"""How many decided approvals are looked at for offers: the newest."""


class DecidedCall(NamedTuple):
    """A decided action with the data that determines its shape."""

    decided: DecidedAction
    approval_id: UUID
    action_id: UUID
    agent: str
    agent_version: str
    tool: str
    contract_digest: str
    target: str
    payload_pointer: UUID | None


_COLUMNS = """a.id, a.state, p.state, p.standing_id IS NULL AND NOT p.emergency, p.editor IS NOT NULL, p.emergency,
    p.standing_id IS NOT NULL, a.attempt_count, a.discrepancy, a.contradicted, a.reversed, a.relation <> ''"""
_CALL = f"{_COLUMNS}, p.id, a.agent, s.agent_version, a.tool, a.contract_digest, a.target, a.payload_pointer"
_DECIDED_OF = f"""
SELECT {_CALL}
FROM approvals_approval p
JOIN ledger_action a ON a.tenant_id = p.tenant_id AND a.id = p.action_id AND a.approval_id = p.id
JOIN approvals_session s ON s.tenant_id = a.tenant_id AND s.id = a.session_id
WHERE p.tenant_id = $1 AND p.decided_at IS NOT NULL AND a.agent = $3 AND a.tool = $4
ORDER BY p.id DESC LIMIT $2
"""
# Each is looked up by its id, one after the other: no plan reads a whole table of approvals or actions.
_DECIDED = f"""
SELECT {_CALL}
FROM (SELECT * FROM approvals_approval WHERE tenant_id = $1 AND decided_at IS NOT NULL ORDER BY id DESC LIMIT $2) AS p,
LATERAL (SELECT * FROM ledger_action WHERE tenant_id = $1 AND id = p.action_id AND approval_id = p.id LIMIT 1) AS a,
LATERAL (SELECT agent_version FROM approvals_session WHERE tenant_id = $1 AND id = a.session_id LIMIT 1) AS s
ORDER BY p.id DESC
"""
_PASSED = f"""
SELECT {_COLUMNS}
FROM approvals_standingpass w
JOIN approvals_approval p ON p.tenant_id = w.tenant_id AND p.id = w.approval_id
JOIN ledger_action a ON a.tenant_id = w.tenant_id AND a.id = w.action_id
WHERE w.tenant_id = $1 AND w.standing_id = $2 ORDER BY w.number DESC
"""
_DRIFTED = """
SELECT w.action_id FROM approvals_standingpass w
JOIN ledger_event e ON e.tenant_id = w.tenant_id AND e.subject_id = w.action_id AND e.kind = 'approval_asked_again'
WHERE w.tenant_id = $1 AND w.standing_id = $2 LIMIT 1
"""


def decided_calls(tenant_id: UUID) -> list[DecidedCall]:
    """The newest decided actions."""
    return [_decided_call(row) for row in execute(_DECIDED, tenant_id, READ_BACK)]


def decided_calls_of(tenant_id: UUID, *, agent: str, tool: str) -> list[DecidedCall]:
    """The newest decided actions of one agent with one tool."""
    return [_decided_call(row) for row in execute(_DECIDED_OF, tenant_id, READ_BACK, agent, tool)]


def _decided_call(row: Any) -> DecidedCall:
    return DecidedCall(_decided_action(row[:12]), row[12], row[0], *row[13:])


def passed_actions(tenant_id: UUID, standing_id: UUID) -> list[DecidedAction]:
    """The actions that passed under a standing approval, newest first, in their current state."""
    return [_decided_action(row) for row in execute(_PASSED, tenant_id, standing_id)]


def drifted_action(tenant_id: UUID, standing_id: UUID) -> UUID | None:
    """An action that passed under it and whose target was found to have changed before the start."""
    rows = execute(_DRIFTED, tenant_id, standing_id)
    return rows[0][0] if rows else None


def _decided_action(row: Any) -> DecidedAction:
    names = DecidedAction.__dataclass_fields__
    return DecidedAction(**dict(zip(names, (str(row[0]), *row[1:]), strict=True)))


def standing_approval(tenant_id: UUID, standing_id: UUID) -> StandingApproval | None:
    return fetch_one(StandingApproval, "tenant_id = $1 AND id = $2", tenant_id, standing_id)


def standing_approvals(
    tenant_id: UUID,
    *,
    states: Collection[str] = LIVE,
    order: str = "-id",
    after: UUID | None = None,
    limit: int = 50,
) -> list[StandingApproval]:
    """Standing approvals in these states, newest first, or in the order of a column; behind the row `after`."""
    found = StandingApproval.objects.filter(tenant_id=tenant_id, state__in=list(states))
    return page_in_order(found, order, behind=after, limit=limit)


def standing_approvals_named(tenant_id: UUID, ids: Collection[UUID]) -> dict[UUID, StandingApproval]:
    """The standing approvals with these ids."""
    return {each.id: each for each in StandingApproval.objects.filter(tenant_id=tenant_id, id__in=list(ids))}


def active_for(tenant_id: UUID, *, agent: str, tool: str) -> list[UUID]:
    """The standing approvals in force for an agent's calls of a tool."""
    found = "SELECT id FROM approvals_standingapproval WHERE tenant_id = $1 AND state = 'ACTIVE' AND agent = $2"
    return [each for (each,) in execute(found + " AND tool = $3 ORDER BY id", tenant_id, agent, tool)]


def time_boxes(tenant_id: UUID, *, at: datetime) -> list[StandingApproval]:
    """The time-boxed passes in force now, the one that ends first at the head."""
    found = StandingApproval.objects.filter(tenant_id=tenant_id, state="ACTIVE", is_time_boxed=True, ends_at__gt=at)
    return list(found.order_by("ends_at"))


def live_scopes(tenant_id: UUID) -> set[tuple[str, str, str, str]]:
    """(agent, tool, kind of target, currency) of every standing approval that is proposed, in force or paused."""
    live = StandingApproval.objects.filter(tenant_id=tenant_id, state__in=LIVE)
    return set(live.values_list("agent", "tool", "target_kind", "currency"))


def passes(tenant_id: UUID, standing_id: UUID) -> list[StandingPass]:
    """Every action that passed, the newest first."""
    return list(StandingPass.objects.filter(tenant_id=tenant_id, standing_id=standing_id).order_by("-number"))


def pass_of(tenant_id: UUID, action_id: UUID) -> StandingPass | None:
    """The pass of an action under a standing approval, if it passed under one."""
    return fetch_one(StandingPass, "tenant_id = $1 AND action_id = $2 ORDER BY at DESC", tenant_id, action_id)


def passes_of(tenant_id: UUID, approval_ids: Collection[UUID]) -> dict[UUID, StandingPass]:
    """Return the passes of these approvals, by approval."""
    found = StandingPass.objects.filter(tenant_id=tenant_id, approval_id__in=list(approval_ids))
    return {each.approval_id: each for each in found}


def is_first_request(tenant_id: UUID, approval: Approval) -> bool:
    """Return whether this is the first approval request of the action."""
    return (
        not Approval.objects.filter(tenant_id=tenant_id, action_id=approval.action_id).exclude(id=approval.id).exists()
    )


def standing_approvals_to_check(tenant_id: UUID, *, at: datetime) -> list[UUID]:
    """The standing approvals that a tick checks: in force, paused without a case, or expired before a person or the
    budget ended them.
    """
    found = (
        "SELECT id FROM approvals_standingapproval WHERE tenant_id = $1 AND (state = 'ACTIVE' OR (state = 'PAUSED'"
        " AND case_id IS NULL AND pause_reason <> 'BY_HAND') OR (state = 'PROPOSED' AND ends_at <= $2)"
        " OR (state = 'PAUSED' AND is_time_boxed AND ends_at <= $2)) ORDER BY id"
    )
    return [each for (each,) in execute(found, tenant_id, at)]
