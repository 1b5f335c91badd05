"""Freezes: on the page, as CSV and in the API, which tells those in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from console.accounts.queries import actor_names
from console.edge.http import TenantRequest
from console.freezes import schemas
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage, sortable
from ledger.actions.queries import freezes
from ledger.record.queries import events

if TYPE_CHECKING:
    from ledger.models import Freeze


def _rows(request: TenantRequest, found: Sequence[Freeze]) -> list[dict[str, Any]]:
    names, told = actor_names(request.tenant.id), events.histories(request.tenant.id, [each.id for each in found])
    return [_who_and_why(each, told[each.id], names) for each in found]


def _who_and_why(freeze: Freeze, history: list[Any], names: dict[UUID, str]) -> dict[str, Any]:
    by = {event.kind: (names.get(event.actor_id, event.actor_kind), detail or {}) for event, _, detail in history}
    lifted_by, lifted = by.get("freeze_lifted", ("", {}))
    return {
        "freeze": freeze,
        "placed_by": by.get("freeze_placed", ("", {}))[0],
        "lifted_by": lifted_by,
        "lifted_because": lifted.get("reason", ""),
    }


FREEZES: Final = ListPage(
    "freezes",
    columns=(
        sortable("scope", "Scope", lambda row: labels.sentence_case(row["freeze"].scope)),
        sortable("value", "Value", lambda row: row["freeze"].value or "everything"),
        Column("reason", "Reason", lambda row: row["freeze"].reason),
        sortable("placed_at", "Placed", lambda row: row["freeze"].placed_at),
        Column("placed_by", "Placed by", lambda row: row["placed_by"]),
        Column("lifted", "Lifted", lambda row: row["freeze"].lifted_at),
        Column("lifted_by", "Lifted by", lambda row: row["lifted_by"]),
        Column("lifted_because", "Reason for lifting", lambda row: row["lifted_because"]),
        Column("id", "Id", lambda row: row["freeze"].id),
    ),
    query=freezes.freezes,
    rows_of=_rows,
    parts=({"lifted": False}, {"lifted": True}),
    get=GetRoute(
        path="/freezes",
        operation="list_freezes",
        operation_id="approvals_list_freezes",
        summary="The freezes in force",
        answer=schemas.Freeze,
        readers=("person", "oper"),
    ),
)
