"""Legal holds and retention policies. A policy takes two people, a hold takes one."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.db import call_function
from ledger.models import LegalHold, Retention
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import Answer, check_answer
from ledger.record.operations import Actor, NewEvent, SubjectHead, append, lock_subject, new_id
from ledger.record.rules.refusals import AlreadyDecided, AlreadyProposed
from ledger.retention import queries
from ledger.retention.rules import retention as rules
from ledger.retention.rules.retention import HoldScope, RetentionPolicy


def place_hold(*, tenant_id: UUID, scope: HoldScope, value: str, reason: str, by: Actor, at: datetime) -> LegalHold:
    """Place a hold: what it covers is not erased or pruned from the commit on. An erasure already under way
    continues.
    """
    call_function(b"SELECT ledger_take_turn($1)", tenant_id.bytes)
    if LegalHold.objects.filter(tenant_id=tenant_id, scope=scope, value=value, lifted_at__isnull=True).exists():
        raise rules.AlreadyHeld
    row = LegalHold.objects.create(
        tenant_id=tenant_id,
        id=new_id(at),
        scope=scope,
        value=value,
        reason=reason[:4000],
        placed_by=by.id,
        placed_at=at,
    )
    append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="hold"),
        NewEvent(kind="hold_placed", to="PLACED", detail={"scope": str(scope), "value": value, "reason": row.reason}),
        actor=by,
        at=at,
    )
    return row


def lift_hold(*, tenant_id: UUID, hold_id: UUID, reason: str, by: Actor, at: datetime) -> None:
    """End a hold; only one in force can be lifted."""
    head = _lock_in_state(tenant_id, hold_id, "hold", "PLACED")
    append(head, NewEvent(kind="hold_lifted", to="LIFTED", detail={"reason": reason}), actor=by, at=at)
    LegalHold.objects.filter(tenant_id=tenant_id, id=hold_id).update(lifted_at=at)


def propose_policy(*, tenant_id: UUID, policy: RetentionPolicy, by: Actor, at: datetime) -> Retention:
    """Propose a retention policy; it takes effect once another person has confirmed it."""
    rules.check_policy(policy)
    if Retention.objects.filter(tenant_id=tenant_id, state="PROPOSED").exists():
        raise AlreadyProposed(
            "Another retention policy is waiting for its second approver; confirm or withdraw it first."
        )
    row = Retention.objects.create(
        tenant_id=tenant_id, id=new_id(at), state="PROPOSED", proposed_by=by.id, proposed_at=at, **policy.document()
    )
    append(
        SubjectHead(tenant_id=tenant_id, id=row.id, kind="retention"),
        NewEvent(kind="retention_proposed", to="PROPOSED", detail=policy.document()),
        actor=by,
        at=at,
    )
    return row


def answer_policy(
    *,
    tenant_id: UUID,
    retention_id: UUID,
    answer: Answer,
    reason: str = "",
    by: Actor,
    is_proven: bool = False,
    at: datetime,
) -> Retention:
    """Put a proposed policy in force as the second person, or withdraw it, which everybody may who could confirm it.

    The policy before it is superseded in the same transaction.
    """
    head = _lock_in_state(tenant_id, retention_id, "retention", "PROPOSED")
    row = Retention.objects.get(tenant_id=tenant_id, id=retention_id)
    check_answer(
        "retention",
        answer,
        by_kind=by.kind,
        is_proposer=is_same_person(tenant_id, row.proposed_by, by.id),
        is_proven=is_proven,
        reason=reason,
        proposed_at=row.proposed_at,
        at=at,
    )
    if answer is not Answer.CONFIRM:
        append(head, NewEvent(kind="retention_withdrawn", to="WITHDRAWN", detail={"reason": reason}), actor=by, at=at)
        return _update_row(row, state="WITHDRAWN")
    before = queries.retention(tenant_id)
    if before is not None:
        happening = NewEvent(kind="retention_superseded", to="SUPERSEDED", detail={"by": str(retention_id)})
        append(lock_subject(tenant_id=tenant_id, subject_id=before.id, kind="retention"), happening, actor=by, at=at)
        _update_row(before, state="SUPERSEDED")
    append(head, NewEvent(kind="retention_confirmed", to="ACTIVE"), actor=by, at=at)
    return _update_row(row, state="ACTIVE", confirmed_by=by.id, confirmed_at=at)


def _lock_in_state(tenant_id: UUID, subject_id: UUID, kind: str, state: str) -> SubjectHead:
    head = lock_subject(tenant_id=tenant_id, subject_id=subject_id, kind=kind)
    if head.state != state:
        raise AlreadyDecided("This was already decided or withdrawn; reload it.")
    return head


def _update_row(row: Retention, **changes: Any) -> Retention:
    Retention.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**changes)
    for name, value in changes.items():
        setattr(row, name, value)
    return row
