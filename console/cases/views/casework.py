"""Casework: claim, assign, snooze, reopen and comment."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.accounts import queries as directory
from console.cases.views.cases import render_case
from console.edge.http import TenantRequest, in_tenant
from console.web.forms import AssignmentForm, ReasonForm, RemarkForm, SnoozeForm
from reviews.cases.operations import cases, casework


@in_tenant("operator")
@require_POST
def claim(request: TenantRequest, case_id: UUID) -> HttpResponse:
    casework.claim(tenant_id=request.tenant.id, case_id=case_id, by=request.caller.actor, at=request.as_of)
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator")
@require_POST
def release(request: TenantRequest, case_id: UUID) -> HttpResponse:
    casework.release(tenant_id=request.tenant.id, case_id=case_id, by=request.caller.actor, at=request.as_of)
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator")
@require_POST
def assign(request: TenantRequest, case_id: UUID) -> HttpResponse:
    owners = directory.operators(request.tenant.id)
    form = AssignmentForm(request.POST, owners=[(str(actor), name) for actor, name in owners.items()])
    if not form.is_valid():
        return _incomplete(request, case_id, "Not assigned: choose an operator.")
    to = UUID(form.cleaned_data["to"])
    casework.assign(
        tenant_id=request.tenant.id, case_id=case_id, to=to, among=owners, by=request.caller.actor, at=request.as_of
    )
    messages.success(request, f"Assigned to {owners[to]}.")
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator")
@require_POST
def snooze(request: TenantRequest, case_id: UUID) -> HttpResponse:
    form = SnoozeForm(request.POST)
    if not form.is_valid():
        return _incomplete(request, case_id, "Not snoozed: choose how long and enter a reason.")
    casework.snooze(
        tenant_id=request.tenant.id,
        case_id=case_id,
        until=form.until(as_of=request.as_of),
        reason=form.cleaned_data["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Snoozed. It returns automatically.")
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator")
@require_POST
def wake(request: TenantRequest, case_id: UUID) -> HttpResponse:
    casework.wake(tenant_id=request.tenant.id, case_id=case_id, by=request.caller.actor, at=request.as_of)
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator")
@require_POST
def reopen(request: TenantRequest, case_id: UUID) -> HttpResponse:
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _incomplete(request, case_id, "Not reopened: enter a reason.")
    cases.reopen(
        tenant_id=request.tenant.id,
        case_id=case_id,
        reason=form.cleaned_data["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Reopened. Until it is resolved again, the action is not reported as completed.")
    return redirect("case", request.tenant.slug, case_id)


@in_tenant("operator", "reviewer", "compliance")
@require_POST
def comment(request: TenantRequest, case_id: UUID) -> HttpResponse:
    form = RemarkForm(request.POST)
    if not form.is_valid():
        return render_case(request, case_id, remark=form, status=422)
    casework.comment(
        tenant_id=request.tenant.id,
        case_id=case_id,
        text=form.cleaned_data["text"],
        by=request.caller.actor,
        at=request.as_of,
    )
    return redirect("case", request.tenant.slug, case_id)


def _incomplete(request: TenantRequest, case_id: UUID, said: str) -> HttpResponse:
    messages.error(request, said)
    return render_case(request, case_id, status=422)
