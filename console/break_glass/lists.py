"""Uses of break-glass: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from approvals.voting.queries import approvers
from console.accounts.queries import actor_names
from console.break_glass import schemas
from console.edge.http import TenantRequest
from console.web.list_page import Column, GetRoute, ListPage
from ledger.actions.queries import actions as actions_queries
from ledger.catalogue.rules.targets import target_text

if TYPE_CHECKING:
    from approvals.models import BreakGlassUse

FOUND: Final = {"justified": "justified", "not_justified": "not justified"}


def _rows(request: TenantRequest, found: Sequence[BreakGlassUse]) -> list[dict[str, Any]]:
    names = actor_names(request.tenant.id)
    actions = actions_queries.actions_by_id(request.tenant.id, [each.action_id for each in found])
    return [
        {
            "row": used,
            "action": actions.get(used.action_id),
            "by": names.get(used.used_by, "an operator"),
            "reviews": [
                {
                    "by": names.get(UUID(each["actor"]), "somebody"),
                    "found": FOUND[each["finding"]],
                    "reason": each["reason"],
                }
                for each in used.reviews
            ],
        }
        for used in found
    ]


BREAK_GLASS: Final = ListPage(
    "emergencies",
    columns=(
        Column("action", "Action", lambda row: f"{row['action'].tool} on {target_text(row['action'].target)}"),
        Column("used_by", "Used by", lambda row: row["by"]),
        Column("used", "Used", lambda row: row["row"].used_at),
        Column("why", "Why", lambda row: row["row"].reason),
        Column("due", "Review due", lambda row: row["row"].review_by),
        Column("reviewed", "Reviewed", lambda row: row["row"].reviewed_at),
        Column(
            "reviews", "Reviews", lambda row: "; ".join(f"{each['by']}: {each['found']}" for each in row["reviews"])
        ),
        Column("action_id", "Action id", lambda row: row["row"].action_id),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    query=approvers.break_glass_uses,
    rows_of=_rows,
    parts=({"reviewed": False}, {"reviewed": True}),
    get=GetRoute(
        path="/emergencies",
        operation="list_emergencies",
        summary="Uses of break-glass, the most urgent review first",
        answer=schemas.Emergency,
        wanted=schemas.EmergenciesWanted,
        readers=("person", "oper", "audit"),
    ),
)
