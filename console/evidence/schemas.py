"""Request and response schemas of evidence that people add."""

from __future__ import annotations

from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator

from console.edge.schemas import Answer, Body


class EvidenceBody(Body):
    action_id: Annotated[UUID, Field(strict=False)]
    text: Annotated[str, Field(min_length=1, max_length=500_000)] | None = None
    file: Annotated[bytes, Field(min_length=1)] | None = None
    media_type: Annotated[str, Field(max_length=100, pattern=r"^[a-z]+/[a-z0-9.+-]+$")] = "text/plain"

    @model_validator(mode="after")
    def _holds_one(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("Evidence is either a text or a file.")
        return self


class Pointer(Answer):
    pointer: UUID
