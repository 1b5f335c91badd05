"""Request and response schemas of erasure, legal holds and retention."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from console.edge.schemas import Answer, Body, Paged, Reason


class PasswordBody(Body):
    password: Annotated[str, Field(max_length=1000)] | None = None
    otp: Annotated[str, Field(max_length=16)] | None = None


class ErasuresWanted(Paged):
    state: Literal["REQUESTED", "CONFIRMED", "DONE", "REFUSED", "WITHDRAWN"] | None = None


class ErasureBody(Body):
    actions: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(min_length=1, max_length=500)]
    legal_basis: Annotated[str, Field(min_length=1, max_length=300)]
    reason: Annotated[Reason, Field(description="The reason; do not name anybody, because it stays on record.")]


class HoldsWanted(Paged):
    lifted: bool = False


class HoldBody(Body):
    scope: Literal["action", "target", "agent", "recording", "all"]
    value: Annotated[str, Field(max_length=512)] = ""
    reason: Reason

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if (self.scope == "all") != (self.value == ""):
            raise ValueError("a hold on everything has no value, and every other hold has one")
        return self


class RetentionBody(Body):
    payload_days: Annotated[int, Field(ge=1, le=36_500)] = 395
    envelope_days: Annotated[int, Field(ge=1, le=36_500)] = 2557
    floor_days: Annotated[int, Field(ge=0, le=36_500)] = 0
    standing: Annotated[bool, Field(description="Whether expired data is erased without two approvals each time.")] = (
        False
    )


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
