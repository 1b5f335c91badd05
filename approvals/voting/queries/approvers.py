"""Reads of approvers: groups, delegations, absences, passkeys, break-glass uses. Every one runs inside `tenancy`."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from django.db.models import (
    Q,
)

from approvals.models import (
    Absence,
    Approver,
    ApproverKey,
    BreakGlassUse,
    Delegation,
)
from ledger.db import execute, fetch_one, page_in_order, select


def approver_groups(tenant_id: UUID) -> list[str]:
    """The groups that approvers are in, each once."""
    return sorted({group for place in approvers(tenant_id) for group in place.groups})


def approver(tenant_id: UUID, actor_id: UUID) -> Approver | None:
    """A person's row in the roster, current or not."""
    return fetch_one(Approver, "tenant_id = $1 AND actor_id = $2", tenant_id, actor_id)


def approvers(tenant_id: UUID) -> list[Approver]:
    """All current approvers."""
    return select(Approver, "tenant_id = $1 AND active ORDER BY since, actor_id", tenant_id)


def delegations_to(tenant_id: UUID, actor_id: UUID, at: datetime) -> list[Delegation]:
    """The delegations to a person in force now; whether one fits an action is decided in `operations.eligibility`."""
    return select(Delegation, IN_FORCE + " AND to_actor = $3 ORDER BY starts_at, id", tenant_id, at, actor_id)


def delegations_of(tenant_id: UUID, actor_id: UUID, at: datetime) -> list[Delegation]:
    """The delegations from and to a person that have not ended, future ones included."""
    either = Q(from_actor=actor_id) | Q(to_actor=actor_id)
    open_ones = Delegation.objects.filter(either, tenant_id=tenant_id, ended_at__isnull=True, ends_at__gt=at)
    return list(open_ones.order_by("starts_at", "id"))


def delegations(tenant_id: UUID, at: datetime) -> list[Delegation]:
    """Every delegation that has not ended."""
    open_ones = Delegation.objects.filter(tenant_id=tenant_id, ended_at__isnull=True, ends_at__gt=at)
    return list(open_ones.order_by("starts_at", "id"))


def delegation(tenant_id: UUID, delegation_id: UUID) -> Delegation | None:
    return Delegation.objects.filter(tenant_id=tenant_id, id=delegation_id).first()


def in_force(at: LiteralString) -> LiteralString:
    """The condition of a tenant's ($1) delegations and absences that are in force at a time, a placeholder."""
    return f"tenant_id = $1 AND ended_at IS NULL AND starts_at <= {at} AND ends_at > {at}"


IN_FORCE = in_force("$2")


def is_absent(tenant_id: UUID, actor_id: UUID, at: datetime) -> bool:
    """Return True if a person is absent now."""
    return actor_id in absent_approvers(tenant_id, at)


def absent_approvers(tenant_id: UUID, at: datetime) -> set[UUID]:
    """Return everybody who is absent now."""
    return {
        actor_id for (actor_id,) in execute("SELECT actor_id FROM approvals_absence WHERE " + IN_FORCE, tenant_id, at)
    }


def absences(tenant_id: UUID, at: datetime) -> list[Absence]:
    """Every absence that has not ended, begun or not."""
    found = Absence.objects.filter(tenant_id=tenant_id, ended_at__isnull=True, ends_at__gt=at)
    return list(found.order_by("starts_at", "id"))


def absence(tenant_id: UUID, absence_id: UUID) -> Absence | None:
    return Absence.objects.filter(tenant_id=tenant_id, id=absence_id).first()


def approver_keys(tenant_id: UUID, *, actor_id: UUID | None = None, states: Collection[str] = ()) -> list[ApproverKey]:
    """The passkeys of approvers, or of one of them, oldest first."""
    wanted = """tenant_id = $1 AND ($2::uuid IS NULL OR actor_id = $2)
        AND ($3::text[] = '{}' OR state = ANY($3::text[])) ORDER BY id"""
    return select(ApproverKey, wanted, tenant_id, actor_id, list(states))


def approver_key_by_id(tenant_id: UUID, key_id: UUID) -> ApproverKey | None:
    """One passkey of an approver in any state."""
    return ApproverKey.objects.filter(tenant_id=tenant_id, id=key_id).first()


def approver_key_by_credential(tenant_id: UUID, credential_id: str) -> ApproverKey | None:
    """The passkey with this credential id, in any state."""
    return ApproverKey.objects.filter(tenant_id=tenant_id, credential_id=credential_id).first()


def break_glass_use(tenant_id: UUID, use_id: UUID) -> BreakGlassUse | None:
    return fetch_one(BreakGlassUse, "tenant_id = $1 AND id = $2", tenant_id, use_id)


def break_glass_uses(
    tenant_id: UUID, *, reviewed: bool = False, after: UUID | None = None, limit: int = 100
) -> list[BreakGlassUse]:
    """Uses of break-glass: those whose review is due soonest, or the reviewed ones, newest first; behind the row
    `after`.
    """
    found = BreakGlassUse.objects.filter(tenant_id=tenant_id, reviewed_at__isnull=not reviewed)
    return page_in_order(found, "-id" if reviewed else "review_by", behind=after, limit=limit)
