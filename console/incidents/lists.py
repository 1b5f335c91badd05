"""Incidents: on the page, as CSV and in the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from django.http import Http404
from django.urls import reverse

from console.edge.http import TenantRequest
from console.incidents import schemas
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage, sortable
from ledger.actions.queries import freezes
from reviews import queries
from reviews.cases.rules.runbooks import tag_of

if TYPE_CHECKING:
    from reviews.models import Incident

TABS: Final = {"": ("Open", "No open incident"), "closed": ("Closed", "No closed incident")}


def _filters(request: TenantRequest) -> dict[str, Any]:
    tab = request.GET.get("tab", "")
    if tab not in TABS:
        raise Http404
    return {"state": "CLOSED" if tab else "OPEN", "tag": request.GET.get("tag", "")}


def _rows(request: TenantRequest, found: Sequence[Incident]) -> list[dict[str, Any]]:
    links = queries.links_by_incident(request.tenant.id, [each.id for each in found])
    frozen = {each.id for each in freezes.freezes_in_force(request.tenant.id)}
    return [
        {
            "row": each,
            "href": reverse("incident", args=[request.tenant.slug, each.id]),
            "severity": labels.SEVERITIES[each.severity],
            "tag": tag_of(each.runbook, each.about).replace("_", " ").capitalize(),
            "counts": Counter(link.kind for link in links[each.id]),
            "freezes": sum(link.kind == "freeze" and link.subject_id in frozen for link in links[each.id]),
        }
        for each in found
    ]


INCIDENTS: Final = ListPage(
    "incidents",
    ("tab", "tag"),
    "title",
    (
        sortable("severity", "Severity", lambda row: row["severity"]),
        sortable("title", "Incident", lambda row: row["row"].title),
        Column("category", "Category", lambda row: row["tag"], is_usual=False),
        sortable("kind", "Kind", lambda row: row["row"].kind.capitalize()),
        Column(
            "affected",
            "Affected",
            lambda row: f"{row['counts']['action']} actions, {row['counts']['case']} cases",
        ),
        Column("freezes", "Freezes", lambda row: row["freezes"]),
        sortable("opened_at", "Opened", lambda row: row["row"].opened_at, "num"),
        Column("state", "State", lambda row: row["row"].state.capitalize(), is_usual=False),
        Column("closed", "Closed", lambda row: row["row"].closed_at, is_usual=False),
        Column("id", "Id", lambda row: row["row"].id, is_usual=False),
    ),
    query=queries.incidents,
    rows_of=_rows,
    filters=_filters,
    get=GetRoute(
        path="/incidents",
        operation="list_incidents",
        summary="Incidents: open ones, most severe first, or closed ones",
        answer=schemas.IncidentRow,
        wanted=schemas.IncidentsWanted,
        readers=("person", "oper"),
    ),
)
