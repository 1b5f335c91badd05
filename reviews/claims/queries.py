"""Reads claims. Every one runs inside `tenancy`."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count

from ledger.db import fetch_one, select
from ledger.record.queries import evidence
from ledger.record.rules.encryption import CannotOpen
from reviews.models import UngatedClaim


def claim(tenant_id: UUID, claim_id: UUID) -> UngatedClaim | None:
    return fetch_one(UngatedClaim, "tenant_id = $1 AND id = $2", tenant_id, claim_id)


def claims_by_id(tenant_id: UUID, ids: list[UUID]) -> list[UngatedClaim]:
    return select(UngatedClaim, "tenant_id = $1 AND id = ANY($2)", tenant_id, ids)


def claims(
    tenant_id: UUID,
    *,
    state: str | None = None,
    made_by: UUID | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> list[UngatedClaim]:
    """Claims, newest first, in one state and of one maker if these are given."""
    found = UngatedClaim.objects.filter(tenant_id=tenant_id)
    if state is not None:
        found = found.filter(state=state)
    if made_by is not None:
        found = found.filter(made_by=made_by)
    if after is not None:
        found = found.filter(id__lt=after)
    return list(found.order_by("-id")[:limit])


def claim_of_case(tenant_id: UUID, case_id: UUID) -> UngatedClaim | None:
    """The claim that a case is about."""
    return fetch_one(UngatedClaim, "tenant_id = $1 AND case_id = $2", tenant_id, case_id)


def open_claims(tenant_id: UUID) -> list[UUID]:
    """The claims that nothing has settled."""
    return list(UngatedClaim.objects.filter(tenant_id=tenant_id, state="OPEN").values_list("id", flat=True))


def count_claims(tenant_id: UUID, *, since: datetime) -> dict[str, int]:
    """The number of claims made since then, by state."""
    found = UngatedClaim.objects.filter(tenant_id=tenant_id, made_at__gte=since)
    return dict(found.values_list("state").annotate(Count("id")))


def claim_document(row: UngatedClaim) -> dict[str, Any]:
    """The whole of what was claimed; empty where it was erased."""
    return _open_document(row, row.document)


def claim_findings(row: UngatedClaim) -> dict[str, Any]:
    """The newest reading on record and what it was judged to show; empty before the first, or where it was erased."""
    return _open_document(row, row.pointer) if row.pointer is not None else {}


def _open_document(row: UngatedClaim, pointer: UUID) -> dict[str, Any]:
    try:
        data = evidence.open_evidence(row.tenant_id, pointer)
    except CannotOpen:
        data = None
    found: dict[str, Any] = orjson.loads(data) if data is not None else {}
    return found
