"""Imported recordings: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from console.accounts.queries import actor_names
from console.edge.http import TenantRequest
from console.recordings import context, queries, schemas
from console.recordings.forms import RecordingFilter
from console.web.list_page import Column, FilterNotValid, GetRoute, ListPage, sortable
from ledger.retention import queries as retention_queries
from ledger.retention.rules.retention import retention_cutoff

if TYPE_CHECKING:
    from console.models import Recording

API_READERS: Final = ("oper", "audit", "person")


def _filters(request: TenantRequest) -> dict[str, Any]:
    form = RecordingFilter(request.GET)
    if not form.is_valid():
        raise FilterNotValid
    return {"sought": form.wanted()}


def _rows(request: TenantRequest, found: Sequence[Recording]) -> list[dict[str, Any]]:
    names = actor_names(request.tenant.id)
    run_out = retention_cutoff(retention_queries.policy(request.tenant.id), at=request.as_of)
    return [context.import_row(request.tenant.slug, each, names, run_out=run_out) for each in found]


RECORDINGS: Final = ListPage(
    "recordings",
    tuple(RecordingFilter.base_fields),
    "file_name",
    (
        sortable("file_name", "File", lambda row: row["row"].file_name or "Erased"),
        sortable("conversations", "Conversations", lambda row: row["row"].conversations, "num"),
        sortable("messages", "Messages", lambda row: row["row"].messages, "num"),
        sortable("calls", "Calls", lambda row: row["row"].calls, "num"),
        sortable("with_findings", "With findings", lambda row: row["row"].with_findings, "num"),
        sortable("false_claims", "Unsupported claims", lambda row: row["row"].false_claims, "num"),
        Column("named", "Imported by", lambda row: row["named"]),
        sortable("at", "Imported", lambda row: row["row"].at, "num"),
        Column("faults", "Not read", lambda row: row["row"].faults, "num", is_usual=False),
        Column("id", "Id", lambda row: row["row"].id, is_usual=False),
    ),
    place="before",
    query=queries.recordings,
    rows_of=_rows,
    filters=_filters,
    get=GetRoute(
        path="/recordings",
        operation="list_recordings",
        summary="Imported recordings of conversations, newest first",
        answer=schemas.RecordingRow,
        wanted=schemas.RecordingsWanted,
        readers=API_READERS,
    ),
)
