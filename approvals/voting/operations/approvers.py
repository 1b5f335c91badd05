"""Approvers of a tenant, updated in the transaction that changes a membership; the caller writes the member's event."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from approvals.models import Approver, ApproverKey, Deadline

LOOK = "people"


def add_approver(
    *, tenant_id: UUID, actor_id: UUID, person_id: UUID, groups: Collection[str] = (), at: datetime
) -> None:
    """Add an approver with these groups; every approver is one of the group "reviewers" without being named."""
    Approver.objects.update_or_create(
        tenant_id=tenant_id,
        actor_id=actor_id,
        defaults={"person_id": person_id, "groups": sorted(groups), "active": True, "ended_at": None},
        create_defaults={"person_id": person_id, "groups": sorted(groups), "since": at},
    )
    schedule_recheck(tenant_id=tenant_id, at=at)


def remove_approver(*, tenant_id: UUID, actor_id: UUID, at: datetime) -> None:
    """Remove an approver; their past votes remain."""
    Approver.objects.filter(tenant_id=tenant_id, actor_id=actor_id, active=True).update(active=False, ended_at=at)
    schedule_recheck(tenant_id=tenant_id, at=at)


def link_person(*, tenant_id: UUID, actor_id: UUID, person_id: UUID, at: datetime) -> None:
    """Record the person behind an account or API key.

    What is counted from now on is counted by that. It lets nobody decide who did not before.
    """
    Approver.objects.update_or_create(
        tenant_id=tenant_id,
        actor_id=actor_id,
        defaults={"person_id": person_id},
        create_defaults={"person_id": person_id, "active": False, "since": at, "ended_at": at},
    )
    ApproverKey.objects.filter(tenant_id=tenant_id, actor_id=actor_id).update(person_id=person_id)
    schedule_recheck(tenant_id=tenant_id, at=at)


def schedule_recheck(*, tenant_id: UUID, at: datetime) -> None:
    """Schedule a recheck of every open approval (`rechecking`): its people or its policy change in this transaction."""
    Deadline.objects.update_or_create(tenant_id=tenant_id, subject_id=tenant_id, what=LOOK, defaults={"due_at": at})
