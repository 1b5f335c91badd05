"""Request and response schemas of the log."""

from __future__ import annotations

from typing import Annotated, Self
from uuid import UUID

from ninja import Schema
from pydantic import Field

from console.edge.schemas import Answer, Ask, Body, Index, Name, Reason, Time
from console.web.forms import WordsField
from counterfoil_tlog.merkle import leaf_hash


class InclusionWanted(Schema):
    index: Index
    size: Annotated[int | None, Field(ge=1, le=2**53 - 1)] = None


class ConsistencyWanted(Schema):
    since: Annotated[int, Field(alias="from", ge=0, le=2**53 - 1)]
    upto: Annotated[int | None, Field(alias="to", ge=0, le=2**53 - 1)] = None


class EventsWanted(Schema):
    since: Annotated[int, Field(alias="from", ge=0, le=2**53 - 1)] = 0
    upto: Annotated[int | None, Field(alias="to", ge=0, le=2**53 - 1)] = None
    action: UUID | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class Inclusion(Answer):
    origin: str
    index: int
    size: int
    leaf_hash: str
    hashes: list[str] = Field(description="The audit path, the leaf's sibling first, in hex (RFC 6962).")


class Growth(Answer):
    origin: str
    since: int = Field(serialization_alias="from")
    upto: int = Field(serialization_alias="to")
    hashes: list[str] = Field(description="The consistency proof, in hex (RFC 6962).")


class LedgerEvent(Answer):
    index: int
    leaf_hash: str
    envelope: str = Field(description="The canonical bytes that were hashed, as text.")

    @classmethod
    def at(cls, index: int, envelope: bytes) -> Self:
        return cls(index=index, leaf_hash=leaf_hash(envelope).hex(), envelope=envelope.decode("utf-8", "replace"))


class LedgerEvents(Answer):
    items: list[LedgerEvent]
    next: int | None = Field(description="The index to continue from; null at the end.")


class OverrideBody(Body):
    tools: Annotated[list[Name], Field(min_length=1, max_length=20), Ask(field=WordsField(max_length=2000))]
    minutes: Annotated[int, Field(ge=1, le=240)]
    reason: Reason


class Override(Answer):
    id: UUID
    tools: list[str]
    reason: str
    placed_at: Time
    ends_at: Time


class UnrecordedStart(Answer):
    action_id: UUID
    attempt: int
    executor_id: str
    tool: str
    target: str
    payload_hash: str
    started_at: Time
    status: str
    told_at: Time


class Standing(Answer):
    starts: bool = Field(description="Whether actions start on this record.")
    code: str | None = Field(description="Why they do not: RECORD_BEHIND, LOG_STOPPED or EPOCH_UNKNOWN.")
    detail: str | None
    overrides: list[Override] = Field(description="What people let start all the same.")
    unrecorded_starts: list[UnrecordedStart] = Field(
        description="Starts that executors kept and that this record, which was set back, does not have."
    )


class OverrideEnded(Answer):
    id: UUID
    ended: bool
