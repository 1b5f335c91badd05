"""Reads of notices."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from console.models import Notice


def about(tenant_id: UUID, alarms: Iterable[UUID]) -> dict[UUID, list[Notice]]:
    """How people outside were told of these alarms."""
    found: dict[UUID, list[Notice]] = {}
    for row in Notice.objects.filter(tenant_id=tenant_id, about_id__in=list(alarms)).order_by("channel"):
        found.setdefault(row.about_id, []).append(row)
    return found
