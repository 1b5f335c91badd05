"""Legal holds, erasure under two persons, and how long what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.accounts.queries import actor_names
from console.accounts.step_up import is_proven, is_recently_authenticated, redirect_to_reauthentication
from console.audit.views import MAY, audit_tabs
from console.edge.http import TenantRequest, in_tenant
from console.people.forms import IdentityProofForm
from console.retention import erasure as erasure_retention
from console.web import labels
from console.web.forms import ErasureForm, HoldForm, ReasonForm, RetentionForm
from console.web.list_page import Column, ListPage, export_address
from console.web.spreadsheets import MOST_EXPORTED
from ledger.people.queries import is_same_person
from ledger.people.rules.confirmation import Answer
from ledger.record.rules.refusals import ProofNeeded
from ledger.retention import queries
from ledger.retention.operations import erasure as operations
from ledger.retention.operations import retention as clocks
from ledger.retention.rules.retention import HoldScope
from ledger.verification.queries import storage

SHOWN = 20
HOLDS_LIST = ListPage(
    "holds",
    columns=(
        Column("scope", "Scope", lambda row: row["word"]),
        Column("value", "Value", lambda row: row["row"].value),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("by", "Placed by", lambda row: row["by"]),
        Column("placed", "Placed", lambda row: row["row"].placed_at),
        Column("lifted", "Lifted", lambda row: row["row"].lifted_at),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(MAY),
)
ERASURES_LIST = ListPage(
    "erasures",
    page="holds",
    columns=(
        Column("state", "State", lambda row: row["word"]),
        Column("basis", "Legal basis", lambda row: row["row"].legal_basis),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("subjects", "Subjects", lambda row: row["row"].subjects),
        Column("erased", "Erased", lambda row: row["row"].erased),
        Column("by", "Requested by", lambda row: row["by"]),
        Column("requested", "Requested", lambda row: row["row"].requested_at),
        Column("second", "Confirmed by", lambda row: row["second"]),
        Column("confirmed", "Confirmed", lambda row: row["row"].confirmed_at),
        Column("ended", "Ended", lambda row: row["row"].ended_at),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=frozenset(MAY),
)


@in_tenant(*MAY)
def page(request: TenantRequest) -> HttpResponse:
    return _page(request)


@in_tenant("compliance")
@require_POST
def place(request: TenantRequest) -> HttpResponse:
    form = HoldForm(request.POST)
    if not form.is_valid():
        return _page(request, hold=form, status=422)
    chosen = form.cleaned_data
    clocks.place_hold(
        tenant_id=request.tenant.id,
        scope=HoldScope(chosen["scope"]),
        value=chosen["value"],
        reason=chosen["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Hold placed.")
    return redirect("holds", request.tenant.slug)


@in_tenant("compliance")
@require_POST
def lift(request: TenantRequest, hold_id: UUID) -> HttpResponse:
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _without_reason(request)
    clocks.lift_hold(
        tenant_id=request.tenant.id,
        hold_id=hold_id,
        reason=form.cleaned_data["reason"],
        by=request.caller.actor,
        at=request.as_of,
    )
    messages.success(request, "Hold lifted.")
    return redirect("holds", request.tenant.slug)


@in_tenant("compliance")
@require_POST
def request_erasure(request: TenantRequest) -> HttpResponse:
    form = ErasureForm(request.POST)
    if not form.is_valid():
        return _page(request, erasure=form, status=422)
    scope = erasure_retention.erasure_scope(request.tenant.id, form.actions())
    wish = operations.ErasureRequest(
        subjects=tuple(scope.subjects),
        legal_basis=form.cleaned_data["legal_basis"],
        reason=form.cleaned_data["reason"],
    )
    operations.request_erasure(tenant_id=request.tenant.id, request=wish, by=request.caller.actor, at=request.as_of)
    stays = f" {len(scope.stays)} that belong to them stay." if scope.stays else ""
    messages.success(
        request, f"Asked for: {len(scope.subjects)} subjects. Another person must confirm the erasure.{stays}"
    )
    return redirect("holds", request.tenant.slug)


@in_tenant("compliance")
@require_POST
def answer_erasure(request: TenantRequest, erasure_id: UUID) -> HttpResponse:
    """Confirm, refuse or withdraw a request."""
    answers = {"confirm": Answer.CONFIRM, "refuse": Answer.DECLINE, "withdraw": Answer.WITHDRAW}
    return _answer(
        request,
        answers,
        partial(operations.answer_erasure, erasure_id=erasure_id),
        "Confirmed. It is erased within seconds unless a hold covers it.",
    )


@in_tenant("compliance")
@require_POST
def propose(request: TenantRequest) -> HttpResponse:
    form = RetentionForm(request.POST)
    if not form.is_valid():
        return _page(request, policy=form, status=422)
    clocks.propose_policy(tenant_id=request.tenant.id, policy=form.policy(), by=request.caller.actor, at=request.as_of)
    messages.success(request, "Proposed. Takes effect after another person confirms it.")
    return redirect("holds", request.tenant.slug)


@in_tenant("compliance")
@require_POST
def answer_policy(request: TenantRequest, retention_id: UUID) -> HttpResponse:
    """Confirm or withdraw a proposed policy."""
    answers = {"confirm": Answer.CONFIRM, "withdraw": Answer.WITHDRAW}
    operation = partial(clocks.answer_policy, retention_id=retention_id)
    return _answer(request, answers, operation, "Confirmed. The policy is in force.")


def _answer(
    request: TenantRequest, answers: Mapping[str, Answer], operation: Callable[..., Any], confirmed: str
) -> HttpResponse:
    answer = answers.get(request.POST.get("to", ""))
    if answer is None:
        raise Http404
    form, proof = ReasonForm(request.POST), IdentityProofForm(request.POST)
    confirms = answer is Answer.CONFIRM
    if not (proof.is_valid() if confirms else form.is_valid()):
        return _without_reason(request)
    try:
        operation(
            tenant_id=request.tenant.id,
            answer=answer,
            reason="" if confirms else form.cleaned_data["reason"],
            by=request.caller.actor,
            is_proven=confirms and is_proven(request, *proof.proof()),
            at=request.as_of,
        )
    except ProofNeeded:
        if any(proof.proof()):
            raise
        # Whoever signs in elsewhere has no password: they show there who they are, and confirm then.
        return redirect_to_reauthentication(request)
    messages.success(request, confirmed if confirms else "Recorded.")
    return redirect("holds", request.tenant.slug)


def _without_reason(request: TenantRequest) -> HttpResponse:
    messages.error(request, "Nothing changed: enter a reason.")
    return redirect("holds", request.tenant.slug)


def _page(
    request: TenantRequest,
    *,
    hold: HoldForm | None = None,
    erasure: ErasureForm | None = None,
    policy: RetentionForm | None = None,
    status: int = 200,
) -> HttpResponse:
    tenant, called = request.tenant.id, actor_names(request.tenant.id)
    context = {
        "here": "audit",
        "tabs": audit_tabs(request, "holds"),
        "holds": [_hold(request, each, called) for each in queries.holds(tenant, limit=SHOWN)],
        "lifted": [_hold(request, each, called) for each in queries.holds(tenant, lifted=True, limit=5)],
        "erasures": [_erasure(request, each, called) for each in queries.erasures(tenant, limit=SHOWN)],
        "policy": queries.policy(tenant),
        "policies": [_policy(request, each, called) for each in queries.retentions(tenant, limit=5)],
        "forms": {
            "hold": hold or HoldForm(),
            "erasure": erasure or ErasureForm(),
            "policy": policy or RetentionForm(initial=queries.policy(tenant).document()),
        },
        "may_change": "compliance" in request.caller.roles,
        "is_fresh": is_recently_authenticated(request),
        "holds_export": export_address(request, HOLDS_LIST),
        "erasures_export": export_address(request, ERASURES_LIST),
    }
    return render(request, "retention/_page.html" if request.htmx else "retention/page.html", context, status=status)


def exported_holds(request: TenantRequest) -> list[dict[str, Any]]:
    """The holds in force, then the lifted ones."""
    tenant, called = request.tenant.id, actor_names(request.tenant.id)
    found = [each for lifted in (False, True) for each in queries.holds(tenant, lifted=lifted, limit=MOST_EXPORTED)]
    return [_hold(request, each, called) for each in found]


def exported_erasures(request: TenantRequest) -> list[dict[str, Any]]:
    """Every request to erase, newest first."""
    called = actor_names(request.tenant.id)
    return [_erasure(request, each, called) for each in queries.erasures(request.tenant.id, limit=MOST_EXPORTED)]


def _hold(request: TenantRequest, row: Any, names: dict[UUID, str]) -> dict[str, Any]:
    slug = request.tenant.slug
    return {
        "row": row,
        "word": labels.HOLD_SCOPES[row.scope],
        "by": names.get(row.placed_by, "somebody"),
        "href": _recording(slug, row.value) if row.scope == HoldScope.RECORDING else "",
        "lift": reverse("hold-lift", args=[slug, row.id]),
        "record": reverse("event", args=[slug, row.id, 1]),
    }


def _recording(slug: str, value: str) -> str:
    return reverse("recording", args=[slug, UUID(value)]) if storage.is_uuid(value) else ""


def _erasure(request: TenantRequest, row: Any, names: dict[UUID, str]) -> dict[str, Any]:
    slug, me = request.tenant.slug, request.caller.actor.id
    waits = row.state == "REQUESTED"
    return {
        "row": row,
        "word": labels.ERASURES.get(row.state, labels.sentence_case(row.state)),
        "icon": _ICONS.get(row.state, "dot"),
        "by": names.get(row.requested_by, "the policy in force"),
        "second": names.get(row.confirmed_by, "") if row.confirmed_by else "",
        "may_confirm": waits and not is_same_person(row.requested_by, me),
        "proof": IdentityProofForm(auto_id=f"id_{row.id}_%s"),
        "may_withdraw": row.state in queries.OPEN and row.begun_at is None,
        "answer": reverse("erasure-answer", args=[slug, row.id]),
        "record": reverse("event", args=[slug, row.id, 1]),
    }


def _policy(request: TenantRequest, row: Any, names: dict[UUID, str]) -> dict[str, Any]:
    slug = request.tenant.slug
    return {
        "row": row,
        "word": labels.sentence_case(row.state),
        "by": names.get(row.proposed_by, "somebody"),
        "second": names.get(row.confirmed_by, "") if row.confirmed_by else "",
        "waits": row.state == "PROPOSED",
        "may_confirm": row.state == "PROPOSED" and not is_same_person(row.proposed_by, request.caller.actor.id),
        "proof": IdentityProofForm(auto_id=f"id_{row.id}_%s"),
        "answer": reverse("retention-answer", args=[slug, row.id]),
        "record": reverse("event", args=[slug, row.id, 1]),
    }


_ICONS = {"REQUESTED": "clock", "CONFIRMED": "clock", "DONE": "tick", "REFUSED": "cross", "WITHDRAWN": "minus"}
