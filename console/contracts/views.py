"""Contracts: each tool's arguments and effects, its lint findings, and its predicates on past readings."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from approvals.sessions import queries as sessions_queries
from console.accounts.queries import actor_names
from console.accounts.step_up import is_proven, is_recently_authenticated
from console.contracts import contract_check, predicate_trial
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
from console.people.forms import ConfirmProposalForm
from console.releases.forms import ReleaseWordForm, apply_word
from console.web.labels import format_json
from console.web.predicate_sentences import predicate_sentence
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.operations import registration, releases, second_person
from ledger.catalogue.rules.contract import Contract, read
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import Answer
from ledger.record.rules.refusals import ProofNeeded, Refused

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
        **frame,
    }
    return render(request, "contracts/_list.html" if request.htmx else "contracts/list.html", context)


@in_tenant()
def contract(request: TenantRequest, contract_name: str, contract_version: str) -> HttpResponse:
    return _contract(request, contract_name, contract_version)


@in_tenant(*sorted(MAY_TRY))
@require_POST
def decide_version(request: TenantRequest, contract_name: str, contract_version: str) -> HttpResponse:
    """The decision of a second person about a weaker version."""
    form = ConfirmProposalForm(request.POST)
    if not form.is_valid():
        return _contract(request, contract_name, contract_version, word=form, status=422)
    yes = form.cleaned_data["to"] == "confirm"
    try:
        second_person.decide_contract_change(
            tenant_id=request.tenant.id,
            name=contract_name,
            version=contract_version,
            answer=Answer.CONFIRM if yes else Answer.DECLINE,
            reason=form.cleaned_data["reason"],
            by=request.caller.actor,
            is_proven=is_proven(request, *form.proof()),
            at=request.as_of,
        )
    except ProofNeeded as refusal:
        form.ask_for_proof(refusal.detail)
        return _contract(request, contract_name, contract_version, word=form, status=403)
    said = "Confirmed. It applies to agents registered for this version or its range." if yes else "Declined."
    messages.success(request, said)
    return redirect("contract", request.tenant.slug, contract_name, contract_version)


@in_tenant(*sorted(MAY_TRY))
@require_POST
def roll_back(request: TenantRequest, contract_name: str, contract_version: str) -> HttpResponse:
    """Restore an earlier version in place of every later one, in one step and by one person."""
    form = ReleaseWordForm(request.POST, auto_id="id_back_%s")
    operation = partial(releases.roll_back_contract, name=contract_name, version=contract_version)
    restored, status = apply_word(request, form, operation)
    if restored is None:
        return _contract(request, contract_name, contract_version, back=form, status=status)
    messages.success(request, f"Rolled back. Version {contract_version} is the newest in force.")
    return redirect("contract", request.tenant.slug, contract_name, contract_version)


@in_tenant(*sorted(MAY_TRY))
@require_POST
def retire(request: TenantRequest, contract_name: str, contract_version: str) -> HttpResponse:
    """A version out of force with every earlier one, in one step and by one person."""
    form = ReleaseWordForm(request.POST, auto_id="id_retire_%s")
    ends_tool = {"yes": True, "no": False}.get(request.POST.get("ends_tool", ""))
    operation = partial(releases.retire_contract, name=contract_name, version=contract_version, ends_tool=ends_tool)
    retired, status = apply_word(request, form, operation)
    if retired is None:
        return _contract(request, contract_name, contract_version, end=form, status=status)
    messages.success(
        request, f"Retired: {', '.join(each.version for each in retired)}. Nothing new is proposed under it."
    )
    return redirect("contract", request.tenant.slug, contract_name, contract_version)


@in_tenant(*sorted(MAY_TRY))
def register(request: TenantRequest) -> HttpResponse:
    """Check a document first, and register it once its findings were seen; the typed text is kept."""
    if request.method != "POST":
        start = SKELETON if request.GET.get("start") == "example" else ""
        return _registration(request, start, CheckedDocument())
    sent = RegisterContractForm(request.POST, request.FILES)
    text = sent.text()
    checked = check_document(request.tenant.id, text)
    contract = checked.contract
    if contract is None or checked.needs_release or request.POST.get("checked") != contract.digest:
        return _registration(request, text, checked, status=200 if contract else 422)
    try:
        with undo_if_refused(request):
            row = registration.register_contract(
                tenant_id=request.tenant.id, contract=contract, actor=request.caller.actor, at=request.as_of
            )
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
    contract_name: str,
    contract_version: str,
    *,
    word: ConfirmProposalForm | None = None,
    back: ReleaseWordForm | None = None,
    end: ReleaseWordForm | None = None,
    status: int = 200,
) -> HttpResponse:
    row = catalogue_queries.contract_version(request.tenant.id, contract_name, contract_version)
    if row is None:
        raise Http404
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
        "is_sender": is_same_person(row.sent_by, request.caller.actor.id),
        "sent_by": actor_names(request.tenant.id).get(row.sent_by, "a program") if row.sent_by else "",
        "may_answer": state == "PENDING" and may,
        "may_draft": may and state == "REGISTERED" and not later,
        "back": (back or ReleaseWordForm(auto_id="id_back_%s"))
        if back is not None or (may and state == "REGISTERED" and later)
        else None,
        "retirement": retirement_panel(request.tenant, row) if may and (state == "REGISTERED" or end) else None,
        "end": end or ReleaseWordForm(auto_id="id_retire_%s"),
        "word": word or ConfirmProposalForm(),
        "is_fresh": is_recently_authenticated(request),
        "may_try": may and known.verifiable,
    }
    if context["may_try"]:
        context |= _trial_context(request, known)
    return render(
        request, "contracts/_detail.html" if request.htmx else "contracts/detail.html", context, status=status
    )


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
