"""Who works on a case and when, over HTTP: assigning, snoozing, waking, reopening."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router

from console.accounts import queries as directory
from console.api import answers
from console.api.auth import admits, caller_of
from console.api.schemas import AssignBody, ReasonBody, SnoozeBody
from console.api.transaction import in_tenancy, json_response
from ledger.record.rules.envelope import instant
from reviews.cases.operations import cases, casework

router = Router(tags=["People's work"])


@router.post("/reviews/{case_id}/assign", summary="Give a case to an operator", response=answers.CaseOwner)
@admits("operator")
@in_tenancy
def assign(request: HttpRequest, case_id: UUID, body: AssignBody) -> HttpResponse:
    caller = caller_of(request)
    casework.assign(
        tenant_id=caller.tenant_id,
        case_id=case_id,
        to=body.to,
        among=directory.operators(caller.tenant_id),
        by=caller.actor,
        at=timezone.now(),
    )
    return json_response({"case_id": str(case_id), "claimed_by": str(body.to)})


@router.post(
    "/reviews/{case_id}/snooze",
    summary="Take a case out of the queue until a moment; it comes back by itself",
    response=answers.CaseSleep,
)
@admits("operator")
@in_tenancy
def snooze(request: HttpRequest, case_id: UUID, body: SnoozeBody) -> HttpResponse:
    caller = caller_of(request)
    casework.snooze(
        tenant_id=caller.tenant_id,
        case_id=case_id,
        until=body.until,
        reason=body.reason,
        by=caller.actor,
        at=timezone.now(),
    )
    return json_response({"case_id": str(case_id), "snoozed_until": instant(body.until)})


@router.post("/reviews/{case_id}/wake", summary="Put a snoozed case back into the queue", response=answers.CaseSleep)
@admits("operator")
@in_tenancy
def wake(request: HttpRequest, case_id: UUID) -> HttpResponse:
    caller = caller_of(request)
    casework.wake(tenant_id=caller.tenant_id, case_id=case_id, by=caller.actor, at=timezone.now())
    return json_response({"case_id": str(case_id), "snoozed_until": None})


@router.post("/reviews/{case_id}/reopen", summary="Doubt what was settled", response=answers.CaseState)
@admits("operator")
@in_tenancy
def reopen(request: HttpRequest, case_id: UUID, body: ReasonBody) -> HttpResponse:
    caller = caller_of(request)
    cases.reopen(tenant_id=caller.tenant_id, case_id=case_id, reason=body.reason, by=caller.actor, at=timezone.now())
    return json_response({"case_id": str(case_id), "state": "OPEN"})
