"""The further subjects of an erasure of actions: their approvals, cases and sessions, and their recovery actions.

A session is erased with its actions only when all of them are, since its goal was the goal of each. An incident that is
still open stays. Whatever stays is reported, so that the requester knows what is not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from console.recordings import queries as recordings
from ledger.actions.queries import actions as actions_queries
from ledger.record.operations import Actor
from ledger.record.rules.refusals import NotFound, Refused
from ledger.retention import queries
from ledger.retention.operations import erasure as operations
from ledger.retention.rules.retention import RESTING, RetentionPolicy, StillOpen, TooYoung, retention_cutoff
from reviews import queries as after

if TYPE_CHECKING:
    from ledger.models import Erasure

PORTION = 200
POLICY_BASIS = "The retention policy in force"


@dataclass
class ErasureScope:
    """The subjects to erase, and the related data that stays: (kind, id, why)."""

    subjects: set[UUID] = field(default_factory=set)
    stays: list[tuple[str, UUID, str]] = field(default_factory=list)


def erasure_scope(tenant_id: UUID, action_ids: Iterable[UUID]) -> ErasureScope:
    """Return everything that belongs only to these actions."""
    actions = _with_children(tenant_id, action_ids)
    scope = ErasureScope(subjects=set(actions))
    for action_id in actions:
        if after.schedule_of(tenant_id, action_id) is not None:
            raise StillOpen(f"Action {action_id} is due to be verified again.")
        scope.subjects |= {row.id for row in approvals.approvals_of(tenant_id, action_id)}
        scope.subjects |= {row.id for row in after.cases_of(tenant_id, action_id)}
        for incident in after.incidents_of(tenant_id, action_id):
            if incident.action_id == action_id and incident.state in RESTING["incident"]:
                scope.subjects.add(incident.id)
            elif incident.action_id == action_id:
                scope.stays.append(("incident", incident.id, "It is open."))
    for session_id in sorted({action.session_id for action in actions.values()}):
        if _goes_whole(tenant_id, session_id, actions):
            scope.subjects.add(session_id)
        else:
            scope.stays.append(("session", session_id, "Other actions of it stay, and its goal is theirs too."))
    scope.subjects -= queries.erased_subjects(tenant_id, scope.subjects - set(actions)).keys()
    return scope


@dataclass(frozen=True)
class RequestedErasure:
    """A request to erase, and the related data of its actions that stays: (kind, id, why)."""

    row: Erasure
    stays: list[tuple[str, UUID, str]]


def request_erasure(
    *, tenant_id: UUID, actions: list[UUID], legal_basis: str, reason: str, by: Actor, at: datetime
) -> RequestedErasure:
    """Request the erasure of these actions and of everything that belongs only to them."""
    scope = erasure_scope(tenant_id, actions)
    wish = operations.ErasureRequest(subjects=tuple(scope.subjects), legal_basis=legal_basis, reason=reason)
    row = operations.request_erasure(tenant_id=tenant_id, request=wish, by=by, at=at)
    return RequestedErasure(row, scope.stays)


def waiting_reason(tenant_id: UUID, action_id: UUID, *, at: datetime) -> str:
    """The reason why the erasure of an action cannot be requested now, and until when; empty if it can."""
    subjects: set[UUID] = set()
    try:
        subjects = erasure_scope(tenant_id, [action_id]).subjects
        operations.check_subjects(tenant_id, subjects, at=at)
    except TooYoung as refusal:
        youngest = max(each.created_at for each in queries.retention_subjects(tenant_id, sorted(subjects)))
        until = youngest + timedelta(days=queries.policy(tenant_id).floor_days)
        return f"{refusal.detail} It can be requested from {until:%Y-%m-%d %H:%M} UTC on."
    except Refused as refusal:
        return refusal.detail
    return ""


def propose_expired(*, tenant_id: UUID, at: datetime) -> int:
    """Request the erasure of a portion of expired data under a standing policy; return the number of requests.

    Without a standing policy nothing is asked for here: two people see what has run out and decide.
    """
    policy = queries.policy(tenant_id)
    if not policy.standing:
        return 0
    actions = expired_actions(tenant_id, policy, at=at)
    wanted = [partial(_all_of, tenant_id, action) for action in actions]
    wanted += [partial(_alone, each) for each in expired_recordings(tenant_id, policy, at=at)]
    return sum(_asked_for(tenant_id, policy, subjects, at=at) for subjects in wanted)


def _asked_for(
    tenant_id: UUID, policy: RetentionPolicy, subjects: Callable[[], tuple[UUID, ...]], *, at: datetime
) -> bool:
    try:
        wish = operations.ErasureRequest(
            subjects=subjects(), legal_basis=POLICY_BASIS, reason=f"Kept for {policy.payload_days} days."
        )
        operations.request_erasure_by_policy(tenant_id=tenant_id, request=wish, at=at)
    except Refused:
        # Held, or something of it is not at rest: tomorrow is another day.
        return False
    return True


def _all_of(tenant_id: UUID, action: UUID) -> tuple[UUID, ...]:
    return tuple(erasure_scope(tenant_id, [action]).subjects)


def _alone(recording: UUID) -> tuple[UUID, ...]:
    return (recording,)


def expired_actions(tenant_id: UUID, policy: RetentionPolicy, *, at: datetime, limit: int = PORTION) -> list[UUID]:
    """Actions whose retention period is over, oldest first."""
    return queries.expired_actions(tenant_id, before=retention_cutoff(policy, at=at), limit=limit)


def expired_recordings(tenant_id: UUID, policy: RetentionPolicy, *, at: datetime, limit: int = PORTION) -> list[UUID]:
    """Imported recordings whose retention period is over, oldest first."""
    found = recordings.expired_recordings(tenant_id, before=retention_cutoff(policy, at=at), limit=limit)
    waiting = queries.subjects_in_open_requests(tenant_id, found) if found else set()
    return [each for each in found if each not in waiting]


def _with_children(tenant_id: UUID, action_ids: Iterable[UUID]) -> dict[UUID, Any]:
    found: dict[UUID, Any] = {}
    waiting = list(action_ids)
    while waiting:
        action_id = waiting.pop()
        if action_id in found:
            continue
        action = actions_queries.action(tenant_id, action_id)
        if action is None:
            raise NotFound(detail=f"There is no action {action_id}.")
        found[action_id] = action
        waiting += [child.id for child in actions_queries.children_of(tenant_id, action_id)]
    return found


def _goes_whole(tenant_id: UUID, session_id: UUID, actions: dict[UUID, Any]) -> bool:
    session = sessions_queries.session(tenant_id, session_id)
    if session is None:
        return False
    others = {row.id for row in actions_queries.actions(tenant_id, session=session_id, limit=5000)} - actions.keys()
    return others == queries.erased_subjects(tenant_id, others).keys()
