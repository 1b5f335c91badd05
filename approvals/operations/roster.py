"""The roster: who may decide, kept in the transaction that changes a membership. The member's event is the caller's."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from approvals.models import Approver, ApproverKey


def enter(*, tenant_id: UUID, actor_id: UUID, person_id: UUID, groups: Collection[str] = (), at: datetime) -> None:
    """Let somebody decide, for these groups; every approver is one of the group "reviewers" without being named."""
    Approver.objects.update_or_create(
        tenant_id=tenant_id,
        actor_id=actor_id,
        defaults={"person_id": person_id, "groups": sorted(groups), "active": True, "ended_at": None},
        create_defaults={"person_id": person_id, "groups": sorted(groups), "since": at},
    )


def leave(*, tenant_id: UUID, actor_id: UUID, at: datetime) -> None:
    """Somebody decides no longer; what they decided stays theirs."""
    Approver.objects.filter(tenant_id=tenant_id, actor_id=actor_id, active=True).update(active=False, ended_at=at)


def identify(*, tenant_id: UUID, actor_id: UUID, person_id: UUID) -> None:
    """Another human stands behind an account than was known; what is counted from now on is counted by that."""
    Approver.objects.filter(tenant_id=tenant_id, actor_id=actor_id).update(person_id=person_id)
    ApproverKey.objects.filter(tenant_id=tenant_id, actor_id=actor_id).update(person_id=person_id)
