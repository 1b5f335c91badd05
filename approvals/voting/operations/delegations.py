"""Delegations of voting power, and absences; each is a subject with its own events."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.models import Absence, Delegation
from approvals.voting.operations.approvers import schedule_recheck
from approvals.voting.queries import approvers
from approvals.voting.rules import delegation
from ledger.record import operations as ledger
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import NotFound, ProofNeeded, Refused


class EndedAlready(Refused):
    """This has already ended."""

    code = "ENDED"


class NotYours(Refused):
    """Only the person concerned or an administrator may do this."""

    code = "NOT_YOURS"
    status = 403


def add_delegation(
    *,
    tenant_id: UUID,
    from_actor: UUID,
    to_actor: UUID,
    groups: Collection[str],
    tools: Collection[str],
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    by: ledger.Actor,
    by_person: UUID,
    at: datetime,
    is_proven: bool = False,
) -> Delegation:
    """Delegate a person's power to vote: by that person, or by an administrator for them.

    `by_person` is the person who does it, and `is_proven` whether they have just authenticated again. Nobody may
    delegate another's power to themselves, whichever account they use.
    """
    giver, receiver = _holder(tenant_id, from_actor), _holder(tenant_id, to_actor)
    delegation.check_period(starts_at, ends_at, at=at)
    delegation.check_delegation(giver, receiver, groups)
    if by.id != from_actor and receiver is not None and receiver.person == str(by_person):
        raise NotYours("Nobody delegates another's power to themselves.")
    if not is_proven:
        raise ProofNeeded(
            "Delegating gives somebody the power to approve. Confirm with your password or a one-time code."
        )
    row = Delegation.objects.create(
        tenant_id=tenant_id,
        id=ledger.new_id(at),
        from_actor=from_actor,
        to_actor=to_actor,
        groups=sorted(set(groups)),
        tools=sorted(set(tools)),
        starts_at=starts_at,
        ends_at=ends_at,
        reason=reason,
        created_by=by.id,
    )
    _append_first_event(
        tenant_id,
        row.id,
        "delegation",
        ledger.NewEvent(kind="delegated", to="ACTIVE", detail=_delegation_detail(row)),
        by,
        at=at,
    )
    schedule_recheck(tenant_id=tenant_id, at=at)
    return row


def _delegation_detail(row: Delegation) -> dict[str, Any]:
    return {
        "from": str(row.from_actor),
        "to": str(row.to_actor),
        "groups": row.groups,
        "tools": row.tools,
        "starts_at": instant(row.starts_at),
        "ends_at": instant(row.ends_at),
        "reason": row.reason,
    }


def end_delegation(*, tenant_id: UUID, delegation_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """End a delegation before its time, with immediate effect."""
    row = Delegation.objects.select_for_update().filter(tenant_id=tenant_id, id=delegation_id).first()
    if row is None:
        raise NotFound("Delegation or absence")
    if row.ended_at is not None or row.ends_at <= at:
        raise EndedAlready
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=row.id, kind="delegation")
    ledger.append(head, ledger.NewEvent(kind="delegation_ended", to="ENDED"), actor=by, at=at)
    Delegation.objects.filter(tenant_id=tenant_id, id=row.id).update(ended_at=at)
    schedule_recheck(tenant_id=tenant_id, at=at)


def add_absence(
    *, tenant_id: UUID, actor_id: UUID, starts_at: datetime, ends_at: datetime, by: ledger.Actor, at: datetime
) -> Absence:
    """Record an absence: an absent person is not counted on, and others are not told to wait for them."""
    delegation.check_period(starts_at, ends_at, at=at)
    row = Absence.objects.create(
        tenant_id=tenant_id, id=ledger.new_id(at), actor_id=actor_id, starts_at=starts_at, ends_at=ends_at
    )
    detail = {"actor": str(actor_id), "starts_at": instant(starts_at), "ends_at": instant(ends_at)}
    _append_first_event(
        tenant_id, row.id, "absence", ledger.NewEvent(kind="absence_began", to="ACTIVE", detail=detail), by, at=at
    )
    schedule_recheck(tenant_id=tenant_id, at=at)
    return row


def end_absence(*, tenant_id: UUID, absence_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """End an absence before its time is up."""
    row = Absence.objects.select_for_update().filter(tenant_id=tenant_id, id=absence_id).first()
    if row is None:
        raise NotFound("Delegation or absence")
    if row.ended_at is not None or row.ends_at <= at:
        raise EndedAlready
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=row.id, kind="absence")
    ledger.append(head, ledger.NewEvent(kind="absence_ended", to="ENDED"), actor=by, at=at)
    Absence.objects.filter(tenant_id=tenant_id, id=row.id).update(ended_at=at)
    schedule_recheck(tenant_id=tenant_id, at=at)


def end_all_delegations(*, tenant_id: UUID, actor_id: UUID, by: ledger.Actor, at: datetime) -> None:
    """End every delegation to and from a person who leaves."""
    for row in approvers.delegations_of(tenant_id, actor_id, at):
        end_delegation(tenant_id=tenant_id, delegation_id=row.id, by=by, at=at)


def _holder(tenant_id: UUID, actor_id: UUID) -> delegation.Holder | None:
    """An approver as the rules describe one; None if not in the roster."""
    row = approvers.approver(tenant_id, actor_id)
    if row is None:
        return None
    groups = frozenset(row.groups)
    return delegation.Holder(actor=str(row.actor_id), person=str(row.person_id), groups=groups, active=row.active)


def _append_first_event(
    tenant_id: UUID, subject_id: UUID, kind: str, event: ledger.NewEvent, by: ledger.Actor, *, at: datetime
) -> None:
    ledger.append(ledger.SubjectHead(tenant_id=tenant_id, id=subject_id, kind=kind), event, actor=by, at=at)
