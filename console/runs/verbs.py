"""Rolling back a run, by one declaration for its page and the API."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from console.edge.schemas import ReasonBody
from console.runs import context, schemas
from console.verbs.verb import Verb
from ledger.actions import operations
from ledger.record.operations import Actor


def run_answer(run: context.RunView) -> schemas.Workflow:
    """Describe a run with its steps."""
    return schemas.Workflow.of(run, steps=[schemas.RunStep.of(one) for one in run.steps])


def _cancel(*, tenant_id: UUID, run_id: str, reason: str, by: Actor, at: datetime) -> context.RunView:
    operations.unwind_run(tenant_id=tenant_id, run_id=run_id, reason=reason, actor=by, at=at)
    run = context.load_run(tenant_id, run_id)
    assert run is not None
    return run


CANCEL: Final = Verb(
    name="cancel_run",
    path="/runs/{run_id}/cancel",
    part=str,
    operation=_cancel,
    body=ReasonBody,
    roles=("oper", "operator"),
    answer=schemas.Workflow,
    told=lambda run, _: run_answer(run),
    summary="Roll back a run, last step first",
    done="Rollback started. New steps are blocked in this run.",
    incomplete="Not rolled back: enter a reason.",
)
