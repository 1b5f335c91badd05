"""Exports: on the page, as CSV and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from console.accounts.queries import actor_names
from console.edge.http import TenantRequest
from console.exports import schemas
from console.notifications.messages import format_moment
from console.web import labels
from console.web.list_page import Column, GetRoute, ListPage, sortable
from ledger.exports import queries
from ledger.exports.rules.export_requests import bound_time

if TYPE_CHECKING:
    from ledger.models import Export

PAGE_READERS: Final = frozenset({"compliance", "administrator"})
API_READERS: Final = ("audit", "compliance")
FORMATS: Final = {"jsonl": "JSON lines", "csv": "JSON lines and CSV", "parquet": "JSON lines and Parquet"}


def _rows(request: TenantRequest, found: Sequence[Export]) -> list[dict[str, Any]]:
    names = actor_names(request.tenant.id)
    return [
        {"row": each, "by": names.get(each.requested_by, "somebody"), "asked": _contents_text(each.wanted)}
        for each in found
    ]


def _contents_text(wanted: dict[str, Any]) -> str:
    """The contents of an export, in one line."""
    said = [
        f"{labels.sentence_case(name).lower()} {value}" for name, value in sorted(wanted.get("filters", {}).items())
    ]
    if wanted.get("from") is not None:
        said.append(f"from {_bound_text(wanted['from'])}")
    if wanted.get("to") is not None:
        said.append(f"until {_bound_text(wanted['to'])}")
    what = ", ".join(said) if said else "everything"
    with_what = "with payloads and evidence" if wanted.get("payloads") else "without payloads and evidence"
    return f"{what}; {with_what}; {FORMATS[wanted.get('format', 'jsonl')]}"


def _bound_text(value: object) -> str:
    """A bound of an export: an index of the log, or a time."""
    at = bound_time(value)
    return f"entry {value}" if at is None else format_moment(at)


EXPORTS: Final = ListPage(
    "exports",
    columns=(
        sortable("state", "State", lambda row: labels.EXPORTS.get(row["row"].state, row["row"].state)),
        Column("asked", "Content", lambda row: row["asked"]),
        Column("by", "Requested by", lambda row: row["by"]),
        sortable("requested_at", "Requested", lambda row: row["row"].requested_at),
        Column("finished", "Finished", lambda row: row["row"].finished_at),
        Column("expires", "Expires", lambda row: row["row"].expires_at),
        Column("log", "Log", lambda row: row["row"].log or ""),
        Column("start", "First entry", lambda row: row["row"].start if row["row"].log else ""),
        Column("end", "End", lambda row: row["row"].end if row["row"].log else ""),
        Column("withheld", "Withheld", lambda row: row["row"].withheld),
        Column("size", "Size, bytes", lambda row: row["row"].size),
        Column("sha256", "SHA-256", lambda row: row["row"].sha256),
        Column("reason", "Reason", lambda row: row["row"].reason),
        Column("id", "Id", lambda row: row["row"].id),
    ),
    roles=PAGE_READERS,
    query=queries.exports,
    rows_of=_rows,
    get=GetRoute(
        path="/exports",
        operation="list_exports",
        summary="Exports, newest first",
        answer=schemas.Export,
        readers=API_READERS,
    ),
)
