"""What waits for a second person: weaker versions of contracts, and another address or pattern of a system.

Whoever sent it, under whatever account, is not the second person. A refused answer changes nothing; declining ends it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.models import ContractVersion
from ledger.operations.record import Actor, Happening, append, lock
from ledger.queries import registered
from ledger.rules.refusals import Refused


class NoSuchVersion(Refused):
    """There is no such version of a contract here."""

    code = "NOT_FOUND"
    status = 404


class NothingWaits(Refused):
    """Nothing waits to be confirmed here."""

    code = "NOTHING_PROPOSED"


class SecondPersonNeeded(Refused):
    """Whoever sent this cannot confirm it. It waits for another person."""

    code = "SECOND_PERSON_NEEDED"
    status = 403


class ProofNeeded(Refused):
    """Less is asked or checked from then on. Confirm with your password or a one-time code."""

    code = "STEP_UP_REQUIRED"
    status = 403


class ReasonMissing(Refused):
    """Say why: it stays in the record."""

    code = "REASON_REQUIRED"
    status = 422


def answer_contract(
    *,
    tenant_id: UUID,
    name: str,
    version: str,
    accept: bool,
    reason: str,
    by: Actor,
    is_sender: bool,
    is_proven: bool,
    at: datetime,
) -> ContractVersion:
    """Confirm or decline a weaker version; the sender may decline it, and only another person confirms it.

    `is_sender`: the person behind `by` is the one who sent it. `is_proven`: they have just shown who they are.
    """
    row = registered.contract_version(tenant_id, name, version)
    if row is None:
        raise NoSuchVersion
    head = lock(tenant_id=tenant_id, subject_id=row.id, kind="contract")
    if head.state != "PENDING":
        raise NothingWaits
    check_answer(accept=accept, reason=reason, by=by, is_sender=is_sender, is_proven=is_proven)
    told: dict[str, Any] = {"name": name, "version": version, "reason": reason}
    happening = (
        Happening(kind="contract_confirmed", to="REGISTERED", detail=told | {"weakens": row.weakens})
        if accept
        else Happening(kind="contract_declined", to="DECLINED", detail=told)
    )
    append(head, happening, actor=by, at=at)
    return row


def check_answer(*, accept: bool, reason: str, by: Actor, is_sender: bool, is_proven: bool) -> None:
    """Refuse whoever may not answer so: a machine never, the sender not with a yes, and nobody without a reason."""
    if by.kind != "person" or (accept and is_sender):
        raise SecondPersonNeeded
    if not reason.strip():
        raise ReasonMissing
    if accept and not is_proven:
        raise ProofNeeded
