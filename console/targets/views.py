"""One target: its present state, its actions, and its freezes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.requests.operations import target_drift
from console.accounts.queries import actor_names
from console.actions.action_record import payloads_of
from console.actions.views import ACTIONS_LIST, PAGE, action_rows, table_rows
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.targets import context as targets
from console.web import labels
from console.web.list_page import export_address, pager_context, place_in
from console.web.spreadsheets import MOST_EXPORTED
from ledger.actions.queries import actions, freezes
from ledger.catalogue.rules.money import money_at_stake
from ledger.record.rules.workspaces import dirtying_action
from reviews import queries as after
from reviews.readback.operations import schedules

if TYPE_CHECKING:
    from ledger.models import Action


TARGET_LIST = replace(ACTIONS_LIST, name="target", fields=(), orders=())


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    name = request.GET.get("name", "")
    before = place_in(request, "before")
    tenant_id = request.tenant.id
    newest = actions.actions(tenant_id, target=name, limit=PAGE + 1) if name else []
    found = actions.actions(tenant_id, target=name, before=before, limit=PAGE + 1) if name and before else newest
    cases = after.cases_about(tenant_id, name, limit=PAGE) if name else []
    stops = freezes.freezes_on(tenant_id, agent="", tool="", target=name)
    if not newest and not cases and not any(each.scope == "target" for each in stops):
        raise Http404
    now = targets.newest_state(tenant_id, newest)
    if now is not None:
        record_page_view(request, "evidence", now.taken.pointer, now.action_id)
    payloads = payloads_of(tenant_id, newest[:PAGE])
    called = actor_names(tenant_id)
    context = {
        "here": "actions",
        "target": name,
        "now": now,
        "may_read": _readable(request, newest),
        "rows": action_rows(request, found[:PAGE]),
        "count": len(newest[:PAGE]),
        "is_all": len(newest) <= PAGE,
        "worth": money_at_stake(payloads.values()),
        **pager_context(request, TARGET_LIST, found, PAGE, place="before"),
        "export": export_address(request, TARGET_LIST),
        "cases": [
            {
                "row": case,
                "word": labels.case_label(case),
                "owner": called.get(case.claimed_by, "somebody") if case.claimed_by else "",
            }
            for case in cases
        ],
        "stops": stops,
        "dirty": dirtying_action(newest),
    }
    return render(request, "targets/_page.html" if request.htmx else "targets/page.html", context)


def exported_rows(request: TenantRequest) -> list[tuple[Action, Mapping[str, Any], str]]:
    """The actions on the target."""
    name = request.GET.get("name", "")
    return table_rows(request, actions.actions(request.tenant.id, target=name, limit=MOST_EXPORTED) if name else [])


@in_tenant("reviewer", "operator")
@require_POST
def read(request: TenantRequest) -> HttpResponse:
    """Have the target read again, for the newest eligible action: one that waits for approval, or with an unsettled
    effect.
    """
    name = request.POST.get("name", "")
    found = actions.actions(request.tenant.id, target=name, limit=PAGE) if name else []
    if not found:
        raise Http404
    approval = targets.waiting_approval(request.tenant.id, found)
    unsettled = targets.unsettled_action(found) if "operator" in request.caller.roles else None
    if approval is not None and target_drift.can_show_target(approval):
        target_drift.request_reading(approval=approval, by=request.caller.actor, at=request.as_of)
        messages.success(request, "The target is being read.")
    elif unsettled is not None:
        schedules.schedule(
            tenant_id=request.tenant.id, action_id=unsettled.id, due_at=request.as_of, priority=5, at=request.as_of
        )
        messages.success(request, "The target is being read.")
    else:
        messages.error(request, "No action on this target is due for a reading, so nothing was read.")
    return redirect(f"{reverse('target', args=[request.tenant.slug])}?{urlencode({'name': name})}")


def _readable(request: TenantRequest, found: list[Action]) -> bool:
    """Return whether this person can have the target read now."""
    roles = request.caller.roles
    if not roles & {"reviewer", "operator"}:
        return False
    approval = targets.waiting_approval(request.tenant.id, found)
    if approval is not None and target_drift.can_show_target(approval):
        return True
    return "operator" in roles and targets.unsettled_action(found) is not None
