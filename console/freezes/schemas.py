"""Request and response schemas of freezes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import Field

from console.cases import containment
from console.edge.schemas import Answer, Body, Reason

if TYPE_CHECKING:
    from ledger import models


class FreezeBody(Body):
    scope: Literal["agent", "tool", "target", "tenant", "all"]
    value: Annotated[str, Field(max_length=512)] = ""
    reason: Reason
    unknown_ok: Annotated[bool, Field(description="Freeze a name that is not known here yet.")] = False


class FreezePlaced(Answer):
    freeze_id: UUID = Field(validation_alias="id")
    scope: str
    value: str


class OpenWork(Answer):
    incidents: list[UUID]
    cases: list[UUID]

    @classmethod
    def of(cls, freeze: models.Freeze, /, **more: Any) -> Self:
        """The open work that a freeze stops."""
        work = containment.open_work(freeze.tenant_id, [freeze])[freeze.id]
        return cls(**{kind: [row.id for row in rows] for kind, rows in work.items()})


class Freeze(FreezePlaced):
    reason: str
    still_open: OpenWork

    @classmethod
    def of(cls, row: models.Freeze, /, **more: Any) -> Self:
        return super().of(row, still_open=OpenWork.of(row), **more)


class Lifted(Answer):
    freeze_id: UUID
    lifted: bool
    still_open: OpenWork
