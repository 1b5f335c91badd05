"""Contracts: each tool's arguments and effects, its lint findings, and its predicates on past readings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from approvals.sessions import queries as sessions_queries
from console.accounts.queries import actor_names
from console.accounts.step_up import is_recently_authenticated
from console.contracts import contract_check, predicate_trial, verbs
from console.contracts.change_sentences import change_sentence
from console.contracts.contract_check import current_findings, registered_systems
from console.contracts.lists import CONTRACTS
from console.contracts.registration import (
    SKELETON,
    CheckedDocument,
    RegisterContractForm,
    check_document,
    excerpts,
    note_refusal,
)
from console.contracts.retirement import retirement_panel
from console.edge.http import TenantRequest, in_tenant, record_page_view, undo_if_refused
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web.labels import format_json
from console.web.predicate_sentences import predicate_sentence
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration
from ledger.catalogue.rules.contract import Contract, read
from ledger.people.queries import is_same_person
from ledger.record.rules.refusals import Refused
from reviews.readback.operations.dry_runs import record_tries

PAGE = 100
MAY_TRY = frozenset({"administrator", "operator"})


class TryPredicateForm(forms.Form):
    """A predicate, and the action on whose newest reading it is tried."""

    predicate = forms.CharField(max_length=predicate_trial.LONGEST)
    action = forms.UUIDField()


@in_tenant()
def list_contracts(request: TenantRequest) -> HttpResponse:
    found, frame = CONTRACTS.read_page(request, PAGE)
    context = {
        "here": "contracts",
        "may_register": bool(MAY_TRY & request.caller.roles),
        "contracts": CONTRACTS.rows_of(request, found),
        "in_force": len(catalogue_queries.tool_names(request.tenant.id)),
        **frame,
    }
    return render(request, "contracts/_list.html" if request.htmx else "contracts/list.html", context)


@in_tenant()
def contract(request: TenantRequest, contract_name: str, contract_version: str) -> HttpResponse:
    return _contract(request, contract_name, contract_version)


@in_tenant(*sorted(MAY_TRY))
@require_http_methods(["GET", "POST"])
def register(request: TenantRequest) -> HttpResponse:
    """Check a document first, and register it once its findings were seen; the typed text is kept."""
    if request.method != "POST":
        start = SKELETON if request.GET.get("start") == "example" else ""
        return _registration(request, start, CheckedDocument())
    sent = RegisterContractForm(request.POST, request.FILES)
    text = sent.text()
    checked = check_document(request.tenant.id, text, at=request.as_of)
    contract = checked.contract
    if contract is None or checked.needs_release or request.POST.get("checked") != contract.digest:
        return _registration(request, text, checked, status=200 if contract else 422)
    try:
        with undo_if_refused(request):
            row = registration.register_contract(
                tenant_id=request.tenant.id, contract=contract, actor=request.caller.actor, at=request.as_of
            )
            record_tries(request.tenant.id, contract, checked.tried, by=request.caller.actor, at=request.as_of)
    except Refused as refusal:
        return _registration(request, text, note_refusal(checked, refusal), status=refusal.status)
    waits = " It is weaker than the version in force and waits for a second person." if row.weakens else ""
    messages.success(request, f"Registered.{waits}")
    return redirect("contract", request.tenant.slug, row.name, row.version)


def _registration(request: TenantRequest, text: str, checked: CheckedDocument, *, status: int = 200) -> HttpResponse:
    faults = sum(note.is_fault for note in checked.notes)
    context = {
        "here": "contracts",
        "form": RegisterContractForm(initial={"document": text}),
        "fresh": not text,
        "valid": checked.contract,
        "needs_release": checked.needs_release,
        "weaker": checked.is_weaker,
        "excerpts": excerpts(text, checked.notes),
        "faults": faults,
        "findings": len(checked.notes) - faults,
        "is_checked": request.method == "POST",
    }
    return render(request, "contracts/_new.html" if request.htmx else "contracts/new.html", context, status=status)


def _contract(
    request: TenantRequest,
    /,
    contract_name: str,
    contract_version: str,
    *,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    status: int = 200,
) -> HttpResponse:
    row = catalogue_queries.contract_version(request.tenant.id, contract_name, contract_version)
    if row is None:
        raise Http404
    back = forms.get("roll_back_contract") or verbs.ROLL_BACK.form()
    end = forms.get("retire_contract") or verbs.RETIRE.form()
    back.auto_id, end.auto_id = "id_back_%s", "id_retire_%s"
    known = sessions_queries.disclosed_contract(request.tenant.id, row.digest)
    document, systems = read(known.document), registered_systems(request.tenant.id)
    versions = catalogue_queries.contract_versions_of(request.tenant.id, contract_name)
    states = catalogue_queries.contract_states(request.tenant.id, [each.id for each in versions])
    state, may = states.get(row.id, ""), bool(MAY_TRY & request.caller.roles)
    later = any(each.id > row.id and states[each.id] == "REGISTERED" for each in versions)
    context = {
        "here": "contracts",
        "row": row,
        "contract": known,
        "facts": _facts(known),
        "checks": [{"text": text, "said": predicate_sentence(text, known)} for text in known.predicates],
        "findings": current_findings(known, systems),
        "parameters": _parameters(known),
        "document": format_json(document),
        "schema": format_json(dict(known.arguments_schema)),
        "versions": [shown | {"current": shown["row"].id == row.id} for shown in CONTRACTS.rows_of(request, versions)],
        "compared": _changes_since(request, versions, document, row.compared_with if row.weakens else ""),
        "state": state,
        "is_sender": is_same_person(row.tenant_id, row.sent_by, request.caller.actor.id),
        "sent_by": actor_names(request.tenant.id).get(row.sent_by, "a program") if row.sent_by else "",
        "may_answer": state == "PENDING" and may,
        "may_draft": may and state == "REGISTERED" and not later,
        "back": back if back.is_bound or (may and state == "REGISTERED" and later) else None,
        "retirement": retirement_panel(request.tenant, row)
        if may and (state == "REGISTERED" or end.is_bound)
        else None,
        "end": end,
        "word": forms.get("answer_contract") or verbs.ANSWER.form(),
        "is_fresh": is_recently_authenticated(request),
        "may_try": may and known.verifiable,
    }
    if context["may_try"]:
        context |= _trial_context(request, known)
    return render(
        request, "contracts/_detail.html" if request.htmx else "contracts/detail.html", context, status=status
    )


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("contract", args=[request.tenant.slug, ids["contract_name"], ids["contract_version"]])


def _by_name(request: TenantRequest, *, contract_name: str, contract_version: str) -> Ids:
    return {"name": contract_name, "version": contract_version}


decide_version = page_of(verbs.ANSWER, home=_home, render=_contract, keeps=True, api_ids=_by_name)
roll_back = page_of(verbs.ROLL_BACK, home=_home, render=_contract, keeps=True, api_ids=_by_name)
retire = page_of(verbs.RETIRE, home=_home, render=_contract, keeps=True, api_ids=_by_name)


def _facts(contract: Contract) -> list[tuple[str, str]]:
    """Return the facts about how the tool's effect is checked, as pairs of words."""
    path = contract.verification
    facts = [("Target", contract.target_template), ("Operation", contract.operation_kind)]
    if path is None:
        return [*facts, ("Verification", "nothing can be read back; outcomes are attested")]
    return [
        *facts,
        ("Verification", f"{path.pattern} in {path.system}"),
        ("Further sources", ", ".join(each.system for each in path.further) or "none"),
        ("Required effects", ", ".join(contract.required_effects) or "none"),
        ("First reading", f"after {path.polling.first_after_s} s, for at most {path.polling.sla_s} s"),
        ("Compensated by", contract.recovery.compensation_tool or "nothing"),
        *((f"A {kind} is corrected by", remedy.tool) for kind, remedy in contract.recovery.corrections.items()),
        ("Completion phrases", ", ".join(contract.claims.done) or "none"),
    ]


def _parameters(contract: Contract) -> list[dict[str, Any]]:
    schema = contract.arguments_schema
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "required": name in required,
            "takes": format_json(part) if isinstance(part, dict) else str(part),
        }
        for name, part in schema.get("properties", {}).items()
    ]


def _changes_since(
    request: TenantRequest, versions: list[Any], document: dict[str, Any], weaker_than: str
) -> dict[str, Any] | None:
    """The changes since another version: the one in the address, or the one that it is weaker than."""
    since = request.GET.get("since", "") or weaker_than
    other = next((each for each in versions if each.version == since), None)
    if other is None:
        return None
    changes = contract_check.diff_documents(read(bytes(other.document)), document)
    # The version differs in any case, and the heading says it.
    told = [each | {"sentence": change_sentence(each)} for each in changes if each["path"] != "/version"]
    return {"version": other.version, "changes": told}


def _trial_context(request: TenantRequest, contract: Contract) -> dict[str, Any]:
    recorded = predicate_trial.recorded_readings(request.tenant.id, contract.name)
    form = TryPredicateForm(request.GET) if "predicate" in request.GET else TryPredicateForm()
    context: dict[str, Any] = {"recorded": recorded, "form": form}
    if not form.is_bound or not form.is_valid():
        return context
    run = next((run for action, run in recorded if action.id == form.cleaned_data["action"]), None)
    if run is None:
        return context
    record_page_view(request, "evidence", run.pointer, run.action_id)
    return context | {"answer": predicate_trial.try_predicate(run, form.cleaned_data["predicate"])}
