"""Releases: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse

from console.accounts.queries import actor_names
from console.edge.http import TenantRequest
from console.releases import schemas
from console.releases.release_sentences import STATE_NAMES, release_name
from console.web.list_page import Column, GetRoute, ListPage, sortable
from ledger.catalogue import queries

if TYPE_CHECKING:
    from ledger.models import Release

DRAFTERS: Final = ("oper", "operator", "administrator")


def _rows(request: TenantRequest, found: Sequence[Release]) -> list[dict[str, Any]]:
    names = actor_names(request.tenant.id)
    return [
        {
            "row": row,
            "name": release_name(row.kind, row.tool),
            "state": STATE_NAMES[row.state],
            "author": names.get(row.author, "somebody"),
            "href": reverse("release", args=[request.tenant.slug, row.id]),
        }
        for row in found
    ]


RELEASES: Final = ListPage(
    "releases",
    columns=(
        sortable("kind", "Change", lambda row: row["name"]),
        Column("version", "Version", lambda row: row["row"].version),
        sortable("state", "State", lambda row: row["state"]),
        Column("author", "Author", lambda row: row["author"]),
        Column("reason", "Reason", lambda row: row["row"].reason),
        sortable("created_at", "Created", lambda row: row["row"].created_at),
        sortable("changed_at", "Changed", lambda row: row["row"].changed_at),
        Column("digest", "Digest", lambda row: row["row"].digest),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    query=queries.releases,
    rows_of=_rows,
    get=GetRoute(
        path="/releases",
        operation="list_releases",
        summary="Releases, newest first",
        answer=schemas.ReleaseSummary,
        readers=(*DRAFTERS, "audit", "person"),
    ),
)
