"""Executors: last seen times, tools, and revocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.execution import queries as execution_queries
from approvals.execution.operations import executors as operations
from console.agents.views import agent_tabs
from console.audit.views import MAY as MAY_READ_THE_RECORD
from console.edge.http import TenantRequest, in_tenant
from console.execution.lists import EXECUTORS
from console.web.forms import LiftFreezeForm
from console.web.list_page import list_context
from ledger.actions.queries import actions, freezes
from ledger.catalogue import queries as catalogue_queries

if TYPE_CHECKING:
    from approvals.models import Executor

MAY_REVOKE = ("operator", "administrator")
RECENT = 20


@in_tenant()
def list_executors(request: TenantRequest) -> HttpResponse:
    context = {
        "here": "agents",
        "tabs": agent_tabs(request, "executors"),
        "executors": EXECUTORS.rows(request),
        **list_context(request, EXECUTORS),
    }
    return render(request, "executors/_list.html" if request.htmx else "executors/list.html", context)


@in_tenant()
def executor(request: TenantRequest, executor_id: str) -> HttpResponse:
    tenant, row = request.tenant, _get_or_404(request, executor_id)
    (shown,) = EXECUTORS.rows_of(request, [row])
    attempts = execution_queries.latest_attempts(tenant.id, executor_id, limit=RECENT)
    started = actions.actions_by_id(tenant.id, [each.action_id for each in attempts])
    newest = catalogue_queries.newest_contracts(tenant.id, row.tools)
    frozen = {each.value for each in freezes.freezes_in_force(tenant.id) if each.scope == "tool"}
    context = {
        "here": "agents",
        "executor": row,
        **shown,
        "tools": [
            {
                "name": tool,
                "frozen": tool in frozen,
                "href": reverse("contract", args=[tenant.slug, tool, newest[tool].version]) if tool in newest else "",
            }
            for tool in row.tools
        ],
        "attempts": [{"row": each, "action": started.get(each.action_id)} for each in attempts],
        "record": f"{reverse('audit', args=[tenant.slug])}?action={row.id}"
        if set(MAY_READ_THE_RECORD) & request.caller.roles
        else "",
        "may_revoke": bool(set(MAY_REVOKE) & request.caller.roles) and row.revoked_at is None,
        "may_see_keys": "administrator" in request.caller.roles,
    }
    return render(request, "executors/_detail.html" if request.htmx else "executors/detail.html", context)


@in_tenant(*MAY_REVOKE)
@require_POST
def revoke(request: TenantRequest, executor_id: str) -> HttpResponse:
    row, form = _get_or_404(request, executor_id), LiftFreezeForm(request.POST)
    if row.revoked_at is not None:
        messages.error(request, "Already revoked; nothing changed.")
    elif not form.is_valid():
        messages.error(request, "Not revoked: enter a reason.")
    else:
        reason = form.cleaned_data["reason"]
        operations.revoke_executor(
            tenant_id=request.tenant.id,
            executor_id=executor_id,
            reason=reason,
            by=request.caller.actor,
            at=request.as_of,
        )
        messages.success(
            request, "Revoked. Further claims and starts are refused; running actions can still be reported."
        )
    return redirect("executor", request.tenant.slug, executor_id)


def _get_or_404(request: TenantRequest, executor_id: str) -> Executor:
    row = execution_queries.executor(request.tenant.id, executor_id)
    if row is None:
        raise Http404
    return row
