"""Executors: their tools, and the keys that they prove possession of."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.execution import queries as execution_queries
from approvals.execution.rules import dpop
from approvals.models import Executor
from ledger.record import operations as ledger
from ledger.record.rules.refusals import NotFound, Refused


class ExecutorTaken(Refused):
    """This executor id belongs to another key."""

    code = "EXECUTOR_TAKEN"


class ExecutorRevoked(Refused):
    """This executor was revoked; it can neither claim nor start actions. An operator can register it again."""

    code = "EXECUTOR_REVOKED"
    status = 403


def register_executor(
    *, tenant_id: UUID, executor_id: str, public_jwk: dict[str, Any], tools: list[str], by: ledger.Actor, at: datetime
) -> Executor:
    """Register or change an executor's key and tools; an id stays with the API key that took it.

    One that an operator registers belongs to no API key: any may use it that proves possession of the private key.
    """
    thumbprint = dpop.thumbprint(public_jwk)
    known = execution_queries.executor(tenant_id, executor_id)
    if known is not None and known.revoked_at is not None and by.kind == "executor":
        raise ExecutorRevoked
    unchanged = known is not None and (known.thumbprint, known.tools, known.revoked_at) == (thumbprint, tools, None)
    if known is not None and unchanged and execution_queries.may_use(known, by.id):
        return known
    if known is not None and by.kind == "executor" and known.key_actor != by.id:
        raise ExecutorTaken
    values = {"public_jwk": public_jwk, "thumbprint": thumbprint, "tools": tools, "revoked_at": None}
    if known is None:
        executor_key = ledger.new_id(at)
        known = Executor.objects.create(
            tenant_id=tenant_id,
            id=executor_key,
            executor_id=executor_id,
            key_actor=by.id if by.kind == "executor" else executor_key,
            registered_at=at,
            **values,
        )
        head = ledger.SubjectHead(tenant_id=tenant_id, id=known.id, kind="executor")
    else:
        Executor.objects.filter(tenant_id=tenant_id, id=known.id).update(**values)
        head = ledger.lock_subject(tenant_id=tenant_id, subject_id=known.id, kind="executor")
    ledger.append(
        head,
        ledger.NewEvent(
            kind="executor_registered",
            to="REGISTERED",
            detail={"executor_id": executor_id, "tools": tools, "thumbprint": thumbprint},
        ),
        actor=by,
        at=at,
    )
    known.public_jwk, known.thumbprint, known.tools = public_jwk, thumbprint, tools
    return known


def revoke_executor(*, tenant_id: UUID, executor_id: str, reason: str, by: ledger.Actor, at: datetime) -> None:
    """Revoke an executor: its next claim and start are refused; it may still report what it has started."""
    known = execution_queries.executor(tenant_id, executor_id)
    if known is None:
        raise NotFound(detail="Executor not found, or it belongs to another key.")
    ledger.append(
        ledger.lock_subject(tenant_id=tenant_id, subject_id=known.id, kind="executor"),
        ledger.NewEvent(kind="executor_revoked", to="REVOKED", detail={"executor_id": executor_id, "reason": reason}),
        actor=by,
        at=at,
    )
    Executor.objects.filter(tenant_id=tenant_id, id=known.id).update(revoked_at=at)


def starting_executor(tenant_id: UUID, executor_id: str, by: ledger.Actor) -> Executor:
    """The executor, if it belongs to this API key and may still claim and start."""
    return check_may_start(execution_queries.executor(tenant_id, executor_id), by)


def check_may_start(executor: Executor | None, by: ledger.Actor) -> Executor:
    """Refuse an executor that does not belong to this API key, or may no longer claim and start."""
    executor = _check_owned(executor, by)
    if executor.revoked_at is not None:
        raise ExecutorRevoked
    return executor


def owned_executor(tenant_id: UUID, executor_id: str, by: ledger.Actor) -> Executor:
    """The executor, if it belongs to this API key."""
    return _check_owned(execution_queries.executor(tenant_id, executor_id), by)


def _check_owned(executor: Executor | None, by: ledger.Actor) -> Executor:
    if executor is None or not execution_queries.may_use(executor, by.id):
        raise NotFound(detail="Executor not found, or it belongs to another key.")
    return executor
