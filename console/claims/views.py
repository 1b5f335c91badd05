"""Claims: what was done outside of the gate, as somebody says, and what readings show of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from approvals.requests.rules import rendering
from console.accounts.queries import actor_names
from console.actions.action_record import event_rows
from console.actions.erased_pages import erased_page
from console.claims import verbs
from console.claims.answers import NOT_KNOWN, claim_answer
from console.claims.lists import CLAIMS, STATES, count_recent_claims
from console.claims.receipts import claim_receipt
from console.edge.http import TenantRequest, in_tenant, record_page_view
from console.edge.transaction import json_response
from console.verbs.verb import page_of
from ledger.record.queries import events
from reviews.claims import queries

if TYPE_CHECKING:
    from reviews.models import UngatedClaim

PAGE = 50


@in_tenant()
def list_claims(request: TenantRequest) -> HttpResponse:
    found, frame = CLAIMS.read_page(request, PAGE)
    state = request.GET.get("state", "")
    context = {
        "here": "actions",
        "tabs": [
            {"href": f"{request.path}?state={key}" if key else request.path, "word": word, "current": key == state}
            for key, word in STATES.items()
        ],
        "claims": CLAIMS.rows_of(request, found),
        "recent": count_recent_claims(request),
        "empty": "No claim" if state else "Nothing was claimed yet",
        **frame,
    }
    return render(request, "claims/_list.html" if request.htmx else "claims/list.html", context)


@in_tenant()
def claim(request: TenantRequest, claim_id: UUID) -> HttpResponse:
    row = _get_or_404(request, claim_id)
    record_page_view(request, "claim", row.id)
    if gone := erased_page(request, "claim", row.id):
        return gone
    document, told = queries.claim_document(row), claim_answer(row)
    context = {
        "here": "actions",
        "claims_href": reverse("claims", args=[request.tenant.slug]),
        "row": row,
        "told": told,
        "title": f"{row.effect.replace('_', ' ').capitalize()} {row.target or row.operation}".strip(),
        "statement": document.get("statement", ""),
        "made_by": actor_names(request.tenant.id).get(row.made_by, ""),
        "fields": [_field(each.model_dump()) for each in told.reading.fields] if told.reading is not None else [],
        "not_known": NOT_KNOWN,
        "timeline": event_rows(events.history(request.tenant.id, row.id), actor_names(request.tenant.id)),
        "may_read": "operator" in request.caller.roles,
        "case_href": reverse("case", args=[request.tenant.slug, row.case_id]) if row.case_id else "",
    }
    return render(request, "claims/_detail.html" if request.htmx else "claims/detail.html", context)


def _field(compared: dict[str, Any]) -> dict[str, Any]:
    """One expected field with both values in words."""
    shown = {part: _in_words(compared["name"], compared[part]) for part in ("expected", "shown")}
    return {**compared, **shown, "is_shown": compared["shown"] is not None}


def _in_words(name: str, value: object) -> str:
    if value is None:
        return "not shown"
    return next((each.display for each in rendering.render_payload({name: value})), str(value))


@in_tenant()
def download_receipt(request: TenantRequest, claim_id: UUID) -> HttpResponse:
    """The claim's receipt, from its page."""
    row = _get_or_404(request, claim_id)
    record_page_view(request, "claim", row.id)
    if gone := erased_page(request, "claim", row.id):
        return gone
    answer = json_response(claim_receipt(row, at=request.as_of))
    answer["Content-Disposition"] = f'attachment; filename="claim-receipt-{row.id}.json"'
    return answer


def _get_or_404(request: TenantRequest, claim_id: UUID) -> UngatedClaim:
    row = queries.claim(request.tenant.id, claim_id)
    if row is None:
        raise Http404
    return row


read_again = page_of(
    verbs.READ_AGAIN, home=lambda request, ids, _: reverse("claim", args=[request.tenant.slug, ids["claim_id"]])
)
