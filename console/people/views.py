"""People and keys: members and roles, approvers' passkeys, machine keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.execution import queries as execution_queries
from approvals.voting.queries import approvers
from console.accounts import operations as accounts_operations
from console.accounts import queries as directory
from console.accounts.addresses import BadAddress
from console.accounts.machine_keys import key_prefix
from console.accounts.members import operations as people
from console.accounts.members import queries as members_queries
from console.accounts.members.rules import current_roles
from console.accounts.queries import actor_names
from console.accounts.sign_in import single_sign_on
from console.accounts.step_up import is_proven, is_recently_authenticated, redirect_to_reauthentication
from console.edge.http import TenantRequest, in_tenant
from console.people import verbs
from console.people.forms import InvitationForm, NewKeyForm
from console.people.lists import API_KEYS, DELEGATIONS, PASSKEYS, PEOPLE, READERS
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web.list_page import export_address, list_context
from ledger.record.queries import events
from ledger.record.rules.refusals import ProofNeeded

MAY_BY_KIND = {
    "agent": "Open sessions, propose actions and read its own actions. It cannot approve, start or settle.",
    "exec": "Register executors, claim and start approved actions, report tool answers. It cannot propose or approve.",
    "oper": "Register agents, contracts, systems and executors, and place freezes. It cannot approve, lift a freeze or"
    " settle a case.",
    "audit": "Read the log, its proofs and lists. It cannot change anything.",
}
MAY_ANSWER_KEYS = ("administrator", "reviewer")


@in_tenant(*READERS)
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


@in_tenant(*READERS)
def member(request: TenantRequest, member_id: UUID) -> HttpResponse:
    return _member(request, member_id)


@in_tenant("administrator")
@require_POST
def invite(request: TenantRequest) -> HttpResponse:
    form = InvitationForm(request.POST)
    if not form.is_valid():
        return _page(request, invitation=form, status=422)
    asked = form.cleaned_data
    try:
        row, token = people.invite_member(
            tenant_id=request.tenant.id,
            email=asked["email"],
            name=asked["name"],
            roles=asked["roles"],
            groups=asked["groups"],
            by=request.caller.actor,
            at=request.as_of,
            is_proven=is_proven(request, *form.proof()),
        )
    except ProofNeeded as refusal:
        form.ask_for_proof(refusal.detail)
        return _page(request, invitation=form, status=403)
    except (people.LooksLikeMember, BadAddress) as refusal:
        form.add_error("email", refusal.detail)
        return _page(request, invitation=form, status=refusal.status)
    return _member(request, row.id, link=_link(token))


@in_tenant("administrator")
@require_POST
def invite_again(request: TenantRequest, member_id: UUID) -> HttpResponse:
    try:
        token = people.renew_invitation(
            tenant_id=request.tenant.id,
            member_id=member_id,
            by=request.caller.actor,
            at=request.as_of,
            is_proven=is_recently_authenticated(request),
        )
    except ProofNeeded:
        return redirect_to_reauthentication(request)
    return _member(request, member_id, link=_link(token))


@in_tenant("administrator")
@require_POST
def link(request: TenantRequest, member_id: UUID) -> HttpResponse:
    other = _member_or_404(request, _uuid(request.POST.get("with", "")))
    people.link_accounts(
        tenant_id=request.tenant.id, member_ids=[member_id, other.id], by=request.caller.actor, at=request.as_of
    )
    messages.success(request, "Linked. The accounts count as one person.")
    return redirect("member", request.tenant.slug, member_id)


# Keys


@in_tenant("administrator")
@require_POST
def create_key(request: TenantRequest) -> HttpResponse:
    form = NewKeyForm(request.POST)
    if not form.is_valid():
        return _page(request, new_key=form, status=422)
    asked = form.cleaned_data
    secret = accounts_operations.create_key(
        tenant_id=request.tenant.id,
        kind=asked["kind"],
        name=asked["name"],
        by=request.caller.actor,
        scopes=form.scopes(),
        expires_at=request.as_of + timedelta(days=asked["days"]) if asked["days"] else None,
        at=request.as_of,
    )
    return _page(request, secret=secret, named=asked["name"])


@in_tenant("administrator")
def machine_key(request: TenantRequest, machine_key_id: UUID) -> HttpResponse:
    tenant_id = request.tenant.id
    key = next((each for each in directory.api_keys(tenant_id) if each.id == machine_key_id), None)
    if key is None:
        raise Http404("Key not found.")
    (issued, _, _), *_ = events.histories(tenant_id, [key.id])[key.id]
    context = {
        "here": "people",
        "key": key,
        "may": MAY_BY_KIND[key.kind],
        "begins_with": key_prefix(key.kind, tenant_id),
        "made_by": actor_names(tenant_id).get(issued.actor_id, issued.actor_kind),
        "executors": [each for each in execution_queries.executors(tenant_id) if each.key_actor == key.actor_id],
        "record": f"{reverse('audit', args=[request.tenant.slug])}?action={key.id}",
    }
    return render(request, _template(request, "machine_key"), context)


@in_tenant("administrator")
@require_POST
def revoke_key(request: TenantRequest, machine_key_id: UUID) -> HttpResponse:
    if machine_key_id not in {each.id for each in directory.api_keys(request.tenant.id)}:
        raise Http404("Key not found.")
    reason = request.POST.get("reason", "").strip()[:4000] or "No reason given."
    accounts_operations.revoke_key(
        tenant_id=request.tenant.id, key_id=machine_key_id, by=request.caller.actor, reason=reason, at=request.as_of
    )
    messages.success(request, "Revoked. Requests with this key are refused.")
    return redirect("people", request.tenant.slug)


# What the pages show


def _page(request: TenantRequest, *, status: int = 200, **shown: Any) -> HttpResponse:
    may = "administrator" in request.caller.roles
    context = {
        "here": "people",
        "may_change": may,
        **list_context(request, PEOPLE),
        "keys_export": export_address(request, API_KEYS),
        "passkeys_export": export_address(request, PASSKEYS),
        "delegations_export": export_address(request, DELEGATIONS),
        "is_fresh": is_recently_authenticated(request),
        "may_answer": bool(request.caller.roles & set(MAY_ANSWER_KEYS)),
        "members": PEOPLE.rows(request),
        "keys": PASSKEYS.all_rows(request),
        "loans": DELEGATIONS.rows(request),
        "machines": API_KEYS.rows(request) if may else [],
        "providers": single_sign_on.configured_providers(),
        "invitation": InvitationForm(),
        "new_key": NewKeyForm(),
        "back": reverse("people", args=[request.tenant.slug]),
    }
    return render(request, _template(request, "page"), context | shown, status=status)


def _member(
    request: TenantRequest,
    /,
    member_id: UUID,
    *,
    link: str = "",
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    status: int = 200,
) -> HttpResponse:
    row = _member_or_404(request, member_id)
    now, called = current_roles(row), actor_names(request.tenant.id)
    rows = members_queries.members(request.tenant.id)
    keys = approvers.approver_keys(request.tenant.id, actor_id=row.actor_id)
    proposal = row.proposal
    context = {
        "here": "people",
        "may_change": "administrator" in request.caller.roles,
        "is_fresh": is_recently_authenticated(request),
        "may_answer": bool(request.caller.roles & set(MAY_ANSWER_KEYS)),
        "one": PEOPLE.rows_of(request, [row])[0],
        "link": link,
        "place": forms.get("change")
        or verbs.CHANGE.form({"roles": sorted(now.roles), "groups": " ".join(sorted(now.groups))}),
        "keys": PASSKEYS.rows_of(request, keys),
        "linked": [each for each in rows if each.person_id == row.person_id and each.id != row.id],
        "others": [each for each in rows if each.person_id != row.person_id],
        "proposal": proposal,
        "proposed_by": called.get(UUID(proposal["by"]), "") if proposal else "",
        "record": f"{reverse('audit', args=[request.tenant.slug])}?action={row.id}",
    }
    return render(request, _template(request, "member"), context, status=status)


def _to_member(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("member", args=[request.tenant.slug, ids["member_id"]])


def _to_people(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("people", args=[request.tenant.slug])


change = page_of(verbs.CHANGE, home=_to_member, render=_member, keeps=True)
decide_proposal = page_of(verbs.ANSWER_PROPOSAL, home=_to_member)
separate = page_of(verbs.SEPARATE, home=_to_member)
remove = page_of(verbs.REMOVE, home=_to_people, render=_member)
decide_key = page_of(
    {
        "confirm": verbs.CONFIRM_KEY,
        "refuse": verbs.REFUSE_KEY,
        "suspend": verbs.SUSPEND_KEY,
        "restore": verbs.RESTORE_KEY,
        "remove": verbs.REMOVE_KEY,
    },
    home=_to_people,
)


end_delegation = page_of(replace(verbs.END_DELEGATION, roles=verbs.ADMINISTRATOR), home=_to_people)


def _template(request: TenantRequest, name: str) -> str:
    return f"people/_{name}.html" if request.htmx else f"people/{name}.html"


def _member_or_404(request: TenantRequest, member_id: UUID | None) -> Any:
    row = members_queries.member_by_id(request.tenant.id, member_id) if member_id else None
    if row is None:
        raise Http404("Member not found.")
    return row


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _link(token: str) -> str:
    # The address that people type, by whatever name the administrator reached us.
    return settings.COUNTERFOIL_PUBLIC_URL + reverse("invitation", args=[token])
