"""The position up to which the spans of a tenant were exported to the collector."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from console.models import TraceCursor
from ledger.log.queries import log as logs


def current_place(*, tenant_id: UUID, at: datetime) -> TraceCursor:
    """Return the position of the tenant's export; the first time, the end of its log: earlier events are not sent."""
    here = TraceCursor.objects.filter(tenant_id=tenant_id).first()
    if here is not None:
        return here
    head = logs.current_log(tenant_id)
    place = {"log": head.number if head else 0, "index": head.size - 1 if head else -1}
    return TraceCursor.objects.get_or_create(tenant_id=tenant_id, defaults={**place, "reports_to": at})[0]


def advance_place(here: TraceCursor, *, log: int, index: int, reports_to: datetime) -> None:
    """Advance the position, unless another worker has sent the same spans already."""
    still = TraceCursor.objects.filter(tenant_id=here.tenant_id, log=here.log, index=here.index)
    still.update(log=log, index=index, reports_to=reports_to)
