"""Request and response schemas of break-glass."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django import forms
from pydantic import Field

from approvals.voting.rules import break_glass
from console.edge.schemas import Answer, Ask, Body, Paged, Reason, SpeltTime, Time


class EmergenciesWanted(Paged):
    """Which uses of break-glass a list is of."""

    reviewed: bool = False


class EmergencyReviewBody(Body):
    """What somebody found who looked at it afterwards."""

    finding: Annotated[
        break_glass.Finding,
        Field(strict=False),
        Ask(
            field=forms.ChoiceField(
                choices=[(each.value, each.value) for each in break_glass.Finding],
                error_messages={"required": "Choose whether it was justified."},
            )
        ),
    ]
    reason: Annotated[Reason, Ask(missing="Enter what you checked.")]


class EmergencyReview(Answer):
    """One person's finding."""

    actor: str
    finding: str
    reason: str
    at: SpeltTime


class Emergency(Answer):
    """One use of break-glass."""

    emergency_id: UUID = Field(validation_alias="id")
    approval_id: UUID
    action_id: UUID
    used_by: UUID
    reason: str
    used_at: Time
    review_by: Time
    reviewed_at: Time | None
    reviews: list[EmergencyReview]


class EmergencyState(Answer):
    """Where the review of one use stands."""

    emergency_id: UUID
    state: str
