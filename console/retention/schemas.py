"""Request and response schemas of erasure, legal holds and retention."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django import forms
from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from console.edge.schemas import CODE, PASSWORD, Answer, Ask, Body, Paged, Reason
from console.retention.scans import SHORTEST
from console.web import labels
from ledger.retention.rules.retention import HoldScope

_AN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class PasswordBody(Body):
    password: Annotated[Annotated[str, Field(max_length=1000)] | None, PASSWORD] = None
    otp: Annotated[Annotated[str, Field(max_length=16)] | None, CODE] = None


class ErasuresWanted(Paged):
    state: Literal["REQUESTED", "CONFIRMED", "DONE", "REFUSED", "WITHDRAWN"] | None = None

    def filters(self) -> dict[str, Any]:
        return {"states": (self.state,) if self.state else ()}


class ActionsField(forms.CharField):
    """Actions by id or address, one per line; the last id of a line counts."""

    def clean(self, value: Any) -> Any:
        typed: str = super().clean(value).lower()
        found = [_AN_ID.findall(line) for line in typed.splitlines() if line.strip()]
        if not all(found):
            raise forms.ValidationError("Each line must name an action.")
        return list({UUID(ids[-1]): None for ids in found})


class PersonSearchForm(forms.Form):
    """The words by which a person is searched for: an address, a customer id, a name."""

    text = forms.CharField(
        min_length=SHORTEST,
        max_length=200,
        label="Email, customer id or name",
        error_messages={"required": "Enter an email, a customer id or a name."},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


class ErasureBody(Body):
    actions: Annotated[
        list[Annotated[UUID, Field(strict=False)]],
        Field(min_length=1, max_length=500),
        Ask(
            name="what",
            field=ActionsField(
                max_length=40000,
                label="Actions, by id or address, one per line",
                widget=forms.Textarea(attrs={"rows": 3}),
                error_messages={"required": "Name the actions."},
            ),
        ),
    ]
    legal_basis: Annotated[str, Field(min_length=1, max_length=300), Ask(missing="Name the legal basis.")]
    reason: Annotated[
        Reason,
        Field(description="The reason; do not name anybody, because it stays on record."),
        Ask(label="Reason (kept on record; do not name anybody)", missing="Enter a reason."),
    ]


class HoldsWanted(Paged):
    lifted: bool = False


class HoldBody(Body):
    scope: Annotated[
        Literal["action", "target", "agent", "recording", "all"],
        AfterValidator(HoldScope),
        Ask(label="Scope of the hold", choices=labels.HOLD_SCOPES),
    ]
    value: Annotated[str, Field(max_length=512, validate_default=True), Ask(label="Id or name")] = ""
    reason: Annotated[Reason, Ask(missing="Enter a reason for the hold.")]

    @field_validator("value")
    @classmethod
    def _check_value(cls, value: str, info: ValidationInfo) -> str:
        if "scope" in info.data and (info.data["scope"] == "all") != (value == ""):
            raise PydanticCustomError("value_error", "A hold on everything takes no name; every other hold needs one.")
        return value


Days = Annotated[int, Field(ge=1, le=36_500)]


class RetentionBody(Body):
    payload_days: Annotated[Days, Ask(label="Payloads, evidence and entries")] = 395
    envelope_days: Annotated[Days, Ask(label="Envelopes")] = 2557
    floor_days: Annotated[int, Field(ge=0, le=36_500), Ask(label="Minimum age")] = 0
    standing: Annotated[
        bool,
        Field(description="Whether expired data is erased without two approvals each time."),
        Ask(label="Delete expired data without two approvals each time"),
    ] = False


class Erasure(Answer):
    erasure_id: UUID = Field(validation_alias="id")
    state: str
    legal_basis: str
    reason: str
    subjects: int
    erased: int
    retention_id: UUID | None
    requested_by: UUID
    requested_at: datetime
    confirmed_by: UUID | None
    confirmed_at: datetime | None
    begun_at: datetime | None
    ended_at: datetime | None


class OffBoarding(Answer):
    off_boarding_id: UUID = Field(validation_alias="id")
    state: str
    reason: str
    requested_at: datetime


class ErasedThing(Answer):
    id: UUID
    kind: str
    erased: bool


class ErasureDetail(Erasure):
    named: list[ErasedThing]


class WhatStays(Answer):
    kind: str
    id: UUID
    reason: str


class ErasureAsked(Erasure):
    stays: list[WhatStays]


class Hold(Answer):
    hold_id: UUID = Field(validation_alias="id")
    scope: str
    value: str
    reason: str
    placed_by: UUID
    placed_at: datetime
    lifted_at: datetime | None


class HoldLifted(Answer):
    hold_id: UUID
    lifted: bool


class Retention(Answer):
    retention_id: UUID = Field(validation_alias="id")
    state: str
    payload_days: int
    envelope_days: int
    floor_days: int
    standing: bool
    proposed_by: UUID
    proposed_at: datetime
    confirmed_by: UUID | None
    confirmed_at: datetime | None
