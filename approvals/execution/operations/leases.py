"""Leases: how long an executor may hold an attempt silently, and what silence means.

A lease is never longer than the attempt's own timeout. Its end says nothing about the effect: the outcome is unknown.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID

from approvals.execution import queries as execution_queries
from approvals.execution.operations.executors import UnknownExecutor, owned_executor
from approvals.models import Attempt, Due
from approvals.sessions.queries import disclosed_contract
from ledger.actions.queries import actions
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.contract import Contract
from ledger.record import operations as ledger
from ledger.record.rules.canonical import parse
from ledger.record.rules.envelope import instant
from ledger.record.rules.refusals import Refused


class LeaseOver(Refused):
    """The lease is over; the effect must not begin any more."""

    code = "LEASE_OVER"


@lru_cache(maxsize=1024)
def lease_duration(tenant_id: UUID, policy: str) -> timedelta:
    """How long an executor may hold an attempt silently, as the verification policy of this digest has it."""
    row = catalogue_queries.policy_by_digest(tenant_id, "verification", policy)
    assert row is not None
    return timedelta(seconds=parse(bytes(row.document)).get("lease_s", 60))


def effect_horizon(attempt: Attempt, contract: Contract) -> datetime:
    """When a silent attempt can no longer take effect: lease end + timeout + settling time ("Late effects")."""
    settle = contract.verification.settle_s if contract.verification else 0
    return attempt.lease_expires_at + timedelta(seconds=attempt.timeout_s + settle)


def extend_lease(
    *, tenant_id: UUID, action_id: UUID, number: int, executor_id: str, by: ledger.Actor, at: datetime
) -> datetime:
    """Extend the lease, never beyond the attempt's own timeout; a lease that is over stays over."""
    owned_executor(tenant_id, executor_id, by)
    ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempt = execution_queries.attempt(tenant_id, action_id, number)
    if attempt is None or attempt.executor_id != executor_id:
        raise UnknownExecutor("There is no such attempt here.")
    if attempt.ended_at is not None or attempt.lease_expires_at <= at:
        raise LeaseOver
    lease = lease_duration(tenant_id, catalogue_queries.active_policies(tenant_id)["verification"].digest)
    until = min(at + lease, attempt.ends_at)
    Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number).update(lease_expires_at=until)
    Due.objects.filter(subject_id=action_id, what="lease").update(due_at=until)
    return until


def finish_attempt(*, tenant_id: UUID, action_id: UUID, number: int, at: datetime) -> None:
    """The executor has reported: its lease needs no watching any more."""
    Attempt.objects.filter(tenant_id=tenant_id, action_id=action_id, number=number, ended_at__isnull=True).update(
        ended_at=at
    )
    Due.objects.filter(subject_id=action_id, what="lease").delete()


def end_lease(*, tenant_id: UUID, action_id: UUID, at: datetime) -> None:
    """The lease ran out in silence: the outcome is unknown, which is neither failure nor success (R-EX-07, R-EX-11)."""
    head = ledger.lock_subject(tenant_id=tenant_id, subject_id=action_id, kind="action")
    attempts = execution_queries.attempts_of(tenant_id, action_id)
    if head.state != "EXECUTING" or not attempts:
        Due.objects.filter(subject_id=action_id, what="lease").delete()
        return
    attempt = attempts[-1]
    if attempt.lease_expires_at > at:
        Due.objects.filter(subject_id=action_id, what="lease").update(due_at=attempt.lease_expires_at)
        return
    action = actions.action(tenant_id, action_id)
    assert action is not None
    contract = disclosed_contract(tenant_id, action.contract_digest)
    ledger.append(
        head,
        ledger.NewEvent(
            kind="lease_ended",
            to="UNKNOWN",
            changes={"execution": {"status": "UNKNOWN"}, "reconciliation": {"status": "UNKNOWN"}},
            detail={"attempt": attempt.number, "lease_expires_at": instant(attempt.lease_expires_at)},
            view={"horizon_at": instant(effect_horizon(attempt, contract))},
        ),
        actor=ledger.SYSTEM,
        at=at,
    )
    finish_attempt(tenant_id=tenant_id, action_id=action_id, number=attempt.number, at=at)
