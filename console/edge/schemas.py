"""Shapes of requests and answers. A body refuses unknown fields, so that nothing a client says is silently dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Self, TypeVar
from uuid import UUID

from django import forms
from ninja import Schema
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from ledger.record.rules.envelope import instant

T = TypeVar("T")

Time = Annotated[
    datetime,
    PlainSerializer(instant, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time with six fractional digits."""

SpeltTime = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time stored as text in a document; returned unchanged."""

TextOrNull = Annotated[str | None, BeforeValidator(lambda value: value or None)]
"""A text; empty is returned as null."""

HasHappened = BeforeValidator(lambda at: at is not None)
"""Whether the time of the event is known."""


class Answer(BaseModel):
    """An answer, or a part of one: what the OpenAPI document describes is what is sent."""

    # What a stored document holds beyond its answer is not sent.
    model_config = ConfigDict(
        extra="ignore", from_attributes=True, populate_by_name=True, json_schema_extra={"additionalProperties": False}
    )

    @classmethod
    def of(cls, row: Any, /, **more: Any) -> Self:
        """The answer about a row: its attributes by the names (or aliases) of the fields, and what it has not."""
        return cls.model_validate(_Joined(row, more) if more else row)


class _Joined:
    __slots__ = ("_more", "_row")

    def __init__(self, row: object, more: dict[str, object]) -> None:
        self._row = row
        self._more = more

    def __getattr__(self, name: str) -> Any:
        return self._more[name] if name in self._more else getattr(self._row, name)


class Page(Answer, Generic[T]):
    items: list[T]
    next: str | None = Field(description="The cursor of the next page; null on the last.")


class LintFinding(Answer):
    code: str
    path: str
    detail: str


class Comment(Answer):
    author: UUID
    text: str
    at: Time


class CommentTaken(Answer):
    comment_id: UUID = Field(validation_alias="id")


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The field with which a page asks for a member of a body; an annotation that no API document shows.

    `missing` is shown where nothing was entered. `name` is the name in the form where that is another one, and `field`
    the whole field where it does not follow from the member: its cleaned value is what the member is given.
    """

    label: str | None = None
    missing: str = ""
    choices: Mapping[str, str] | None = None
    name: str = ""
    field: forms.Field | None = None


PASSWORD = Ask(
    field=forms.CharField(
        required=False,
        strip=False,
        label="Confirm with your password",
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
)
CODE = Ask(
    field=forms.CharField(
        required=False,
        max_length=16,
        label="Or with a one-time code",
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "one-time-code"}),
    )
)

Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]*$")]
Text = Annotated[str, Field(min_length=1, max_length=8000)]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=4000),
    Ask(missing="Enter a reason. It is kept in the audit log."),
]
SHORT_REASON = Ask(
    field=forms.CharField(
        max_length=1000, label="Reason", error_messages={"required": "Enter a reason. It is kept in the audit log."}
    )
)
Index = Annotated[int, Field(ge=0, le=2**53 - 1)]


# Ids begin with their time, so these are the times that a list can be cut at.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
Moment = Annotated[AwareDatetime, Field(ge=EARLIEST)]


class Body(Schema):
    model_config = ConfigDict(extra="forbid", strict=True)


class Paged(Schema):
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None

    def filters(self) -> dict[str, Any]:
        """The filters of a list's query, by the names of its parameters."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in Paged.model_fields}


class ReasonBody(Body):
    reason: Reason


class CommentBody(Body):
    text: Annotated[
        Text,
        Ask(
            field=forms.CharField(
                max_length=4000,
                widget=forms.Textarea(attrs={"rows": 2, "id": "id_text"}),
                error_messages={"required": "Enter a text."},
            )
        ),
    ]
