"""Approvers' passkeys: enrolled by their holder, confirmed by another person, suspended at once by anybody.

Every step is an event of the key's own subject (`approver_key`). A key that is not ACTIVE cannot sign, and its votes on
approvals that are still open no longer count: these are requested again (B18, B23).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from approvals.models import Approval, ApproverKey, Vote
from approvals.requests.operations.requests import request_again
from approvals.requests.queries import approvals
from approvals.voting.rules import passkeys
from ledger.actions.queries import actions
from ledger.people.rules.confirmation import Answer, SecondPersonNeeded, check_answer
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import NotFound, Refused


class KeyTaken(Refused):
    """This passkey is already enrolled."""

    code = "KEY_TAKEN"


class NotTheHolder(Refused):
    """Only its holder can enrol a passkey."""

    code = "NOT_THE_HOLDER"
    status = 403


class KeyNotPending(Refused):
    """The key's state does not allow this."""

    code = "KEY_STATE"


def enrol(
    *,
    tenant_id: UUID,
    by: ledger.Actor,
    person_id: UUID,
    name: str,
    registered: passkeys.RegisteredKey,
    registration: bytes,
    at: datetime,
) -> ApproverKey:
    """Enrol a person's own passkey; it cannot sign until another person confirms it.

    `registration` is the browser's raw answer as canonical JSON, kept as evidence; `registered` is what it proved.
    """
    if by.kind != "person":
        raise NotTheHolder
    key_id = ledger.new_id(at)
    try:
        with transaction.atomic():
            row = ApproverKey.objects.create(
                tenant_id=tenant_id,
                id=key_id,
                actor_id=by.id,
                person_id=person_id,
                credential_id=registered.credential_id,
                public_key=registered.public_key,
                aaguid=UUID(bytes=registered.aaguid),
                name=name.strip()[:100],
                backup_eligible=registered.backup_eligible,
                sign_count=registered.sign_count,
                state="PENDING",
                registration=registration,
                proposed_by=by.id,
                created_at=at,
            )
    except IntegrityError:
        raise KeyTaken from None
    head = ledger.SubjectHead(tenant_id=tenant_id, id=key_id, kind="approver_key")
    evidence = _store_registration(row, registration, at=at)
    event = ledger.NewEvent(kind="key_enrolled", to="PENDING", detail=_enrolment_detail(row), evidence=(evidence,))
    ledger.append(head, event, actor=by, at=at)
    return row


def confirm(*, tenant_id: UUID, key_id: UUID, by: ledger.Actor, person_id: UUID, at: datetime) -> None:
    """Confirm, as another person, that the key is its holder's; from now on it can sign (B23)."""
    row = _lock_key(tenant_id, key_id, "PENDING")
    check_answer(
        "key",
        Answer.CONFIRM,
        by_kind=by.kind,
        is_proposer=person_id == row.person_id,
        is_proven=False,
        reason="",
        proposed_at=row.created_at,
        at=at,
        records=(_refused_step(row, by, at=at),),
    )
    _change_state(row, "ACTIVE", "key_confirmed", by, {"person": str(person_id)}, at=at)


def refuse(*, tenant_id: UUID, key_id: UUID, by: ledger.Actor, reason: str, at: datetime) -> None:
    """Reject an enrolment; its requester may reject it too."""
    row = _lock_key(tenant_id, key_id, "PENDING")
    _change_state(row, "REFUSED", "key_refused", by, {"reason": reason}, at=at)


def suspend(
    *, tenant_id: UUID, key_id: UUID, by: ledger.Actor, person_id: UUID | None, reason: str, at: datetime
) -> None:
    """Suspend a key at once, by one person alone; open approvals that it signed are requested again (B18)."""
    row = _lock_key(tenant_id, key_id, "ACTIVE")
    _change_state(
        row,
        "SUSPENDED",
        "key_suspended",
        by,
        {"reason": reason, "person": str(person_id) if person_id else None, "approvals": _request_again(row, at=at)},
        at=at,
    )


def restore(*, tenant_id: UUID, key_id: UUID, by: ledger.Actor, person_id: UUID, at: datetime) -> None:
    """Restore a suspended key; only a person who neither holds nor suspended it may do so."""
    row = _lock_key(tenant_id, key_id, "SUSPENDED")
    _require_other_person(row, by, person_id, row.person_id, _suspended_by(row), at=at)
    _change_state(row, "ACTIVE", "key_restored", by, {"person": str(person_id)}, at=at)


def remove(*, tenant_id: UUID, key_id: UUID, by: ledger.Actor, person_id: UUID, at: datetime) -> None:
    """Remove a suspended key for good; only a person other than the one who suspended it may do so."""
    row = _lock_key(tenant_id, key_id, "SUSPENDED")
    _require_other_person(row, by, person_id, _suspended_by(row), at=at)
    _change_state(row, "REMOVED", "key_removed", by, {"person": str(person_id)}, at=at)


def suspend_copied_key(
    *, tenant_id: UUID, key_id: UUID, approval_id: UUID, stored: int, said: int, at: datetime
) -> None:
    """Record that a key's counter went back, as a copy's would, and suspend the key (B28)."""
    row = ApproverKey.objects.select_for_update().filter(tenant_id=tenant_id, id=key_id).first()
    if row is None:
        return
    detail = {"approval_id": str(approval_id), "stored": stored, "said": said}
    ledger.append(
        ledger.lock_subject(tenant_id=tenant_id, subject_id=key_id, kind="approver_key"),
        ledger.NewEvent(kind="key_counter_regressed", detail=detail),
        actor=ledger.SYSTEM,
        at=at,
    )
    if row.state == "ACTIVE":
        reason = "Its counter went back, as a copied key's would."
        suspend(tenant_id=tenant_id, key_id=key_id, by=ledger.SYSTEM, person_id=None, reason=reason, at=at)


def _lock_key(tenant_id: UUID, key_id: UUID, state: str) -> ApproverKey:
    # Lock the key before any approval, in the same order as a vote does.
    row = ApproverKey.objects.select_for_update().filter(tenant_id=tenant_id, id=key_id).first()
    if row is None:
        raise NotFound("Key")
    if row.state != state:
        raise KeyNotPending(f"The key is {row.state.lower()}; this needs one that is {state.lower()}.")
    return row


def _require_other_person(
    row: ApproverKey, by: ledger.Actor, person_id: UUID, *not_by: UUID | None, at: datetime
) -> None:
    """Refuse a person who must not decide this, whichever account they use."""
    if person_id not in not_by:
        return
    raise SecondPersonNeeded(
        "Another person must do this: the passkey is yours, or you suspended it.",
        records=(_refused_step(row, by, at=at),),
    )


def _refused_step(row: ApproverKey, by: ledger.Actor, *, at: datetime) -> ledger.RefusedEvent:
    return ledger.RefusedEvent(
        subject_kind="approver_key",
        subject_id=row.id,
        event=ledger.NewEvent(kind="key_step_refused", detail={"code": SecondPersonNeeded.code}),
        actor=by,
        at=at,
    )


def _suspended_by(row: ApproverKey) -> UUID | None:
    """The person who suspended the key last; None if it was the console."""
    suspensions = [
        detail for event, _, detail in events.history(row.tenant_id, row.id) if event.kind == "key_suspended"
    ]
    person = (suspensions[-1] or {}).get("person") if suspensions else None
    return UUID(person) if person else None


def _change_state(
    row: ApproverKey, state: str, kind: str, by: ledger.Actor, detail: dict[str, Any], *, at: datetime
) -> None:
    ledger.append(
        ledger.lock_subject(tenant_id=row.tenant_id, subject_id=row.id, kind="approver_key"),
        ledger.NewEvent(kind=kind, to=state, detail={**detail, "holder": str(row.actor_id)}),
        actor=by,
        at=at,
    )
    changes: dict[str, Any] = {"state": state, "decided_at": at}
    if kind == "key_confirmed":
        changes["confirmed_by"] = by.id
    ApproverKey.objects.filter(tenant_id=row.tenant_id, id=row.id).update(**changes)


def _request_again(row: ApproverKey, *, at: datetime) -> list[str]:
    """Request the open approvals again that this key signed; returns their ids."""
    signed = Vote.objects.filter(
        tenant_id=row.tenant_id, voter=row.actor_id, credential_id=row.credential_id, verdict="approve"
    )
    found = Approval.objects.filter(
        tenant_id=row.tenant_id, id__in=signed.values("approval_id"), state__in=["REQUESTED", "APPROVED"]
    ).order_by("action_id")
    again = []
    for approval in found:
        head = ledger.lock_subject(tenant_id=row.tenant_id, subject_id=approval.action_id, kind="action")
        ledger.lock_subject(tenant_id=row.tenant_id, subject_id=approval.id, kind="approval")
        now, action = approvals.approval(row.tenant_id, approval.id), actions.action(row.tenant_id, approval.action_id)
        if now is None or action is None or now.state not in ("REQUESTED", "APPROVED") or head.state != "VALIDATED":
            continue
        request_again(head=head, action=action, why="A passkey that signed for it was stopped.", at=at)
        again.append(str(approval.id))
    return again


def _enrolment_detail(row: ApproverKey) -> dict[str, Any]:
    """The recorded data of a key: enough for an outsider to check its signatures."""
    return {
        "holder": str(row.actor_id),
        "person": str(row.person_id),
        "credential_id": row.credential_id,
        "public_key": passkeys.base64url(bytes(row.public_key)),
        "aaguid": str(row.aaguid),
        "backup_eligible": row.backup_eligible,
        "sign_count": row.sign_count,
    }


def _store_registration(row: ApproverKey, registration: bytes, *, at: datetime) -> ledger.SealedEvidence:
    return ledger.store_evidence(
        tenant_id=row.tenant_id,
        subject_id=row.id,
        purpose="registration",
        data=registration,
        media_type="application/json",
        source="holder",
        at=at,
        is_new=True,
    )
