"""Standing approvals: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse

from approvals.standing import queries
from approvals.standing.rules import shapes
from console.accounts.queries import actor_names
from console.edge.http import TenantRequest
from console.standing_approvals import context, schemas
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage, sortable
from ledger.catalogue.rules.money import to_decimal

if TYPE_CHECKING:
    from approvals.models import StandingApproval

GONE: Final = ("ENDED", "DECLINED")


def _rows(request: TenantRequest, found: Sequence[StandingApproval]) -> list[dict[str, Any]]:
    names = actor_names(request.tenant.id)
    return [
        {
            "row": row,
            "decision": dict(zip(("icon", "word"), labels.STANDING_APPROVALS[row.state], strict=True)),
            "calls": context.calls_sentence(shapes.read_shape(row.shape)),
            "used": context.used_sentence(row),
            "stopped": context.stop_sentence(row),
            "ends_on": context.end_text(row),
            "kind": "Time-boxed pass" if row.is_time_boxed else "Standing approval",
            "revoke": context.revocation_address(request, row),
            "by": names.get(row.proposed_by, "somebody"),
            "second": names.get(row.answered_by, "somebody") if row.answered_by else "",
            "href": reverse("standing-approval", args=[request.tenant.slug, row.id]),
        }
        for row in found
    ]


def _amount(row: StandingApproval, minor: int | None) -> Decimal | None:
    return to_decimal(minor, row.currency)


STANDING_APPROVALS: Final = ListPage(
    "standing",
    page="standing-approvals",
    columns=(
        Column("calls", "Calls", lambda row: row["calls"]),
        sortable("tool", "Tool", lambda row: row["row"].tool),
        sortable("agent", "Agent", lambda row: row["row"].agent),
        sortable("state", "State", lambda row: row["decision"]["word"]),
        sortable("used_count", "Passed", lambda row: row["row"].used_count),
        Column("most", "Most", lambda row: row["row"].max_count),
        Column("used", "Amount passed", lambda row: _amount(row["row"], row["row"].used_minor)),
        Column("max", "Most, amount", lambda row: _amount(row["row"], row["row"].max_minor)),
        Column("currency", "Currency", lambda row: row["row"].currency),
        Column("by", "Proposed by", lambda row: row["by"]),
        sortable("proposed_at", "Proposed", lambda row: row["row"].proposed_at),
        Column("kind", "Kind", lambda row: row["kind"]),
        Column("second", "Decided by", lambda row: row["second"]),
        sortable("ends_at", "Ends", lambda row: row["row"].ends_at),
        Column("stopped", "Why it does not apply", lambda row: row["stopped"]),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    query=queries.standing_approvals,
    rows_of=_rows,
    parts=({"states": queries.LIVE}, {"states": GONE}),
    get=GetRoute(
        path="/standing-approvals",
        operation="list_standing_approvals",
        summary="Standing approvals, newest first",
        answer=schemas.StandingApproval,
        wanted=schemas.StandingApprovalsWanted,
        readers=("person", "audit"),
    ),
)
