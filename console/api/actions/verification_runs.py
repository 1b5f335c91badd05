"""Verification runs: what each source answered, which checks were made, and what followed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Router

from console.api import answers
from console.api.actions.routes import visible_action
from console.api.auth import admits
from console.api.transaction import in_tenancy, json_response
from ledger.record.rules.encryption import CannotOpen
from reviews import queries as after

router = Router(tags=["Actions"])


@router.get(
    "/actions/{action_id}/runs",
    summary="Every verification run on record: sources, checks, verdict, decision",
    response=answers.Page[answers.Run],
)
@admits("oper", "audit", "person")
@in_tenancy
def list_runs(request: HttpRequest, action_id: UUID) -> HttpResponse:
    action = visible_action(request, action_id)
    runs = after.runs_of(action.tenant_id, action.id)
    return json_response({"items": [_run(each) for each in reversed(runs)], "next": None})


def _run(run: Any) -> dict[str, Any]:
    try:
        found = after.run_findings(run)
    except CannotOpen:
        found = {}
    verdict = found.get("verdict", {})
    return {
        "number": run.number,
        "at": run.at,
        "result": run.result,
        "discrepancy": run.discrepancy or None,
        "recovery_decision": run.recovery_decision or None,
        "decided_under": found.get("decided_under", {}),
        "reason": verdict.get("reason", ""),
        "pointer": str(run.pointer),
        "sources": [_source(each) for each in found.get("readings", [])],
        "silent": [{"name": each["source"], "reason": each["reason"]} for each in _silent(found)],
        "effects": verdict.get("effects", []),
        "checks": verdict.get("checks", []),
    }


def _source(reading: dict[str, Any]) -> dict[str, Any]:
    names = ("name", "source", "consistency", "freshness", "observed_at", "pointer", "indicators")
    return {name: reading.get(name, "") for name in names}


def _silent(found: dict[str, Any]) -> list[dict[str, Any]]:
    failures = [found.get("failure"), *found.get("silent", [])]
    return [each for each in failures if each is not None]
