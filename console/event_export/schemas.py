"""Request and response schemas of event destinations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from console.edge.schemas import Answer, Body, TextOrNull, Time
from console.event_export.operations import Start
from console.event_export.status import DestinationStatus
from ledger.record.rules.refusals import Refused


class BadStart(Refused):
    """Name a start: "beginning", "now", a log index or a time with its zone."""

    code = "BAD_START"
    status = 422


class EventExportStart(Body):
    start: Annotated[
        Annotated[int, Field(ge=0, le=2**53 - 1)] | Annotated[str, Field(max_length=40)],
        Field(description='"beginning", "now", a log index or a time with its zone.'),
    ] = "now"

    def chosen(self) -> Start:
        return read_start(self.start)


def read_start(given: str | int) -> Start:
    """Parse a starting point; `BadStart` if it is none of the four forms."""
    if isinstance(given, int) or given in ("beginning", "now"):
        return given
    if given.isascii() and given.isdecimal():
        return int(given)
    try:
        found: datetime = TypeAdapter(AwareDatetime).validate_python(given)
    except ValidationError:
        raise BadStart from None
    return found


class Place(Answer):
    log: int
    index: int = Field(description="The last entry delivered; -1 before the first.")


class EventDestinationShown(Answer):
    name: str
    kind: Literal["webhook", "otlp"] | None = Field(description="Null if its address is no longer configured.")
    server: TextOrNull = Field(description="Without the path, which may be secret.")
    state: Literal["NOT_STARTED", "RUNNING", "FAILING"]
    fault: TextOrNull = Field(description="Error of the last attempt.")
    failures: int = Field(description="Consecutive failed attempts.")
    retry_at: Time | None
    started_at: Time | None
    sent_at: Time | None = Field(description="Time of the last delivery.")
    sent: int = Field(description="Events delivered; repeated deliveries count again.")
    refused: int = Field(description="Records that the collector reported as dropped.")
    place: Place | None
    waiting: int = Field(description="Signed events not yet delivered.")
    oldest_waiting_at: Time | None

    @classmethod
    def of(cls, shown: DestinationStatus, /, **more: Any) -> Self:
        row, address, lag = shown.row, shown.address, shown.lag
        return super().of(
            shown,
            kind=address.kind if address else None,
            server=address.server if address else "",
            fault=row.fault if row else "",
            failures=row.failures if row else 0,
            retry_at=row.retry_at if row else None,
            started_at=row.started_at if row else None,
            sent_at=row.sent_at if row else None,
            sent=row.sent if row else 0,
            refused=row.refused if row else 0,
            place=Place(log=row.log, index=row.index) if row else None,
            waiting=lag.events if lag else 0,
            oldest_waiting_at=lag.oldest_at if lag else None,
            **more,
        )


class EventDestinations(Answer):
    items: list[EventDestinationShown]


class Tested(Answer):
    delivered: bool
    fault: TextOrNull
