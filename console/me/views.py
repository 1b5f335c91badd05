"""My account in a tenant: the keys that sign my votes, when I am away, and whom I have lent my power to."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from approvals.voting.operations import approver_keys, delegations
from approvals.voting.queries import approvers
from approvals.voting.rules.delegation import EVERYBODY
from console.accounts.members import enrolment
from console.accounts.members import operations as people
from console.accounts.members import queries as members_queries
from console.accounts.queries import actor_names
from console.accounts.step_up import is_proven, is_recently_authenticated, redirect_to_reauthentication
from console.edge.http import TenantRequest, in_tenant
from console.people import verbs
from console.people.forms import DateRangeForm, DelegationForm, EnrolmentForm
from console.verbs.verb import Ids, page_of
from console.web.forms import PreferencesForm
from ledger.record.rules.refusals import ProofNeeded


@in_tenant()
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


@in_tenant("reviewer")
@require_http_methods(["GET", "POST"])
def enrol(request: TenantRequest) -> HttpResponse:
    """Enrol a passkey; requires recent authentication."""
    if not is_recently_authenticated(request):
        return redirect_to_reauthentication(request)
    form = EnrolmentForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return _ceremony(request, form)
    tenant_id, actor = request.tenant.id, request.caller.actor
    registered, kept = enrolment.finish_enrolment(
        request.session,
        tenant_id=tenant_id,
        actor_id=actor.id,
        credential=form.cleaned_data["credential"],
        at=request.as_of,
    )
    people.enrol_key(
        tenant_id=tenant_id,
        by=actor,
        name=form.cleaned_data["name"],
        registered=registered,
        registration=kept,
        at=request.as_of,
    )
    messages.success(request, "Enrolled. It counts after another person confirms it on People and keys.")
    return redirect("me", request.tenant.slug)


@in_tenant("reviewer")
@require_POST
def stop_key(request: TenantRequest, approver_key_id: UUID) -> HttpResponse:
    """Stop one's own key, or withdraw an enrolment."""
    key = approvers.approver_key_by_id(request.tenant.id, approver_key_id)
    if key is None or key.actor_id != request.caller.actor.id:
        raise Http404("Passkey not found.")
    facts: dict[str, Any] = {
        "tenant_id": request.tenant.id,
        "key_id": approver_key_id,
        "by": request.caller.actor,
        "at": request.as_of,
    }
    if key.state == "PENDING":
        approver_keys.refuse(**facts, reason="Withdrawn.")
    else:
        person = people.person_of(request.tenant.id, request.caller.actor.id)
        approver_keys.suspend(**facts, person_id=person, reason="Stopped by its holder.")
    messages.success(request, "Stopped.")
    return redirect("me", request.tenant.slug)


@in_tenant()
@require_POST
def start_absence(request: TenantRequest) -> HttpResponse:
    form = DateRangeForm(request.POST)
    if not form.is_valid():
        return _page(request, absence=form, status=422)
    delegations.add_absence(
        tenant_id=request.tenant.id,
        actor_id=request.caller.actor.id,
        by=request.caller.actor,
        at=request.as_of,
        **form.span(request.as_of),
    )
    messages.success(request, "Out of office saved.")
    return redirect("me", request.tenant.slug)


@in_tenant("reviewer")
@require_POST
def delegate(request: TenantRequest) -> HttpResponse:
    form = _loan_form(request, request.POST)
    if not form.is_valid():
        return _page(request, loan=form, status=422)
    asked = form.cleaned_data
    try:
        delegations.add_delegation(
            tenant_id=request.tenant.id,
            from_actor=request.caller.actor.id,
            to_actor=UUID(asked["to"]),
            groups=asked["groups"],
            tools=asked["tools"],
            reason=asked["reason"],
            by=request.caller.actor,
            by_person=people.person_of(request.tenant.id, request.caller.actor.id),
            at=request.as_of,
            is_proven=is_proven(request, *form.proof()),
            **form.span(request.as_of),
        )
    except ProofNeeded as refusal:
        form.ask_for_proof(refusal.detail)
        return _page(request, loan=form, status=403)
    messages.success(request, "Delegated. Each decision made with it is marked.")
    return redirect("me", request.tenant.slug)


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("me", args=[request.tenant.slug])


def _own_absence(request: TenantRequest, *, absence_id: UUID) -> Ids:
    row = approvers.absence(request.tenant.id, absence_id)
    if row is None or row.actor_id != request.caller.actor.id:
        raise Http404("Absence not found.")
    return {"absence_id": absence_id}


def _own_delegation(request: TenantRequest, *, delegation_id: UUID) -> Ids:
    row = approvers.delegation(request.tenant.id, delegation_id)
    if row is None or request.caller.actor.id not in (row.from_actor, row.to_actor):
        raise Http404("Delegation not found.")
    return {"delegation_id": delegation_id}


end_absence = page_of(verbs.COME_BACK, home=_home, api_ids=_own_absence)
end_delegation = page_of(verbs.END_DELEGATION, home=_home, api_ids=_own_delegation)


def _page(request: TenantRequest, *, status: int = 200, **shown: Any) -> HttpResponse:
    tenant_id, actor_id = request.tenant.id, request.caller.actor.id
    called = actor_names(tenant_id)
    loans = approvers.delegations_of(tenant_id, actor_id, request.as_of)
    context = {
        "here": "me",
        "approver": approvers.approver(tenant_id, actor_id),
        "preferences": PreferencesForm(initial={"zone": request.user.zone or "UTC"}),
        "keys": approvers.approver_keys(tenant_id, actor_id=actor_id),
        "absences": [each for each in approvers.absences(tenant_id, request.as_of) if each.actor_id == actor_id],
        "given": [(row, called.get(row.to_actor, "")) for row in loans if row.from_actor == actor_id],
        "taken": [(row, called.get(row.from_actor, "")) for row in loans if row.to_actor == actor_id],
        "absence": DateRangeForm(auto_id="away_%s"),
        "loan": _loan_form(request, None),
        "is_fresh": is_recently_authenticated(request),
    }
    template = "me/_page.html" if request.htmx else "me/page.html"
    return render(request, template, context | shown, status=status)


def _loan_form(request: TenantRequest, data: Any) -> DelegationForm:
    own = approvers.approver(request.tenant.id, request.caller.actor.id)
    person = own.person_id if own else None
    called = actor_names(request.tenant.id)
    others = [
        (str(each.actor_id), called.get(each.actor_id, ""))
        for each in approvers.approvers(request.tenant.id)
        if each.person_id != person
    ]
    groups = [EVERYBODY, *(own.groups if own else [])]
    return DelegationForm(data, people=others, own=groups, auto_id="loan_%s")


def _ceremony(request: TenantRequest, form: EnrolmentForm) -> HttpResponse:
    place = members_queries.member_by_pseudonym(request.tenant.id, request.caller.actor.id)
    known = [
        key
        for each in members_queries.linked_accounts(place)
        for key in approvers.approver_keys(request.tenant.id, actor_id=each.actor_id)
    ]
    options = enrolment.begin_enrolment(
        request.session,
        tenant_id=request.tenant.id,
        actor_id=request.caller.actor.id,
        name=request.caller.name,
        known=known,
        at=request.as_of,
    )
    context = {"form": form, "options": options, "back": reverse("me", args=[request.tenant.slug])}
    return render(request, "me/enrol.html", context, status=422 if form.errors else 200)
