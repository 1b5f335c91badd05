"""Request and response schemas of exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Body, Index, TextOrNull, Time

if TYPE_CHECKING:
    from ledger import models


class ExportBody(Body):
    """`from` and `to` are indexes of the log or times; `since` is the size of a checkpoint that you kept."""

    start: Annotated[
        Index | Annotated[str, Field(max_length=40)] | None, Field(alias="from", description="An index, or a time.")
    ] = None
    end: Annotated[
        Index | Annotated[str, Field(max_length=40)] | None, Field(alias="to", description="An index, or a time.")
    ] = None
    filters: dict[Annotated[str, Field(max_length=40)], Annotated[str, Field(min_length=1, max_length=512)]] = {}
    format: Literal["jsonl", "csv", "parquet"] = "jsonl"
    payloads: bool = True
    since: Annotated[int | None, Field(ge=1, le=2**53 - 1)] = None
    log: Annotated[int | None, Field(ge=1, le=1_000_000)] = None

    def wanted(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True)


class Export(Answer):
    export_id: UUID = Field(validation_alias="id")
    state: Literal["REQUESTED", "FINISHED", "FAILED"]
    requested_at: Time
    wanted: dict[str, Any]
    log: int | None
    start: int | None = Field(description="The first index of the range, once it is known.")
    end: int | None = Field(description="The index after the last one.")
    done: int = Field(description="Number of entries written.")
    total: int
    withheld: int
    size: int | None
    sha256: TextOrNull
    reason: TextOrNull = Field(description="Why it failed.")
    finished_at: Time | None
    expires_at: Time | None = Field(description="When the bundle is removed.")

    @classmethod
    def of(cls, row: models.Export, /, **more: Any) -> Self:
        known = {"start": row.start, "end": row.end} if row.log else {"start": None, "end": None}
        return super().of(row, log=row.log or None, done=row.done - row.start, total=row.end - row.start, **known)
