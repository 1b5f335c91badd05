"""The page on which a release is drafted: the document, its rules in sentences, and what it would have changed.

The document that was typed is the only state of the page: each button sends it, and the answer is made from it. Nothing
is stored before the draft is created.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.contracts.registration import excerpts, refusal_notes
from console.edge.http import TenantRequest, in_tenant, undo_if_refused
from console.policies import policy_changes, rule_form
from console.policies.policy_sentences import KIND_NAMES, finding_sentences, policy_topics
from console.releases import call_gates, release_steps
from console.releases.forms import DraftForm
from console.releases.views import MAY, version_href
from console.web import policy_simulation
from console.web.labels import format_json
from ledger.catalogue import queries as catalogue
from ledger.catalogue.operations.registration import VersionTaken
from ledger.catalogue.rules import contract as contracts
from ledger.catalogue.rules.releases import CONTRACT
from ledger.record.rules.canonical import canonical, parse, read
from ledger.record.rules.refusals import NotFound, Refused

if TYPE_CHECKING:
    from ledger.models import Release

FIRST_KIND: Final = "verification"
MOST_SHOWN: Final = 20
_STEP = re.compile(r"(edit|remove|earlier):(\d{1,3})")


@in_tenant(*MAY)
@require_http_methods(["GET", "POST"])
def draft(request: TenantRequest) -> HttpResponse:
    """A form with the document in force, and the faults of the typed one."""
    if request.method != "POST":
        kind = request.GET.get("kind", "")
        if kind == CONTRACT:
            return _draft_page(request, _begin_contract(request, request.GET.get("tool", "")))
        return _draft_page(request, _begin_policy(request, kind if kind in KIND_NAMES else FIRST_KIND))
    step = request.POST.get("do", "")
    if step and request.POST.get("kind") in KIND_NAMES:
        return _change_draft(request, request.POST["kind"], step)
    form = DraftForm(request.POST)
    if not form.is_valid():
        return _draft_page(request, form, status=422)
    try:
        with undo_if_refused(request):
            row = _create_draft(request, form)
    except NotFound:
        raise
    except VersionTaken as refusal:
        form.add_error("version", refusal.detail)
        return _draft_page(request, form, status=refusal.status)
    except Refused as refusal:
        if not refusal.errors:
            form.add_error(None, refusal.detail)
        return _draft_page(request, form, status=refusal.status, refusal=refusal if refusal.errors else None)
    messages.success(request, "Drafted. It has no effect yet; run its gates next.")
    return redirect("release", request.tenant.slug, row.id)


def _create_draft(request: TenantRequest, form: DraftForm) -> Release:
    reason, by, at = form.cleaned_data["reason"], request.caller.actor, request.as_of
    if form.cleaned_data["kind"] == CONTRACT:
        return release_steps.draft_contract(request.tenant.id, form.drafted(), reason=reason, by=by, at=at)
    return release_steps.draft_policy(
        tenant_id=request.tenant.id,
        kind=form.cleaned_data["kind"],
        version=form.cleaned_data["version"],
        document=form.drafted(),
        reason=reason,
        by=by,
        at=at,
    )


def _begin_policy(request: TenantRequest, kind: str) -> DraftForm:
    document = parse(bytes(catalogue.active_policies(request.tenant.id)[kind].document))
    document.pop("version", None)
    return DraftForm(initial={"kind": kind, "document": format_json(document)})


def _begin_contract(request: TenantRequest, tool: str) -> DraftForm:
    in_force = catalogue.contract_to_compare(request.tenant.id, tool)
    if in_force is None:
        raise Http404
    document = contracts.read(bytes(in_force.document))
    document.pop("version")
    return DraftForm(initial={"kind": CONTRACT, "tool": tool, "document": format_json(document)})


# Changes of the typed document


def _change_draft(request: TenantRequest, kind: str, step: str) -> HttpResponse:
    """The page with the typed document after one step: `preview`, `rule`, or `edit:2`, `remove:2`, `earlier:2`."""
    typed = {name: request.POST.get(name, "") for name in ("kind", "version", "document", "reason")}
    try:
        document = read(typed["document"])
        if not isinstance(document, dict):
            raise Refused("The document must be a JSON object.")
        if step != "preview":
            # Rules are picked in a document that is one: what is wrong in it is corrected by hand first.
            release_steps.check_draft(kind, {**document, "version": "draft"})
    except Refused as refusal:
        return _draft_page(request, DraftForm(initial=typed), status=422, refusal=refusal)
    rule, status = None, 200
    is_picked = kind in rule_form.FORMS
    if is_picked and step == "rule":
        rule = rule_form.FORMS[kind](request.POST, arguments=rule_form.argument_types(request.tenant.id))
        if rule.is_valid():
            typed["document"], rule = format_json(rule.write_into(document)), None
        else:
            status = 422
    elif is_picked and (match := _STEP.fullmatch(step)):
        place = int(match[2])
        if place >= len(document.get(rule_form.FORMS[kind].list_name, [])):
            raise Http404
        if match[1] == "edit":
            arguments = rule_form.argument_types(request.tenant.id)
            rule = rule_form.read_entry(kind, document, place, arguments=arguments)
        else:
            typed["document"] = format_json(rule_form.change_entries(kind, document, match[1], place))
    return _draft_page(request, DraftForm(initial=typed), status=status, rule=rule, is_simulated=True)


# The page


def _draft_page(
    request: TenantRequest,
    form: DraftForm,
    *,
    status: int = 200,
    refusal: Refused | None = None,
    rule: rule_form.EntryForm | None = None,
    is_simulated: bool = False,
) -> HttpResponse:
    kind, tool = form["kind"].value(), form["tool"].value() or ""
    kind = kind if kind in (*KIND_NAMES, CONTRACT) else FIRST_KIND
    in_force = catalogue.version_in_force(request.tenant.id, kind, tool)
    if in_force is None:
        raise Http404
    text = str(form["document"].value() or "").replace("\r\n", "\n")
    beside: dict[str, Any] = {}
    if kind != CONTRACT and refusal is None:
        beside, refusal = _read_beside(request, kind, text, bytes(in_force.document), is_simulated=is_simulated)
    notes = refusal_notes(text, refusal) if refusal is not None else ()
    context = {
        "here": "policies",
        "form": form,
        "kind": kind,
        "name": f"contract of {tool}" if kind == CONTRACT else KIND_NAMES[kind].lower(),
        "in_force": in_force,
        "in_force_href": version_href(request, kind, tool, in_force.version),
        "kinds": [] if kind == CONTRACT else list(KIND_NAMES.items()),
        "excerpts": excerpts(text, notes),
        "faults": len(notes),
        "alone": release_steps.missing_people(request.tenant.id),
        **beside,
    }
    if kind in rule_form.FORMS:
        arguments = rule_form.argument_types(request.tenant.id)
        context["rule"] = rule or rule_form.FORMS[kind](arguments=arguments)
        context["is_edited"] = rule is not None and rule["place"].value() not in (None, "")
    return render(request, "releases/_draft.html" if request.htmx else "releases/draft.html", context, status=status)


def _read_beside(
    request: TenantRequest, kind: str, text: str, in_force: bytes, *, is_simulated: bool
) -> tuple[dict[str, Any], Refused | None]:
    """The document in sentences, its changes and its simulation; or what is wrong with it."""
    try:
        document = read(text)
        if not isinstance(document, dict):
            raise Refused("The document must be a JSON object.")
        shown: dict[str, Any] = {"rules": rule_form.entry_lines(kind, document) if kind in rule_form.FORMS else []}
    except Refused as refusal:
        return {}, refusal
    # The version is entered beside the document, and may still be missing.
    document = {**document, "version": "draft"}
    try:
        release_steps.check_draft(kind, document)
    except Refused as refusal:
        return shown, refusal
    drafted = canonical(document)
    shown |= {
        "topics": policy_topics(kind, drafted),
        "findings": finding_sentences(kind, drafted),
        "compared": policy_changes.compare_documents(kind, in_force, drafted),
    }
    if is_simulated:
        until = request.as_of
        shown["simulation"] = policy_simulation.simulate_policy(
            request.tenant.id, kind, document, since=until - call_gates.SIMULATED, until=until
        )
        shown["most_shown"] = MOST_SHOWN
    return shown, None
