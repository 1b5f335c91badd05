"""What the guard takes and answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from console.api.answers import Answer
from console.api.schemas import Body, Paged


class ClaimBody(Body):
    tool: Annotated[str, Field(min_length=1, max_length=128)]
    statement: Annotated[str, Field(min_length=1, max_length=8000)]
    action_id: Annotated[str, Field(max_length=64)] | None = None
    target: Annotated[str, Field(max_length=512)] | None = None


class GuardBody(Body):
    message: Annotated[str, Field(max_length=1024 * 1024)]
    claims: Annotated[
        list[ClaimBody],
        Field(max_length=200, description="What the message claims, in so many fields; the text is read all the same."),
    ] = []


class VerdictsWanted(Paged):
    code: Annotated[str, Field(max_length=40)] = ""
    tag: Annotated[str, Field(max_length=40, description="A part of the taxonomy of five.")] = ""


class GuardViolation(Answer):
    code: str
    span: list[int] = Field(description="Where the claim stands in the message: from, to.")
    claim: str
    action_id: str | None
    detail: str
    rule: str = Field(description="The rule that found the claim.")
    tag: str = Field(description="The part of the taxonomy of five.")


class GuardAnswer(Answer):
    verdict: Literal["ALLOW", "BLOCK"]
    violations: list[GuardViolation]
    corrected: str | None = Field(description="What may go out in its place; null where the message may.")


class GuardVerdict(Answer):
    verdict_id: str
    verdict: Literal["ALLOW", "BLOCK"]
    codes: list[str]
    tags: list[str]
    claims: list[dict[str, Any]]
    records: list[dict[str, Any]]
    message_hash: str = Field(description="SHA-256 of the message; empty where the session was erased.")
    at: datetime


class GuardLog(Answer):
    items: list[GuardVerdict]
    next: str | None
