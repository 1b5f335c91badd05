"""Request and response schemas of incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Body, Comment, Paged, Reason, TextOrNull, Time
from console.freezes.schemas import FreezePlaced
from reviews.cases.rules.runbooks import tag_of

if TYPE_CHECKING:
    from reviews import models

Ids = Annotated[list[Annotated[UUID, Field(strict=False)]], Field(max_length=100)]


class IncidentsWanted(Paged):
    state: Literal["OPEN", "CLOSED"] = "OPEN"
    tag: Annotated[str, Field(max_length=40, description="A part of the taxonomy of five.")] = ""


class IncidentBody(Body):
    title: Annotated[str, Field(min_length=1, max_length=300)]
    kind: Literal["operations", "security"]
    severity: Annotated[int, Field(ge=1, le=4, description="1 is low, 4 is critical.")] = 2
    runbook: Annotated[str, Field(max_length=48)] = ""
    reason: Reason
    actions: Ids = []
    cases: Ids = []


class IncidentLinkBody(Body):
    actions: Ids = []
    cases: Ids = []


class StopDecision(Body):
    freeze_id: Annotated[UUID, Field(strict=False)]
    decision: Literal["lift", "keep"]


class CloseBody(Body):
    note: Reason
    freezes: Annotated[list[StopDecision], Field(max_length=100)] = []


class IncidentRow(Answer):
    incident_id: UUID = Field(validation_alias="id")
    kind: str
    severity: int
    title: str
    about: TextOrNull
    runbook: TextOrNull
    tag: TextOrNull = Field(description="The part of the taxonomy of five that its runbook names.")
    state: str
    closing_note: TextOrNull
    opened_at: Time
    closed_at: Time | None

    @classmethod
    def of(cls, row: models.Incident, /, **more: Any) -> Self:
        return super().of(row, tag=tag_of(row.runbook, row.about), **more)


class IncidentFreeze(FreezePlaced):
    reason: str
    in_force: bool


class IncidentEvent(Answer):
    event: str
    at: Time
    actor: UUID


class Incident(IncidentRow):
    actions: list[UUID]
    cases: list[UUID]
    freezes: list[IncidentFreeze]
    timeline: list[IncidentEvent]
    comments: list[Comment]


class IncidentState(Answer):
    incident_id: UUID
    state: str
