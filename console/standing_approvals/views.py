"""The pages of standing approvals: offers with their evidence, those in force, and the actions that passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.standing import queries
from approvals.standing.operations import agreement, offers
from approvals.standing.operations.offers import StandingOffer
from approvals.standing.rules import shapes, standing
from console.edge.http import TenantRequest, in_tenant, undo_if_refused
from console.standing_approvals import context, verbs
from console.standing_approvals.forms import StandingProposalForm
from console.standing_approvals.lists import GONE, STANDING_APPROVALS
from console.verbs.form import BodyForm
from console.verbs.verb import Ids, page_of
from console.web.labels import action_title
from ledger.actions.queries import actions as actions_queries
from ledger.people.queries import is_same_person
from ledger.record.rules.refusals import NotFound, Refused

if TYPE_CHECKING:
    from approvals.models import StandingApproval

SHOWN = 50


@in_tenant()
def list_page(request: TenantRequest) -> HttpResponse:
    return _list(request)


@in_tenant()
def page(request: TenantRequest, standing_approval_id: UUID) -> HttpResponse:
    return _detail(request, standing_approval_id)


@in_tenant("reviewer")
@require_POST
def propose(request: TenantRequest) -> HttpResponse:
    offered = offers.standing_offers(request.tenant.id, at=request.as_of)
    offer = next((each for each in offered if each.shape.digest == request.POST.get("shape_digest")), None)
    form = StandingProposalForm(request.POST, offer=offer)
    if not form.is_valid():
        return _list(request, form=form, status=422)
    try:
        row = _propose(request, form)
    except NotFound:
        raise
    except Refused as refusal:
        form.show_refusal(refusal)
        return _list(request, form=form, status=refusal.status)
    messages.success(request, "Proposed. Another person must agree before it takes effect.")
    return redirect("standing-approval", request.tenant.slug, row.id)


def _propose(request: TenantRequest, form: StandingProposalForm) -> StandingApproval:
    with undo_if_refused(request):
        return agreement.propose(
            tenant_id=request.tenant.id,
            shape_digest=form.cleaned_data["shape_digest"],
            budget=form.budget(),
            reason=form.cleaned_data["reason"],
            evidence_class=verbs.proof_of_word(request, *form.proof()),
            by=request.caller.actor,
            at=request.as_of,
        )


def _list(request: TenantRequest, *, form: StandingProposalForm | None = None, status: int = 200) -> HttpResponse:
    tenant_id = request.tenant.id
    offered = offers.standing_offers(tenant_id, at=request.as_of)
    titles = _titles(request, (action_id for each in offered for action_id in each.evidence))
    about = form.data.get("shape_digest") if form is not None else ""
    gone, frame = STANDING_APPROVALS.read_page(request, SHOWN, states=GONE)
    shown = {
        "here": "approvals",
        "approvals_href": reverse("approvals", args=[request.tenant.slug]),
        "offers": [_offer(request, each, form if each.shape.digest == about else None, titles) for each in offered],
        "lost": form if form is not None and about not in {each.shape.digest for each in offered} else None,
        "live": STANDING_APPROVALS.rows(request),
        "gone": STANDING_APPROVALS.rows_of(request, gone),
        **frame,
        "has_policy": bool(offered) or offers.standing_policy(tenant_id) is not None,
        "policy_href": reverse("policies", args=[request.tenant.slug]),
        "may_propose": "reviewer" in request.caller.roles,
    }
    name = "standing_approvals/_list.html" if request.htmx else "standing_approvals/list.html"
    return render(request, name, shown, status=status)


def _titles(request: TenantRequest, action_ids: Iterable[UUID | str]) -> dict[UUID, str]:
    wanted = [UUID(str(each)) for each in action_ids]
    found = actions_queries.actions_by_id(request.tenant.id, wanted)
    return {
        each: action_title(found[each].operation_kind, found[each].target) if each in found else str(each)
        for each in wanted
    }


def _offer(
    request: TenantRequest, offer: StandingOffer, form: StandingProposalForm | None, titles: Mapping[UUID, str]
) -> dict[str, Any]:
    count = min(offer.policy.most_passes, len(offer.evidence))
    start = {
        "count": count,
        "ends_on": (request.as_of + timedelta(days=min(7, offer.policy.most_days) - 1)).date(),
        "shape_digest": offer.shape.digest,
    }
    return {
        "row": offer,
        "said": context.offer_sentence(offer),
        "calls": context.calls_sentence(offer.shape),
        "evidence": [_action_link(request, each) | {"title": titles[UUID(str(each))]} for each in offer.evidence],
        "form": form or StandingProposalForm(initial=start, offer=offer, auto_id=f"id_{offer.shape.digest[:8]}_%s"),
    }


def _action_link(request: TenantRequest, action_id: UUID | str) -> dict[str, str]:
    return {"id": str(action_id), "href": reverse("action", args=[request.tenant.slug, action_id])}


def _detail(
    request: TenantRequest,
    /,
    standing_approval_id: UUID,
    *,
    forms: Mapping[str, BodyForm] = MappingProxyType({}),
    status: int = 200,
) -> HttpResponse:
    tenant_id, slug = request.tenant.id, request.tenant.slug
    row = queries.standing_approval(tenant_id, standing_approval_id)
    if row is None:
        raise Http404
    again = forms.get("resume") or verbs.RESUME.form(auto_id="id_again_%s")
    again.order_fields(("password", "otp"))
    passed, titles = queries.passes(tenant_id, row.id), _titles(request, row.evidence)
    found = actions_queries.actions_by_id(tenant_id, [each.action_id for each in passed])
    reviewer, me = "reviewer" in request.caller.roles, request.caller.actor.id
    (shown,) = STANDING_APPROVALS.rows_of(request, [row])
    shown |= {
        "said": context.earned_sentence(row),
        "here": "approvals",
        "list_href": reverse("standing-approvals", args=[slug]),
        "evidence": [_action_link(request, each) | {"title": titles[UUID(str(each))]} for each in row.evidence],
        "passes": [
            {"row": each, "action": found.get(each.action_id), **_action_link(request, each.action_id)}
            for each in passed
        ],
        "after": context.after_pause(row),
        "about": _action_link(request, row.pause_action) if row.pause_action else None,
        "case": reverse("case", args=[slug, row.case_id]) if row.case_id else "",
        "record": reverse("event", args=[slug, row.id, 1]),
        "bounds": shapes.describe_bounds(shapes.read_shape(row.shape)),
        "may_answer": reviewer and row.state == "PROPOSED" and not is_same_person(tenant_id, row.proposed_by, me),
        "may_resume": not row.is_time_boxed
        and reviewer
        and row.state == "PAUSED"
        and row.pause_reason in standing.RESUMABLE,
        "may_pause": row.state == "ACTIVE" and bool({"reviewer", "operator"} & request.caller.roles),
        "may_end": row.state in queries.LIVE and bool({"reviewer", "operator"} & request.caller.roles),
        "word": forms.get("answer") or verbs.ANSWER.form(),
        "again": again,
        "stop": forms.get("pause") or forms.get("end") or verbs.END.form(auto_id="id_stop_%s"),
    }
    name = "standing_approvals/_detail.html" if request.htmx else "standing_approvals/detail.html"
    return render(request, name, shown, status=status)


def _home(request: TenantRequest, ids: Ids, result: Any) -> str:
    return reverse("standing-approval", args=[request.tenant.slug, ids["standing_approval_id"]])


answer = page_of(verbs.ANSWER, home=_home, render=_detail, keeps=True)
resume = page_of(verbs.RESUME, home=_home, render=_detail, keeps=True)
revoke = page_of(verbs.REVOKE, home=_home)
stop = page_of({"pause": verbs.PAUSE, "end": verbs.END}, home=_home, render=_detail)
