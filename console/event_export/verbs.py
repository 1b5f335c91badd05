"""Stopping an event export, by one declaration for its page and the API."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from console.edge.schemas import SHORT_REASON, ReasonBody
from console.event_export import operations, schemas
from console.event_export.status import statuses
from console.verbs.verb import Verb
from ledger.record.operations import Actor
from ledger.record.queries import events

if TYPE_CHECKING:
    from console.models import EventDestination


def destinations_answer(tenant_id: UUID) -> schemas.EventDestinations:
    """Describe the destinations of a tenant."""
    found = statuses(events.tenant_by_id(tenant_id))
    return schemas.EventDestinations(items=[schemas.EventDestinationShown.of(each) for each in found])


def _stop(*, tenant_id: UUID, destination_name: str, reason: str, by: Actor, at: datetime) -> EventDestination:
    return operations.stop(tenant_id=tenant_id, name=destination_name, reason=reason, by=by, at=at)


STOP: Final = Verb(
    name="stop",
    path="/event-destinations/{destination_name}/stop",
    part=str,
    operation=_stop,
    body=ReasonBody,
    asks={"reason": SHORT_REASON},
    roles=("compliance", "administrator"),
    answer=schemas.EventDestinations,
    told=lambda row, _: destinations_answer(row.tenant_id),
    summary="Stop sending events to a destination",
    done=lambda row: f"Event export to {row.name} stopped.",
    incomplete="Not stopped: enter a reason.",
)
