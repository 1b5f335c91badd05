"""What the API answers about what waits for a person."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field

from console.api.schemas import Answer, Time


class WaitingItem(Answer):
    kind: str = Field(description="approval, confirmation (a second person is needed), case or incident.")
    id: UUID
    title: str
    says: str = Field(validation_alias="sub", description="What it is about, in a sentence.")
    amount: str = Field(description="The amount that the call names, as people read it; empty where it names none.")
    since: Time
    decide_by: Time | None
    page: str = Field(validation_alias="href", description="The address of the page on which it is decided.")


class Inbox(Answer):
    items: list[WaitingItem] = Field(description="The oldest first, at most a hundred.")
