"""Voting on several approvals of one kind at once: every item is shown as it is, and each gets a vote of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from approvals.requests.queries import approvals
from approvals.voting.operations import batch_votes as operations
from approvals.voting.operations import votes
from approvals.voting.rules import batches, binding
from console.accounts.sign_in.queries import authenticator_app
from console.accounts.step_up import proof_class
from console.actions import target_drift
from console.actions.action_record import load_action_record, parse_arguments
from console.approvals.context import payload_fields
from console.approvals.displays import record_displays
from console.approvals.forms import BatchVoteForm, selected_ids
from console.edge.http import TenantRequest, in_tenant
from console.web import labels
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue.rules.money import money_at_stake
from ledger.people.rules.statements import coverage_digest

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action


@in_tenant("reviewer")
@require_http_methods(["GET", "POST"])
def vote_on_several(request: TenantRequest) -> HttpResponse:
    if request.method != "POST":
        return _show(request, selected_ids(request.GET), BatchVoteForm())
    form = BatchVoteForm(request.POST)
    if not form.is_valid():
        return _show(request, selected_ids(request.POST), form, status=422)
    given = form.cleaned_data
    proof = proof_class(request, request.user, given["password"], given["otp"])
    if not proof:
        form.add_error("otp" if given["otp"] else "password", "Wrong password or code. No decision was recorded.")
        return _show(request, selected_ids(request.POST), form, status=403)
    shown = form.shown()
    record_displays(request.caller, [each.approval_id for each in shown])
    outcomes = operations.vote_batch(
        tenant_id=request.tenant.id,
        shown=shown,
        verdict=binding.VoteChoice(given["verdict"]),
        voter=binding.Voter(actor=str(request.caller.actor.id), roles=request.caller.roles, evidence_class=proof),
        reason=given["reason"],
        at=request.as_of,
    )
    return render(request, "approvals/batch_result.html", _results_context(request, outcomes))


def _show(request: TenantRequest, ids: list[UUID], form: BatchVoteForm, *, status: int = 200) -> HttpResponse:
    """The items in full; those that cannot be voted on together are listed separately."""
    found = approvals.approvals_named(request.tenant.id, ids)
    if not found:
        messages.error(request, "Select the items to decide.")
        return redirect("approvals", request.tenant.slug)
    actions = actions_queries.actions_by_id(request.tenant.id, [each.action_id for each in found.values()])
    items, apart = [], []
    kind: tuple[str, str, str] | None = None
    for each in found.values():
        item = operations.batch_item(each, actions[each.action_id])
        why_not = _why_not(each, item, kind)
        if why_not:
            apart.append(_row(request, each, actions[each.action_id]) | {"why_not": why_not})
        else:
            kind = item.kind
            items.append(_item(request, each, actions[each.action_id]))
    context = {"here": "approvals", "items": items, "apart": apart, "form": form, "action": request.path}
    context |= {"approvals_href": reverse("approvals", args=[request.tenant.slug])}
    context |= {"has_code": authenticator_app(request.user) is not None}
    context |= {"compared": _compare_items(items), "at_stake": money_at_stake(each["payload"] for each in items)}
    return render(request, "approvals/batch.html", context, status=status)


def _why_not(approval: Approval, item: batches.BatchItem, kind: tuple[str, str, str] | None) -> str:
    if approval.state != "REQUESTED":
        return "It was decided already."
    if said := batches.exclusion_reason(item):
        return said
    if kind is not None and item.kind != kind:
        return "Different kind from the first: another tool, contract or policy."
    return ""


def _row(request: TenantRequest, approval: Approval, action: Action) -> dict[str, Any]:
    return {
        "id": approval.id,
        "action": action,
        "title": action_title(action.operation_kind, action.target),
        "href": reverse("approval", args=[request.tenant.slug, approval.id]),
    }


def _item(request: TenantRequest, approval: Approval, action: Action) -> dict[str, Any]:
    told, covers = load_action_record(request.tenant, action), votes.vote_coverage(approval)
    return _row(request, approval, action) | {
        "title": told.title,
        "payload": parse_arguments(told.payload),
        "row": approval,
        "covers": covers,
        "covers_digest": coverage_digest(covers),
        "fields": payload_fields(told),
        "is_unread": target_drift.is_unread(approval),
    }


def _compare_items(items: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The fields in which several items agree and those in which they differ, with every value."""
    found: dict[str, dict[UUID, str]] = {}
    labelled: dict[str, str] = {}
    for item in items:
        for each in item["fields"]:
            path = each["shown"].path
            labelled[path] = each["shown"].label
            found.setdefault(path, {})[item["id"]] = each["reading"] or each["shown"].display
    rows = []
    for path, values in found.items():
        said = [values.get(item["id"], "left out") for item in items]
        rows.append({"label": labelled[path], "path": path, "values": list(dict.fromkeys(said))})
    return {
        "same": [row for row in rows if len(row["values"]) == 1],
        "differs": [row for row in rows if len(row["values"]) > 1],
    }


_LOOKS = {"VOTED": ("tick", "Recorded"), "DECIDED": ("minus", "Decided by others"), "REFUSED": ("stop", "Not accepted")}


def _results_context(request: TenantRequest, outcomes: list[operations.ItemResult]) -> dict[str, Any]:
    found = approvals.approvals_named(request.tenant.id, [each.approval_id for each in outcomes])
    actions = actions_queries.actions_by_id(request.tenant.id, [each.action_id for each in found.values()])
    items = []
    for each in outcomes:
        approval = found[each.approval_id]
        icon, word = _LOOKS[each.result]
        state_icon, state = labels.approval_label(approval, actions[approval.action_id])
        shown = _row(request, approval, actions[approval.action_id])
        items.append(shown | {"outcome": each, "icon": icon, "word": word, "state": state, "state_icon": state_icon})
    counts = {result: sum(each.result == result for each in outcomes) for result in _LOOKS}
    here = reverse("approvals", args=[request.tenant.slug])
    return {"here": "approvals", "items": items, "counts": counts, "approvals_href": here}
