"""Verification runs: what each source answered, which checks were made, and what followed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Router

from console.api.actions import schemas
from console.api.actions.routes import visible_action
from console.api.auth import admits
from console.api.schemas import Page
from console.api.transaction import in_tenancy
from ledger.record.rules.encryption import CannotOpen
from reviews import queries as after

router = Router(tags=["Actions"])


@router.get(
    "/actions/{action_id}/runs",
    summary="Every verification run on record: sources, checks, verdict, decision",
    response=Page[schemas.Run],
)
@admits("oper", "audit", "person")
@in_tenancy
def list_runs(request: HttpRequest, action_id: UUID) -> Page[schemas.Run]:
    action = visible_action(request, action_id)
    runs = after.runs_of(action.tenant_id, action.id)
    return Page(items=[_run(each) for each in reversed(runs)], next=None)


def _run(run: Any) -> schemas.Run:
    try:
        found = after.run_findings(run)
    except CannotOpen:
        found = {}
    verdict = found.get("verdict", {})
    silent = [each for each in (found.get("failure"), *found.get("silent", [])) if each is not None]
    return schemas.Run.of(
        run,
        decided_under=found.get("decided_under", {}),
        reason=verdict.get("reason", ""),
        sources=[_source(each) for each in found.get("readings", [])],
        silent=[schemas.SourceSilent(name=each["source"], reason=each["reason"]) for each in silent],
        effects=verdict.get("effects", []),
        checks=verdict.get("checks", []),
    )


def _source(reading: dict[str, Any]) -> schemas.SourceRead:
    kept = {name: reading.get(name, "") for name in schemas.SourceRead.model_fields if name != "indicators"}
    return schemas.SourceRead(**kept, indicators=reading.get("indicators", []))
