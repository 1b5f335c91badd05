"""Systems: the health of each system of record, its verification debt, and whether irreversible actions are released to
it.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.accounts.step_up import is_proven, is_recently_authenticated
from console.contracts import contract_check
from console.edge.http import TenantRequest, in_tenant, record_page_view, redirect_back
from console.people.forms import ConfirmProposalForm
from console.systems import context as systems_context
from console.systems.lists import STOPS, SYSTEMS, WORDS, standing_of
from console.web.forms import LiftFreezeForm
from console.web.list_page import list_context
from ledger.catalogue import queries as catalogue_queries
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import Answer
from ledger.record.rules.refusals import ProofNeeded
from reviews import queries as after
from reviews.readback.operations import connections
from reviews.readback.operations import systems as operations
from reviews.readback.operations.connections import ConnectionResult

MAY_TEST = frozenset({"administrator", "operator"})
FAMILIES = {"CLOSED": "true", "HALF_OPEN": "verifying", "OPEN": "false"}


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: TenantRequest,
    *,
    word: ConfirmProposalForm | None = None,
    trial: ConnectionResult | None = None,
    status: int = 200,
) -> HttpResponse:
    tenant = request.tenant
    resting = systems_context.contracts_by_system(tenant)
    context = {
        "here": "systems",
        "systems": [
            _system_context(request, each)
            | {
                "contracts": resting.get(each.name, []),
                "credential": systems_context.credential_status(tenant, each) if _may_test(request) else None,
                "trial": trial if trial is not None and trial.system_id == each.id else None,
            }
            for each in SYSTEMS.rows(request)
        ],
        **list_context(request, SYSTEMS),
        "may_test": _may_test(request),
        "spending": systems_context.verification_spending(tenant.id, at=request.as_of),
        "may_stop": "operator" in request.caller.roles,
        "may_answer": bool({"operator", "administrator"} & request.caller.roles),
        "word": word or ConfirmProposalForm(),
        "is_fresh": is_recently_authenticated(request),
    }
    return render(request, "systems/_list.html" if request.htmx else "systems/list.html", context, status=status)


def _may_test(request: TenantRequest) -> bool:
    return bool(MAY_TEST & request.caller.roles)


@in_tenant(*sorted(MAY_TEST))
@require_POST
def test_connection(request: TenantRequest, system_id: UUID) -> HttpResponse:
    """Read the system once; who did so and the result are recorded. The reading itself holds no lock."""
    system = catalogue_queries.system_by_id(request.tenant.id, system_id)
    if system is None:
        raise Http404
    trial = connections.try_connection(request.tenant.id, system, at=request.as_of)
    record_page_view(request, "system", system.id, trial.action_id)
    if trial.reading is not None and trial.contract is not None:
        operations.record_connection(
            tenant_id=request.tenant.id,
            system_id=system.id,
            contract=trial.contract,
            by=request.caller.actor,
            at=request.as_of,
        )
    return _page(request, trial=trial)


@in_tenant("operator")
@require_POST
def stop(request: TenantRequest, system_id: UUID) -> HttpResponse:
    name, form = _name(request, system_id), LiftFreezeForm(request.POST)
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        operations.stop_releasing(
            tenant_id=request.tenant.id, name=name, reason=reason, by=request.caller.actor, at=request.as_of
        )
        messages.success(request, f"Irreversible actions on {name} are paused.")
    else:
        messages.error(request, "Not paused: enter a reason.")
    return redirect_back(request, reverse("systems", args=[request.tenant.slug]))


@in_tenant("administrator", "operator")
@require_POST
def decide_change(request: TenantRequest, system_id: UUID) -> HttpResponse:
    """The second person's decision about a changed address or way of reading a system."""
    form, known = ConfirmProposalForm(request.POST), catalogue_queries.system_by_id(request.tenant.id, system_id)
    if known is None:
        raise Http404
    if not form.is_valid():
        return _page(request, word=form, status=422)
    yes = form.cleaned_data["to"] == "confirm"
    try:
        operations.decide_change(
            tenant_id=request.tenant.id,
            name=known.name,
            answer=Answer.CONFIRM if yes else Answer.DECLINE,
            reason=form.cleaned_data["reason"],
            by=request.caller.actor,
            is_proven=is_proven(request, *form.proof()),
            at=request.as_of,
        )
    except ProofNeeded as refusal:
        form.ask_for_proof(refusal.detail)
        return _page(request, word=form, status=403)
    said = (
        f"Confirmed. The new settings of {known.name} apply."
        if yes
        else f"Declined. The settings of {known.name} are unchanged."
    )
    messages.success(request, said)
    return redirect("systems", request.tenant.slug)


@in_tenant("operator")
@require_POST
def resume(request: TenantRequest, system_id: UUID) -> HttpResponse:
    name, form = _name(request, system_id), LiftFreezeForm(request.POST)
    if form.is_valid():
        reason = form.cleaned_data["reason"]
        operations.resume_releasing(
            tenant_id=request.tenant.id, name=name, reason=reason, by=request.caller.actor, at=request.as_of
        )
        messages.success(request, f"Actions on {name} are resumed, provided that it answers.")
    else:
        messages.error(request, "Not resumed: enter a reason.")
    return redirect_back(request, reverse("systems", args=[request.tenant.slug]))


def _name(request: TenantRequest, system_id: UUID) -> str:
    row = catalogue_queries.system_by_id(request.tenant.id, system_id)
    if row is None:
        raise Http404
    return row.name


def _waits(request: TenantRequest, seen: systems_context.SystemStatus) -> dict[str, Any]:
    """A waiting change: its difference, its sender, and whether that was the reader."""
    assert seen.proposal is not None
    by = systems_context.change_sender(seen)
    wanted = {"pattern": seen.proposal["pattern"], "settings": seen.proposal["settings"]}
    return {
        "changes": contract_check.diff_documents({"pattern": seen.pattern, "settings": seen.settings}, wanted),
        "by": actor_names(request.tenant.id).get(by, "a program") if by else "",
        "is_sender": is_same_person(by, request.caller.actor.id),
        "answer": reverse("system-answer", args=[request.tenant.slug, seen.id]),
    }


def _system_context(request: TenantRequest, seen: systems_context.SystemStatus) -> dict[str, Any]:
    tenant = request.tenant
    hooks = after.hooks_of(tenant.id, seen.id)
    taken = after.last_deliveries(tenant.id, [each.id for each in hooks])
    incident = after.incident_with_cause(tenant.id, f"system:{seen.name}")
    stands = standing_of(seen)
    return {
        "seen": seen,
        "waits": _waits(request, seen) if seen.proposal else None,
        "badge": {"family": FAMILIES.get(stands, "waiting"), "word": WORDS[stands]},
        "stop": STOPS.get(str(seen.stop), "") if seen.stop is not None else "",
        "limits": [{"word": _limit_label(name), "value": value} for name, value in seen.limits.items()],
        "hooks": [{"row": each, "taken_at": taken.get(each.id)} for each in hooks],
        "incident": {"title": incident.title, "href": reverse("incident", args=[tenant.slug, incident.id])}
        if incident is not None
        else None,
        "stop_href": reverse("system-stop", args=[tenant.slug, seen.id]),
        "resume_href": reverse("system-resume", args=[tenant.slug, seen.id]),
    }


def _limit_label(name: str) -> str:
    return {
        "concurrency": "Concurrent reads",
        "reads_per_minute": "Reads per minute",
        "failures": "Failures until marked down",
        "cooldown_s": "First retry after, seconds",
        "longest_cooldown_s": "Longest retry interval, seconds",
        "incident_after_s": "Incident after, seconds",
        "incident_actions": "Incident at unverified actions",
    }[name]
