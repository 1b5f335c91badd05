"""Response schemas of the items that wait for a person."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Time


class WaitingItem(Answer):
    kind: str = Field(description="approval, confirmation (a second person is needed), case or incident.")
    id: UUID
    title: str
    says: str = Field(validation_alias="sub", description="Its subject in one sentence.")
    amount: str = Field(description="The amount in the call, formatted; empty if there is none.")
    since: Time
    decide_by: Time | None
    page: str = Field(validation_alias="href", description="Address of the page on which it is decided.")


class Inbox(Answer):
    items: list[WaitingItem] = Field(description="Oldest first, at most a hundred.")
