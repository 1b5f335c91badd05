"""Lifting a freeze, by one declaration for its page and the API."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from console.cases.containment import open_work_message
from console.edge.schemas import ReasonBody
from console.freezes import schemas
from console.verbs.verb import Verb
from ledger.actions.queries import freezes
from ledger.catalogue.operations import registration
from ledger.record.operations import Actor
from ledger.record.queries import events

if TYPE_CHECKING:
    from ledger.models import Freeze


def _lift(*, tenant_id: UUID, freeze_id: UUID, reason: str, by: Actor, at: datetime) -> Freeze:
    registration.lift_freeze(tenant_id=tenant_id, freeze_id=freeze_id, reason=reason, actor=by, at=at)
    return freezes.freezes_by_id(tenant_id, [freeze_id])[freeze_id]


def _lifted_sentence(row: Freeze) -> str:
    return f"Lifted. New actions can start again. {open_work_message(events.tenant_by_id(row.tenant_id), row)}"


LIFT: Final = Verb(
    name="lift",
    operation_id="approvals_lift",
    path="/freezes/{freeze_id}/lift",
    operation=_lift,
    body=ReasonBody,
    roles=("operator", "administrator"),
    answer=schemas.Lifted,
    told=lambda row, _: schemas.Lifted(freeze_id=row.id, lifted=True, still_open=schemas.OpenWork.of(row)),
    summary="Lift a freeze; answers with related open cases and incidents",
    done=_lifted_sentence,
    incomplete="Not lifted: enter a reason.",
)
