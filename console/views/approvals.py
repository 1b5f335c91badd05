"""The inbox of approvals, and the page on which a person decides about one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import authenticate
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals import queries
from approvals.operations import votes
from approvals.rules import binding
from console import erased, target, words
from console.account import arguments, payload_of
from console.api.edge import after_commit
from console.decision import decision
from console.forms import Vote
from console.http import Request, in_tenant, looked
from console.tasks import read_before
from console.title import title
from ledger.queries import record

TABS = {
    "": ("Waiting", "0 approvals wait for a vote"),
    "approved": ("Approved, not started", "0 approvals wait for an executor"),
    "decided": ("Decided", "Nothing has been decided yet"),
}
PAGE = 50


@in_tenant()
def inbox(request: Request) -> HttpResponse:
    tab = request.GET.get("tab", "")
    if tab not in TABS:
        raise Http404
    here = reverse("approvals", args=[request.tenant.slug])
    found = _found(request, tab)
    context = {
        "here": "approvals",
        "tabs": _tabs(here, tab),
        "cards": _cards(request, found),
        "order": "newest first" if tab == "decided" else "what ends first comes first",
        "empty": TABS[tab][1],
        "older": f"{here}?tab=decided&before={found[-1].id}" if tab == "decided" and len(found) == PAGE else "",
        "newest": f"{here}?tab=decided" if "before" in request.GET else "",
    }
    return render(request, "approvals/_list.html" if request.htmx else "approvals/list.html", context)


@in_tenant()
def approval(request: Request, approval_id: UUID) -> HttpResponse:
    found = queries.approval(request.tenant.id, approval_id)
    if found and target.look_again(found, roles=request.caller.roles, by=request.caller.actor, at=request.as_of):
        after_commit(read_before)
    page = erased.instead(request, "approval", approval_id) or _page(request, approval_id, Vote())
    looked(request, "approval", approval_id, found.action_id if found else None)
    return page


@in_tenant("reviewer", "operator")
@require_POST
def vote(request: Request, approval_id: UUID) -> HttpResponse:
    form = Vote(request.POST)
    if not form.is_valid():
        return _page(request, approval_id, form, status=422)
    # Through `authenticate`, so that wrong passwords count towards a lock as they do at sign-in.
    if authenticate(request, username=request.user.get_username(), password=form.cleaned_data["password"]) is None:
        votes.note_refused(
            tenant_id=request.tenant.id,
            approval_id=approval_id,
            voter=request.caller.actor.id,
            refusal=binding.StepUpRequired(),
            at=request.as_of,
        )
        form.add_error("password", "This is not your password. Your vote was not recorded.")
        return _page(request, approval_id, form, status=403)
    votes.vote(
        tenant_id=request.tenant.id,
        approval_id=approval_id,
        verdict=form.said(),
        voter=binding.Voter(actor=str(request.caller.actor.id), roles=request.caller.roles, evidence_class="C"),
        seen=form.seen(),
        reason=form.cleaned_data["reason"],
        at=request.as_of,
    )
    messages.success(request, f"Recorded: you {words.VERDICTS[form.said()][1]}.")
    return redirect("approval", request.tenant.slug, approval_id)


def _page(request: Request, approval_id: UUID, form: Vote, *, status: int = 200) -> HttpResponse:
    found = queries.approval(request.tenant.id, approval_id)
    if found is None:
        raise Http404
    context = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "approval": decision(request.tenant, found, caller=request.caller, at=request.as_of),
        "form": form,
    }
    name = "approvals/_detail.html" if request.htmx else "approvals/detail.html"
    return render(request, name, context, status=status)


def _found(request: Request, tab: str) -> list[Any]:
    if tab == "decided":
        return queries.decided(request.tenant.id, before=_uuid(request.GET.get("before", "")), limit=PAGE)
    return queries.approvals(request.tenant.id, states=("APPROVED" if tab else "REQUESTED",), limit=PAGE)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _tabs(here: str, current: str) -> list[dict[str, Any]]:
    return [
        {"href": f"{here}?tab={tab}" if tab else here, "word": word, "current": tab == current}
        for tab, (word, _) in TABS.items()
    ]


def _cards(request: Request, found: list[Any]) -> list[dict[str, Any]]:
    actions = record.actions_by_id(request.tenant.id, [each.action_id for each in found])
    sessions = queries.sessions_by_id(request.tenant.id, {each.session_id for each in actions.values()})
    return [_card(request, each, actions[each.action_id], sessions) for each in found]


def _card(request: Request, approval: Any, action: Any, sessions: dict[UUID, Any]) -> dict[str, Any]:
    icon, word = words.APPROVALS[approval.state]
    return {
        "id": approval.id,
        "href": reverse("approval", args=[request.tenant.slug, approval.id]),
        "title": title(action.operation_kind, action.target, arguments(payload_of(action))),
        "goal": sessions[action.session_id].goal,
        "action": action,
        "asked_at": approval.requested_at,
        "decide_by": approval.decide_by if approval.state == "REQUESTED" else None,
        "release_by": approval.release_by if approval.state == "APPROVED" else None,
        "decided_at": approval.decided_at,
        "decision": {"icon": icon, "word": word},
        "standing": "you may vote" if "reviewer" in request.caller.roles else "reviewers vote",
    }
