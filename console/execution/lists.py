"""Executors: on the page and as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse

from approvals.execution import queries
from console.accounts import queries as directory
from console.edge.http import TenantRequest
from console.web.list_page import Column, ListPage, sortable

if TYPE_CHECKING:
    from approvals.models import Executor
    from console.models import ApiKey


def _rows(request: TenantRequest, found: Sequence[Executor]) -> list[dict[str, Any]]:
    tenant, work = request.tenant, queries.executor_work(request.tenant.id)
    keys = {key.actor_id: key for key in directory.api_keys(tenant.id)}
    return [
        {"row": each, "href": reverse("executor", args=[tenant.slug, each.executor_id])} | _last_sign(each, keys, work)
        for each in found
    ]


def _last_sign(row: Executor, keys: dict[Any, ApiKey], work: dict[str, Any]) -> dict[str, Any]:
    """The last sign of an executor: a claim, or the use of its own API key."""
    key, (claimed_at, running) = keys.get(row.key_actor), work.get(row.executor_id, (None, 0))
    heard = [at for at in (claimed_at, key.last_used_at if key else None) if at is not None]
    return {"key": key, "running": running, "claimed_at": claimed_at, "seen_at": max(heard, default=None)}


EXECUTORS: Final = ListPage(
    "executors",
    columns=(
        sortable("executor", "Executor", lambda row: row["row"].executor_id),
        sortable("seen", "Last seen", lambda row: row["seen_at"]),
        sortable("running", "Running", lambda row: row["running"], "num"),
        Column("tools", "May start", lambda row: row["row"].tools),
        sortable("key", "API key", lambda row: row["key"].name if row["key"] else ""),
        Column("registered", "Registered", lambda row: row["row"].registered_at, is_usual=False),
        Column("revoked", "Revoked", lambda row: row["row"].revoked_at, is_usual=False),
        Column("id", "Id", lambda row: row["row"].id, is_usual=False),
    ),
    query=queries.executors,
    rows_of=_rows,
)
