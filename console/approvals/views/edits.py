"""The page on which a reviewer edits a request: in the inputs of its schema or as JSON, with the difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from approvals.requests.operations import edits
from approvals.requests.queries import approvals
from approvals.sessions import queries as sessions_queries
from console.accounts.queries import actor_names
from console.actions import predicates
from console.actions.action_record import parse_arguments, payload_of
from console.approvals.argument_form import ArgumentForm
from console.approvals.edit_form import EditForm, preview_context
from console.edge.http import TenantRequest, in_tenant, undo_if_refused
from console.edge.transaction import after_commit
from console.tasks import read_before
from console.web.labels import action_title, format_json
from ledger.actions.queries import actions
from ledger.record.rules.canonical import NotCanonical, read
from ledger.record.rules.refusals import ReasonMissing, Refused

if TYPE_CHECKING:
    from approvals.models import Approval
    from ledger.models import Action

# What is wrong with what was written; everything else is about the request, and is shown as every refusal is.
_MENDABLE = (edits.EditRefused, edits.NothingChanged, ReasonMissing, NotCanonical)


class PreviewOutdated(Refused):
    """The arguments changed after the preview. Check the changes below, then replace the request."""

    code = "PREVIEW_OUTDATED"
    status = 409


@in_tenant("reviewer")
@require_http_methods(["GET", "POST"])
def edit(request: TenantRequest, approval_id: UUID) -> HttpResponse:
    found = approvals.approval(request.tenant.id, approval_id)
    action = actions.action(request.tenant.id, found.action_id) if found else None
    if found is None or action is None:
        raise Http404
    schema = sessions_queries.disclosed_contract(request.tenant.id, action.contract_digest).arguments_schema
    if request.method == "GET":
        form = EditForm(initial={"payload_hash": found.payload_hash})
        typed = ArgumentForm(schema, values=parse_arguments(payload_of(action)))
        return _page(request, found, action, form, typed, leaves_nobody=_leaves_nobody(request, found))
    return _answer(request, found, action, schema)


def _answer(request: TenantRequest, found: Approval, action: Action, schema: Mapping[str, Any]) -> HttpResponse:
    """Answer a posted edit: switch the input mode, preview it, or replace the request."""
    makes = "make" in request.POST
    form = EditForm(request.POST, wants_reason=makes)
    typed = None if "payload" in request.POST else ArgumentForm(schema, data=request.POST)
    wrong = not form.is_valid()
    if (typed is not None and not typed.is_valid()) or wrong:
        return _page(request, found, action, form, typed, status=422)
    shown: dict[str, Any] = {}
    try:
        arguments = read(form.cleaned_data["payload"] if typed is None else format_json(typed.arguments))
        if "show" in request.POST:
            form, typed = _other_way(form, typed, schema, arguments)
        wanted = edits.Edit(
            arguments=arguments, reason=request.POST.get("reason", ""), payload_hash=request.POST["payload_hash"]
        )
        seen = _preview(request, found.id, wanted)
        shown = preview_context(action, seen, actor_names(request.tenant.id))
        if makes and request.POST.get("previewed", "") not in ("", seen.payload_hash):
            raise PreviewOutdated
        if makes:
            return _replace(request, found.id, wanted)
    except edits.NothingChanged as refusal:
        if "show" not in request.POST:
            return _page(request, found, action, form, typed, refusal=refusal, status=refusal.status)
    except (*_MENDABLE, PreviewOutdated) as refusal:
        return _page(request, found, action, form, typed, refusal=refusal, status=refusal.status, **shown)
    return _page(request, found, action, form, typed, **shown)


def _other_way(
    form: EditForm, typed: ArgumentForm | None, schema: Mapping[str, Any], arguments: Any
) -> tuple[EditForm, ArgumentForm | None]:
    """The same arguments in the other of the two ways to write them."""
    kept = {name: form.cleaned_data[name] for name in ("payload_hash", "reason")}
    if typed is not None:
        return EditForm(initial=kept | {"payload": format_json(arguments)}), None
    if not isinstance(arguments, dict):
        raise edits.EditRefused("All arguments together are a JSON object.")
    return EditForm(initial=kept), ArgumentForm(schema, values=arguments)


def _preview(request: TenantRequest, approval_id: UUID, wanted: edits.Edit) -> edits.EditResult:
    with undo_if_refused(request):
        return edits.preview_edit(
            tenant_id=request.tenant.id,
            approval_id=approval_id,
            edit=wanted,
            editor=request.caller.actor.id,
            compile_predicate=predicates.agent_predicate_fault,
            at=request.as_of,
        )


def _replace(request: TenantRequest, approval_id: UUID, wanted: edits.Edit) -> HttpResponse:
    with undo_if_refused(request):
        made = edits.apply_edit(
            tenant_id=request.tenant.id,
            approval_id=approval_id,
            edit=wanted,
            editor=request.caller.actor.id,
            compile_predicate=predicates.agent_predicate_fault,
            at=request.as_of,
        )
    after_commit(read_before)
    assert made.approval_id is not None
    messages.success(request, "Request replaced. The new version needs its own approval.")
    return redirect("approval", request.tenant.slug, made.approval_id)


def _leaves_nobody(request: TenantRequest, approval: Approval) -> bool:
    """Return True if nobody could approve an edit by this person under the request's present terms."""
    return edits.eligible_if_edited(approval, editor=request.caller.actor.id, at=request.as_of).stranded


def _page(
    request: TenantRequest,
    approval: Approval,
    action: Action,
    form: EditForm,
    typed: ArgumentForm | None,
    *,
    status: int = 200,
    refusal: Refused | None = None,
    **shown: Any,
) -> HttpResponse:
    rows = list(typed.rows()) if typed is not None else []
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "back": reverse("approval", args=[request.tenant.slug, approval.id]),
        "title": action_title(action.operation_kind, action.target, parse_arguments(payload_of(action))),
        "action": action,
        "form": form,
        "typed": typed,
        "rows": rows,
        "refusal": refusal,
        "faults_found": _faults(refusal, rows),
        **shown,
    }
    if request.htmx:
        # What is being typed is no refusal yet: the difference says what is missing, and the form stays as it is.
        return render(request, "approvals/_edit_difference.html", context | {"live": True})
    return render(request, "approvals/edit.html", context, status=status)


def _faults(refusal: Refused | None, rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The gate's faults, each with its input if there is one."""
    inputs = {row["path"]: row["input"] for row in rows}
    found = []
    for each in refusal.errors if refusal is not None else ():
        path = str(each.get("path", ""))
        held = inputs.get(f"/{path.split('/')[1]}" if "/" in path else "")
        field = {"id": held.id_for_label, "name": held.html_name} if held is not None else {}
        found.append({"path": path, "detail": str(each.get("detail", "")), **field})
    return found
