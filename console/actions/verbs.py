"""Cancelling an action, by one declaration for its page and the API."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from approvals.execution.operations import executions
from console.actions import schemas
from console.actions.visibility import visible_action
from console.verbs.verb import Verb
from ledger.record.operations import Actor


def _cancel(*, tenant_id: UUID, action_id: UUID, reason: str, by: Actor, at: datetime) -> None:
    action = visible_action(tenant_id, by, action_id)
    executions.cancel_action(tenant_id=tenant_id, action_id=action.id, reason=reason, by=by, at=at)


CANCEL: Final = Verb(
    name="cancel",
    path="/actions/{action_id}/cancel",
    operation=_cancel,
    body=schemas.CancelBody,
    roles=("agent", "oper", "operator"),
    answer=schemas.ActionState,
    told=lambda _, ids: schemas.ActionState(action_id=ids["action_id"], state="FAILED"),
    summary="Cancel an action that has not started",
    done="Action cancelled. Nothing was executed.",
    incomplete="Not cancelled: enter a reason.",
)
