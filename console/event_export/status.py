"""The status of a tenant's destinations, for the API and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.event_export import queries, sending
from console.event_export.destinations import Destination
from console.event_export.operations import NO_SUCH_DESTINATION
from console.event_export.queries import ExportLag
from ledger.record.rules.refusals import NotFound

if TYPE_CHECKING:
    from console.models import EventDestination
    from ledger.models import Tenant


@dataclass(frozen=True)
class DestinationStatus:
    """One destination name: its address, if one is configured, and its progress, if it is active."""

    name: str
    address: Destination | None
    row: EventDestination | None
    lag: ExportLag | None

    @property
    def state(self) -> str:
        if self.row is None:
            return "NOT_STARTED"
        return "FAILING" if self.row.fault else "RUNNING"


def statuses(tenant: Tenant) -> list[DestinationStatus]:
    """Every destination that has an address or is being sent to, by name."""
    known, rows = sending.addresses(tenant), queries.running_destinations(tenant.id)
    return [
        DestinationStatus(name, known.get(name), row, queries.lag(row) if row else None)
        for name in sorted({*known, *rows})
        for row in [rows.get(name)]
    ]


def status_of(tenant: Tenant, name: str) -> DestinationStatus:
    """Return one of them; raise `NotFound` if there is none of that name."""
    for each in statuses(tenant):
        if each.name == name:
            return each
    raise NotFound(detail=NO_SUCH_DESTINATION)


def address_of(tenant: Tenant, name: str) -> Destination:
    """The address of a destination; `NotFound` where none is set."""
    found = sending.addresses(tenant).get(name)
    if found is None:
        raise NotFound(detail=NO_SUCH_DESTINATION)
    return found
