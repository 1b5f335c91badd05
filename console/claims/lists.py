"""Claims: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.http import Http404
from django.urls import reverse

from console.claims import schemas
from console.claims.answers import claim_row
from console.edge.http import TenantRequest
from console.web.list_page import Column, GetRoute, ListPage
from ledger.record.rules.outcomes import WORDS
from reviews.claims import queries
from reviews.claims.rules.claims import MISMATCHES, ClaimState

if TYPE_CHECKING:
    from reviews.models import UngatedClaim

RECENT: Final = timedelta(days=7)
STATES: Final = {
    "": "All",
    ClaimState.VERIFIED: "Verified",
    ClaimState.DIFFERENT: "Something else is there",
    ClaimState.ABSENT: "Nothing is there",
    ClaimState.UNKNOWN: "Not known",
    ClaimState.OPEN: "Being read",
}


def _filters(request: TenantRequest) -> dict[str, Any]:
    state = request.GET.get("state", "")
    if state not in STATES:
        raise Http404
    return {"state": state or None}


def _rows(request: TenantRequest, found: Sequence[UngatedClaim]) -> list[dict[str, Any]]:
    return [
        {
            "row": each,
            "told": claim_row(each),
            "title": f"{each.effect.replace('_', ' ')} {each.target or each.operation}".strip(),
            "word": WORDS[claim_row(each).outcome],
            "href": reverse("claim", args=[request.tenant.slug, each.id]),
        }
        for each in found
    ]


def count_recent_claims(request: TenantRequest) -> dict[str, Any]:
    """Count the claims of the last week, those that are verified and those that do not match."""
    counted = queries.count_claims(request.tenant.id, since=request.as_of - RECENT)
    return {
        "href": reverse("claims", args=[request.tenant.slug]),
        "total": sum(counted.values()),
        "verified": counted.get(ClaimState.VERIFIED, 0),
        "mismatched": sum(counted.get(each, 0) for each in MISMATCHES),
    }


CLAIMS: Final = ListPage(
    "claims",
    fields=("state",),
    columns=(
        Column("claim", "Claim", lambda row: row["title"]),
        Column("outcome", "Outcome", lambda row: row["word"]),
        Column("safe", "Safe to claim", lambda row: "yes" if row["told"].safe_to_claim else "no"),
        Column("system", "System", lambda row: row["row"].system),
        Column("said_by", "Said by", lambda row: row["row"].said_by),
        Column("made", "Claimed", lambda row: row["row"].made_at),
        Column("read", "Read", lambda row: row["row"].read_at),
        Column("id", "Id", lambda row: row["row"].id, "roomy"),
    ),
    query=queries.claims,
    rows_of=_rows,
    filters=_filters,
    get=GetRoute(
        path="/claims",
        operation="list_claims",
        summary="Claims of what was done outside of the gate, newest first",
        answer=schemas.ClaimRow,
        wanted=schemas.ClaimsWanted,
        readers=("oper", "audit", "person"),
        told=lambda tenant_id, rows, at: claim_row,
    ),
)
