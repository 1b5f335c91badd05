"""Record refused requests: the one place for every kind of refusal.

A refusal only describes its records (`Refused.records`). They are written after the request was rolled back: by the
API and the pages after the transaction's rollback (`record_refusal` in console/edge/transaction.py), by a page or batch
that continues after the rollback of its savepoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from approvals.requests.operations.preflight import DriftedApproval, request_again_on_drift
from approvals.requests.operations.requests import lock_approval
from approvals.voting.operations.approver_keys import suspend_copied_key
from approvals.voting.operations.signatures import AnsweredChallenge, CopiedKeyUse, spend_challenge
from ledger.record import operations as ledger
from ledger.record.queries import events
from ledger.record.rules.refusals import RefusalRecord


def write_refusal_records(tenant_id: UUID, records: Iterable[RefusalRecord]) -> None:
    """Write the records of a refusal, in their order and in the caller's transaction."""
    for record in records:
        _write_record(tenant_id, record)


def _write_record(tenant_id: UUID, record: RefusalRecord) -> None:
    match record:
        case ledger.RefusedEvent():
            head = _lock_refused_subject(tenant_id, record)
            if head is not None:
                ledger.append(head, record.event, actor=record.actor, at=record.at)
        case AnsweredChallenge():
            spend_challenge(tenant_id, record.challenge_id, at=record.at)
        case CopiedKeyUse():
            suspend_copied_key(
                tenant_id=tenant_id,
                key_id=record.key_id,
                approval_id=record.approval_id,
                stored=record.stored,
                said=record.said,
                at=record.at,
            )
        case DriftedApproval():
            request_again_on_drift(tenant_id=tenant_id, approval_id=record.approval_id, at=record.at)
        case _:
            raise AssertionError(f"nothing writes a {type(record).__name__}")


def _lock_refused_subject(tenant_id: UUID, record: ledger.RefusedEvent) -> ledger.SubjectHead | None:
    """Lock the subject in the usual order; None if there is no such action, or it was erased."""
    kind, subject_id = record.subject_kind, record.subject_id
    if kind == "approval":
        return lock_approval(tenant_id, subject_id)
    if events.subject_state(tenant_id, subject_id) is None:
        # A refused proposal may be the first event of a member.
        return ledger.SubjectHead(tenant_id=tenant_id, id=subject_id, kind=kind) if kind == "member" else None
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=subject_id, kind=kind)
    return head if head.entry is not None or kind != "action" else None
